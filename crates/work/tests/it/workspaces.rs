//! Workspaces: what they share, how they go, what is swept.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netsky_work::Error;
use netsky_work::git::{Git, Identity, RefName};
use netsky_work::harvest::Outcome;
use netsky_work::workspace::{Over, Removed, SHARE_FROM, Wish, bytes, create, find, list, remove};

use crate::support::{Bench, These, commit, git, head, landed, main_branch, swept, task};

#[test]
fn a_workspace_is_a_clone_of_its_own_on_its_own_branch() {
    let bench = Bench::new();
    let wish = Wish {
        task: task("t1"),
        repo: bench.remote(),
        main: main_branch(),
        branch: Some(RefName::branch("fix/a").expect("a name")),
        author: Some(Identity::new("agent7", "agent7@localhost").expect("fit")),
        share_from: SHARE_FROM,
    };
    let git_of = Git::find().expect("git");
    let made = create(&bench.layout, &git_of, &wish).expect("made");
    let folder = made.folder(&bench.layout);
    assert_eq!(git(&folder, &["status", "--porcelain", "--branch"]), "## fix/a");
    assert_eq!((head(&folder, "HEAD"), made.base.clone()), (bench.main(), bench.main()));
    assert_eq!(git(&folder, &["config", "remote.origin.url"]), bench.repo.to_str().expect("text"));
    assert_eq!(git(&folder, &["config", "user.name"]), "agent7");
    assert!(
        !crate::support::command(&folder)
            .args(["push", "origin", "HEAD"])
            .output()
            .expect("runs")
            .status
            .success()
    );
    assert_eq!(find(&bench.layout, &task("t1")).expect("reads").as_ref(), Some(&made));
    assert_eq!(list(&bench.layout).expect("listed").len(), 1);
    let took = bytes(&bench.layout, &task("t1")).expect("counted");
    assert!(took.own > 4096 && took.shared == 0, "{took:?}");
    assert!(matches!(create(&bench.layout, &git_of, &wish), Err(Error::Unfit { .. })), "one a task");
    let wish = Wish { task: task("t2"), main: RefName::branch("no-such").expect("a name"), ..wish };
    assert!(create(&bench.layout, &git_of, &wish).is_err());
    assert_eq!(list(&bench.layout).expect("listed").len(), 1, "nothing is left of what failed");
}

#[test]
fn a8_a_workspace_shares_no_file_and_no_object_with_anybody() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    assert!(!clone.join(".git/objects/info/alternates").exists());
    let mut open = vec![clone.join(".git")];
    let mut files = 0;
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("listed").flatten() {
            let of = entry.metadata().expect("seen");
            assert!(of.is_dir() || of.nlink() == 1, "{} has another name", entry.path().display());
            assert!(!of.is_symlink());
            files += 1;
            if of.is_dir() {
                open.push(entry.path());
            }
        }
    }
    assert!(files > 10);
    assert!(!clone.join(".git/hooks").exists(), "no hook came with it");
}

/// A workspace that has its packs in common with its mirror, as a large one would.
fn large(bench: &Bench, name: &str) -> PathBuf {
    let (repo, author) = (bench.remote(), None);
    let wish = Wish { task: task(name), repo, main: main_branch(), branch: None, author, share_from: 0 };
    let made = create(&bench.layout, &Git::find().expect("git"), &wish).expect("made");
    assert!(bytes(&bench.layout, &task(name)).expect("counted").shared > 0, "{name} shares");
    made.folder(&bench.layout)
}

fn pack_of(clone: &Path) -> PathBuf {
    let folder = fs::read_dir(clone.join(".git/objects/pack")).expect("listed");
    let mut packs = folder.flatten().map(|entry| entry.path());
    packs.find(|path| path.extension().is_some_and(|word| word == "pack")).expect("a pack")
}

#[test]
fn a8_a_large_workspace_shares_packs_by_name_and_outlives_the_others() {
    let bench = Bench::new();
    let (one, other) = (large(&bench, "t1"), large(&bench, "t2"));
    assert!(!one.join(".git/objects/info/alternates").exists(), "nothing by reference");
    let node = |clone: &Path| fs::metadata(pack_of(clone)).expect("seen").ino();
    assert_eq!(node(&one), node(&other));
    // What git does in one is seen in none: it writes no pack in place.
    commit(&one, "d", "new\n", "first");
    git(&one, &["gc", "--quiet", "--prune=now"]);
    git(&one, &["reflog", "expire", "--expire=now", "--all"]);
    git(&other, &["fsck", "--strict", "--full"]);
    assert_eq!(
        remove(&bench.layout, &task("t1"), Over::Forced, &|_| Ok(())).expect("removed"),
        Removed::Gone
    );
    fs::remove_dir_all(bench.layout.mirrors()).expect("gone");
    git(&other, &["fsck", "--strict", "--full"]);
    commit(&other, "e", "new\n", "second");
    landed(bench.harvest("t2"));
    git(&bench.repo, &["fsck", "--strict", "--full"]);
}

#[test]
fn a8_packs_that_an_agent_wrote_to_are_given_to_nobody_again() {
    let bench = Bench::new();
    let clone = large(&bench, "t1");
    let pack = pack_of(&clone);
    let written = fs::metadata(&pack).expect("seen").modified().expect("an instant");
    let mut mode = fs::metadata(&pack).expect("seen").permissions();
    #[expect(clippy::permissions_set_readonly_false, reason = "an agent does what it wants")]
    mode.set_readonly(false);
    fs::set_permissions(&pack, mode).expect("set");
    let mut bytes = fs::read(&pack).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    // In place, and with the instant of before.
    let mut file = fs::OpenOptions::new().write(true).open(&pack).expect("opens");
    file.write_all(&bytes).expect("written");
    file.set_modified(written).expect("set");
    let next = large(&bench, "t2");
    git(&next, &["fsck", "--strict", "--full"]);
    commit(&next, "d", "new\n", "first");
    landed(bench.harvest("t2"));
    git(&bench.repo, &["fsck", "--strict", "--full"]);
}

#[test]
fn fm_workspace_kill_what_a_git_that_died_in_the_mirror_left_locked_stops_nobody() {
    let bench = Bench::new();
    bench.workspace("t1");
    let mut mirrors =
        fs::read_dir(bench.layout.mirrors()).expect("listed").flatten().map(|entry| entry.path());
    let mirror = mirrors.find(|path| path.extension().is_some_and(|end| end == "git")).expect("one");
    commit(&bench.repo, "d", "new\n", "meanwhile");
    fs::write(mirror.join("git/refs/heads/main.lock"), "").expect("written");
    let clone = bench.workspace("t2");
    assert_eq!(head(&clone, "HEAD"), bench.main());
}

#[test]
fn a_workspace_goes_when_it_has_landed_or_by_force() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&clone, "d", "new\n", "first");
    let came = landed(bench.harvest("t1"));
    let later = commit(&clone, "d", "newer\n", "second");
    let kept = These([head(&clone, "origin/main"), came.tip].into());
    let over = Over::Landed { elsewhere: &kept, lets_nested_go: false, is_used: &|| false };
    assert_eq!(
        remove(&bench.layout, &task("t1"), over, &|_| Ok(())).expect("looked"),
        Removed::HasMore(format!("refs/heads/task/t1 is at {later}"))
    );
    let came = landed(bench.harvest("t1"));
    git(&clone, &["pack-refs", "--all"]);
    // A tool shut a folder.
    let shut = clone.join("shut");
    fs::create_dir(&shut).expect("made");
    fs::write(shut.join("x"), "").expect("written");
    let mut mode = fs::metadata(&shut).expect("seen").permissions();
    mode.set_readonly(true);
    fs::set_permissions(&shut, mode).expect("set");
    let kept = These([head(&clone, "origin/main"), came.tip].into());
    let over = Over::Landed { elsewhere: &kept, lets_nested_go: false, is_used: &|| false };
    assert_eq!(remove(&bench.layout, &task("t1"), over, &|_| Ok(())).expect("removed"), Removed::Gone);
    assert_eq!(
        remove(&bench.layout, &task("t1"), Over::Forced, &|_| Ok(())).expect("looked"),
        Removed::NotThere
    );
    assert!(matches!(bench.harvest("t1"), Outcome::Refused(_)));
    commit(&bench.workspace("t1"), "e", "new\n", "third");
    assert_eq!(
        remove(&bench.layout, &task("t1"), Over::Forced, &|_| Ok(())).expect("removed"),
        Removed::Gone
    );
    let came = swept(&bench.layout);
    assert_eq!((came.workspaces, came.scratch, came.mirrors), (0, 0, 1));
    bench.workspace("t2");
    assert_eq!(swept(&bench.layout).mirrors, 0, "one that is needed stays");
}

#[test]
fn fm_workspace_kill_before_anything_marks_what_is_made_it_is_swept_all_the_same() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    let folder = bench.layout.workspaces();
    for (name, inside) in [("bare", None), ("begun", Some("tmp")), ("held", Some("lock"))] {
        let at = folder.join(format!(".new-t2-{name}"));
        netsky_disk::fs::Dir::create(&at).expect("made");
        match inside {
            Some("tmp") => drop(netsky_disk::fs::Dir::create(at.join("tmp")).expect("made")),
            Some(name) => fs::write(at.join(name), "").expect("written"),
            None => {}
        }
    }
    assert_eq!(swept(&bench.layout).workspaces, 3);
    assert_eq!(swept(&bench.layout).workspaces, 0, "once");
    assert!(clone.exists(), "what is finished stays");
}
