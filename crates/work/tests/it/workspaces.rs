//! Workspaces: what they share, how they go, what is swept.

use std::fs;
use std::os::unix::fs::MetadataExt;

use netsky_work::Error;
use netsky_work::git::{Git, Identity, RefName};
use netsky_work::harvest::Outcome;
use netsky_work::workspace::{Over, Removed, Wish, create, find, gc, list, remove};

use crate::support::{Bench, commit, git, head, landed, main_branch, task};

#[test]
fn a_workspace_is_a_clone_of_its_own_on_its_own_branch() {
    let bench = Bench::new();
    let wish = Wish {
        task: task("t1"),
        repo: bench.remote(),
        main: main_branch(),
        branch: Some(RefName::branch("fix/a").expect("a name")),
        author: Some(Identity::new("agent7", "agent7@localhost").expect("fit")),
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
    assert!(made.bytes(&bench.layout).expect("counted") > 4096);
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

#[test]
fn a_workspace_goes_when_it_has_landed_or_by_force() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&clone, "d", "new\n", "first");
    let came = landed(bench.harvest("t1"));
    let later = commit(&clone, "d", "newer\n", "second");
    let over = Over::Landed(came.tip);
    assert_eq!(remove(&bench.layout, &task("t1"), &over).expect("looked"), Removed::HasMore(Some(later)));
    let came = landed(bench.harvest("t1"));
    git(&clone, &["pack-refs", "--all"]);
    // A tool shut a folder.
    let shut = clone.join("shut");
    fs::create_dir(&shut).expect("made");
    fs::write(shut.join("x"), "").expect("written");
    let mut mode = fs::metadata(&shut).expect("seen").permissions();
    mode.set_readonly(true);
    fs::set_permissions(&shut, mode).expect("set");
    let over = Over::Landed(came.tip);
    assert_eq!(remove(&bench.layout, &task("t1"), &over).expect("removed"), Removed::Gone);
    assert_eq!(remove(&bench.layout, &task("t1"), &Over::Forced).expect("looked"), Removed::NotThere);
    assert!(matches!(bench.harvest("t1"), Outcome::Refused(_)));
    commit(&bench.workspace("t1"), "e", "new\n", "third");
    assert_eq!(remove(&bench.layout, &task("t1"), &Over::Forced).expect("removed"), Removed::Gone);
    let swept = gc(&bench.layout).expect("swept");
    assert_eq!((swept.workspaces, swept.scratch, swept.mirrors), (0, 0, 1));
    bench.workspace("t2");
    assert_eq!(gc(&bench.layout).expect("swept").mirrors, 0, "one that is needed stays");
}
