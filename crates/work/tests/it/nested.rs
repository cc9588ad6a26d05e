//! Repositories within a workspace: which of them keep it, and which do not.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use netsky_model::task::{Event, How};
use netsky_work::Error;
use netsky_work::git::Sha;
use netsky_work::landing::{Consent, Wish};
use netsky_work::workspace::{Elsewhere, unlanded};

use crate::desk::{bench, desk, draft};
use crate::support::{Bench, HELPER, command, commit, git, landed, sweep, task};

/// Runs lines of a shell where an agent would, by a git with nobody's settings; `$UP` is somebody else's repository, `$OWNERS` that of
/// the owner, `$CLONE` the workspace's clone, and `c FOLDER WORDS` makes a commit.
fn script(bench: &Bench, clone: &Path, folder: &Path, lines: &str) {
    const COMMIT: &str =
        "c() { echo \"$2\" > \"$1/own\"; git -C \"$1\" add own; git -C \"$1\" commit -q -m \"$2\"; }";
    fs::create_dir_all(folder).expect("made");
    let mut shell = Command::new("sh");
    shell.args(["-euc", &format!("{COMMIT}\n{lines}")]).current_dir(folder).env_clear();
    for (key, value) in command(folder).get_envs() {
        shell.env(key, value.expect("set"));
    }
    let output = shell
        .env("UP", bench.temp.path().join("up"))
        .env("OWNERS", &bench.repo)
        .env("CLONE", clone)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{lines}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What keeps it: a repository with something that the owner's has not, where it is, and the first name of that.
const KEEPS: &[(&str, &str, &str)] = &[
    ("git clone -q $OWNERS d; c d own", "build/d/.git", "refs/heads/main"),
    ("git init -q -b w d; c d own", "build/d/.git", "refs/heads/w"),
    // What a build fetched, for nobody sees who made it.
    ("git clone -q $UP d", "build/d/.git", "refs/heads/main"),
    ("git clone -q --depth 1 file://$UP d", "build/d/.git", "refs/heads/main"),
    ("git init -q d; git -C d fetch -q $UP main; git -C d checkout -q FETCH_HEAD", "build/d/.git", "HEAD"),
    // No log tells of it any more, or ever did, or tells of something else.
    (
        "git clone -q $OWNERS d; c d own; git -C d reflog expire --expire=now --all; git -C d gc -q --prune=now",
        "build/d/.git",
        "refs/heads/main",
    ),
    (
        "git clone -q $OWNERS d; git -C d config core.logAllRefUpdates false; c d own",
        "build/d/.git",
        "refs/heads/main",
    ),
    ("git clone -q $OWNERS d; GIT_REFLOG_ACTION='clone: from /' c d own", "build/d/.git", "refs/heads/main"),
    // Any name: a branch, a tag, its words, what is called as a branch of a remote, one that nobody knows.
    (
        "git clone -q $OWNERS d; git -C d branch w $(git -C d commit-tree -m own HEAD^{tree})",
        "build/d/.git",
        "refs/heads/w",
    ),
    (
        "git clone -q $OWNERS d; git -C d tag w $(git -C d commit-tree -m own HEAD^{tree})",
        "build/d/.git",
        "refs/tags/w",
    ),
    ("git clone -q $OWNERS d; git -C d tag -a -m own w", "build/d/.git", "refs/tags/w"),
    (
        "git clone -q $OWNERS d; git -C d tag w $(echo own | git -C d hash-object -w --stdin)",
        "build/d/.git",
        "refs/tags/w",
    ),
    (
        "git clone -q $OWNERS d; c d own; git -C d fetch -q . HEAD:refs/remotes/origin/x; git -C d reset -q --hard HEAD~1",
        "build/d/.git",
        "refs/remotes/origin/x",
    ),
    (
        "git clone -q $OWNERS d; git -C d update-ref refs/w $(git -C d commit-tree -m own HEAD^{tree}); git -C d pack-refs --all",
        "build/d/.git",
        "refs/w",
    ),
    ("git clone -q $OWNERS d; git -C d checkout -q --detach; c d own", "build/d/.git", "HEAD"),
    ("git clone -q $OWNERS d; git -C d commit -q --amend -m own", "build/d/.git", "refs/heads/main"),
    (
        "git clone -q $OWNERS d; echo own > d/own; git -C d add own; git -C d stash -q",
        "build/d/.git",
        "refs/stash",
    ),
    (
        "git clone -q $OWNERS d; echo 1 > d/own; git -C d add own; git -C d stash -q; echo 2 > d/own; git -C d add own; git -C d stash -q; \
         git -C d update-ref refs/stash HEAD",
        "build/d/.git",
        "refs/stash@{1}",
    ),
    (
        "git clone -q $OWNERS d; git clone -q $OWNERS a; c a own; git -C d pull -q --no-commit --no-ff ../a HEAD; rm -rf a",
        "build/d/.git",
        "MERGE_HEAD",
    ),
    // Of what is under way.
    (
        "git clone -q $OWNERS d; git clone -q $OWNERS a; echo a > a/a; git -C a commit -q -a -m own; echo b > d/a; git -C d commit -q -a -m b; \
         git -C d push -q $OWNERS HEAD:refs/heads/b; git -C d fetch -q ../a; ! git -C d cherry-pick FETCH_HEAD >&2; rm -rf a",
        "build/d/.git",
        "CHERRY_PICK_HEAD is at ",
    ),
    (
        "git clone -q $OWNERS d; echo own > d/a; git -C d commit -q -a -m own; O=$(git -C d rev-parse HEAD); git -C d reset -q --hard HEAD~1; \
         echo x > d/a; git -C d commit -q -a -m x; git -C d push -q origin HEAD:refs/heads/x; ! git -C d revert --no-edit $O >&2",
        "build/d/.git",
        "REVERT_HEAD is at ",
    ),
    (
        "git clone -q $OWNERS d; git -C d worktree add -q --detach ../wt v1; echo own > wt/a; \
         git -C wt merge -q --no-commit --no-ff --autostash origin/main >&2",
        "build/d/.git",
        "worktrees/wt/MERGE_AUTOSTASH is at ",
    ),
    (
        "git clone -q $OWNERS d; git -C d checkout -q --detach; c d one; c d two; git -C d bisect start >&2; git -C d bisect bad origin/main >&2; \
         git -C d bisect good HEAD~3 >&2; git -C d checkout -q --detach origin/main",
        "build/d/.git",
        "BISECT_START is at ",
    ),
    (
        "git clone -q $OWNERS d; git -C d checkout -q --detach; c d one; c d two; \
         GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git -C d rebase -q -i HEAD~2 2>&1; git -C d reset -q --hard origin/main",
        "build/d/.git",
        "rebase-merge is under way",
    ),
    (
        "git clone -q $OWNERS d; git -C d worktree add -q --detach ../wt v1; c wt own; git -C wt format-patch -q -1 --stdout > p; \
         git -C wt reset -q --hard HEAD~1; echo x > wt/own; ! git -C wt am ../p >&2; rm p",
        "build/d/.git",
        "worktrees/wt/rebase-apply is under way",
    ),
    (
        "git clone -q $OWNERS a; echo a > a/a; git -C a commit -q -a -m own; c a two; git clone -q $OWNERS d; echo b > d/a; git -C d commit -q -a -m b; \
         git -C d fetch -q ../a; ! git -C d cherry-pick origin/main..FETCH_HEAD >&2; git -C d commit -q -a -m c; git -C d push -q origin HEAD:refs/heads/c; rm -rf a",
        "build/d/.git",
        "sequencer is under way",
    ),
    // Of one checkout alone.
    (
        "git clone -q $OWNERS d; git -C d worktree add -q --detach ../wt; c wt own",
        "build/d/.git",
        "worktrees/wt/HEAD",
    ),
    (
        "git clone -q $OWNERS d; git -C d worktree add -q --detach $UP.w1; c $UP.w1 own",
        "build/d/.git",
        "worktrees/up.w1/HEAD",
    ),
    (
        "git clone -q $OWNERS d; git -C d worktree add -q --detach ../wt; \
         git -C wt update-ref refs/worktree/k $(git -C d commit-tree -m own HEAD^{tree})",
        "build/d/.git",
        "worktrees/wt/refs/worktree/k",
    ),
    // Of another one that is gone, or has it no more, or is beside the home.
    ("git clone -q $OWNERS a; c a own; git clone -q a b; rm -rf a", "build/b/.git", "refs/heads/main"),
    (
        "git clone -q $OWNERS a; c a own; git clone -q $OWNERS b; git -C b fetch -q ../a HEAD:x; rm -rf a",
        "build/b/.git",
        "refs/heads/x",
    ),
    (
        "git clone -q $OWNERS a; c a own; git clone -q a b; git -C a reset -q --hard HEAD~1",
        "build/b/.git",
        "refs/heads/main",
    ),
    (
        "c $CLONE own; git clone -q $CLONE d; git -C $CLONE reset -q --hard HEAD~1; git -C $CLONE reflog expire --expire=now --all",
        "build/d/.git",
        "refs/heads/task/t1",
    ),
    (
        "git clone -q $OWNERS d; c d own; git clone -q --bare d $UP.w2; git -C d push -q $UP.w2 HEAD:x",
        "build/d/.git",
        "refs/heads/main",
    ),
    ("git clone -q $OWNERS d; git clone -q -s $PWD/d b; c b own", "build/b/.git", "refs/heads/main"),
    // Wherever it is, and whatever it is called.
    (
        "git init -q --bare a; git clone -q $OWNERS b; c b own; git -C b push -q ../a HEAD:x; rm -rf b",
        "build/a",
        "refs/heads/x",
    ),
    ("git init -q d; c d own; mv d/.git store; ln -s ../store d/.git", "build/store", "refs/heads/master"),
    ("git init -q d; c d own; mv d/.git store; rm -rf d", "build/store", "refs/heads/master"),
    ("git init -q --separate-git-dir=\"$PWD/sep \" d; c d own", "build/sep", "refs/heads/master"),
    ("git init -q --separate-git-dir=$PWD/store $UP.w3; c $UP.w3 own", "build/store", "refs/heads/master"),
    (
        "git clone -q $OWNERS d; git -C d -c protocol.file.allow=always submodule --quiet add $OWNERS sub; c d/sub own; \
         git -C d submodule --quiet deinit -f sub; git -C d reset -q --hard",
        "build/d/.git/modules/sub",
        "refs/heads/main",
    ),
    (
        "git init -q d; c d own; mkdir ../.git/modules; mv d/.git ../.git/modules/lib",
        ".git/modules/lib",
        "refs/heads/master",
    ),
    ("git init -q ../../lib; c ../../lib own", "../lib/.git", "refs/heads/master"),
    // What is there of it.
    ("git clone -q $OWNERS d; rm d/.git/HEAD; rm -r d/.git/refs", "build/d/.git", ""),
    ("git init -q --ref-format=reftable d; c d own", "build/d/.git", ""),
    ("git init -q --object-format=sha256 d; c d own", "build/d/.git", "refs/heads/master"),
];

/// What keeps nothing: the owner's repository has all that it names.
const KEEPS_NOT: &[&str] = &[
    "git init -q d",
    "git clone -q $OWNERS d; git -C d checkout -q v1",
    "git clone -q $OWNERS d; git -C d pack-refs --all; git -C d checkout -q --detach HEAD~1",
    "git clone -q $OWNERS d; git -C d reset -q --hard HEAD~1; git -C d pull -q",
    "git clone -q $OWNERS d; git -C d worktree add -q ../wt",
    "git clone -q $OWNERS d; git -C d bisect start >&2; git -C d bisect bad >&2; git -C d bisect good HEAD~2 >&2",
    "git clone -q $OWNERS d; git -C d checkout -q --detach; git -C d bisect start >&2; git -C d bisect bad >&2; git -C d bisect good HEAD~2 >&2",
    "git clone -q $OWNERS d; for x in x y; do git -C d checkout -q -b $x v1; echo $x > d/$x; git -C d add $x; git -C d commit -q -m $x; done; \
     git -C d push -q origin x y; git -C d checkout -q -B z v1; git -C d merge -q --no-commit x y >&2",
    "git clone -q --depth 1 file://$OWNERS d",
    "git clone -q --bare $OWNERS d",
    "git clone -q --mirror $OWNERS d",
    "git clone -q $OWNERS a; git clone -q -s $PWD/a d; git -C d checkout -q HEAD~2",
    "git clone -q $OWNERS a; git init -q d; git -C d fetch -q ../a; git -C d checkout -q FETCH_HEAD; rm -rf a",
    "git clone -q $OWNERS d; git -C d -c protocol.file.allow=always submodule --quiet add $OWNERS sub",
    "git clone -q $CLONE d; git -C d checkout -q --detach HEAD~1",
    // The owner has it by now.
    "git clone -q $OWNERS d; c d own; git -C d push -q origin HEAD:refs/heads/side",
    "git clone -q $UP d; git -C $OWNERS fetch -q $UP '+refs/heads/*:refs/remotes/up/*' 'refs/tags/*:refs/tags/*'",
    // It is out of the workspace.
    "git init -q --separate-git-dir=$UP.w4 d; c d own",
    // It is none.
    "mkdir -p d/objects d/refs; mkdir -p e/.git/refs; touch e/.git/HEAD",
];

/// The clone of a workspace whose work has landed, and beside the home another repository.
fn landed_with_another(bench: &Bench) -> PathBuf {
    let up = bench.temp.path().join("up");
    fs::create_dir(&up).expect("made");
    git(&up, &["init", "-q", "-b", "main", "--template="]);
    for words in ["one", "two", "three"] {
        commit(&up, "up", words, words);
    }
    for (folder, name) in [(&up, "u1"), (&bench.repo, "v1")] {
        git(folder, &["tag", "-a", "-m", "one", name, "HEAD~1"]);
        git(
            folder,
            &["tag", &format!("{name}-blob"), &format!("HEAD:{}", if name == "u1" { "up" } else { "a" })],
        );
    }
    let clone = bench.workspace("t1");
    commit(&clone, "d", "new\n", "first");
    desk(bench, |desk| desk.harvest(&Wish::of(&task("t1"))).expect("landed"));
    clone
}

#[test]
fn i9_a_repository_within_a_workspace_keeps_it_unless_its_owner_lets_it_go() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = landed_with_another(&bench);
    // Of who works nothing is said.
    board.create(draft("t2", &bench.repo)).expect("a task");
    bench.workspace("t2");
    let rest = "(push that to the owner's repository, fetch it there, or move it out of the workspace; `--nested` lets such repositories go)";
    for (lines, at, name) in KEEPS {
        let what = if name.ends_with("way") || name.ends_with(' ') {
            (*name).to_owned()
        } else {
            format!("{name} is at ")
        };
        script(&bench, &clone, &clone.join("build"), lines);
        let kept = sweep(&bench).kept;
        let [(of, why)] = &kept[..] else { panic!("{lines}: {kept:?}") };
        let path = clone.join(at).display().to_string().replace("repo/../", "");
        let is_it = if name.is_empty() {
            why.ends_with(&format!("the refs of {path} do not read (it is shut or gone, has them in tables, or has a link for one) (`--nested` lets it go)"))
        } else {
            why.contains(&format!(" {path} is a repository of its own: {what}")) && why.ends_with(rest)
        };
        assert!(*of == task("t1") && is_it, "{lines}: {why}");
        for made in ["build", ".git/modules", "../lib"] {
            // Most make none of these.
            let _ = fs::remove_dir_all(clone.join(made));
        }
    }
    // That is said of these repositories alone.
    script(
        &bench,
        &clone,
        &clone,
        "git clone -q $UP build; c build own; git branch w HEAD~1; git branch x $(git commit-tree -m own HEAD^{tree})",
    );
    let kept = desk(&bench, |desk| desk.sweep_workspaces(true).expect("swept")).kept;
    assert!(matches!(&kept[..], [(_, why)] if why.contains("refs/heads/x is at ")), "{kept:?}");
    git(&clone, &["branch", "-q", "-D", "x"]);
    assert_eq!(sweep(&bench).kept.len(), 1);
    assert_eq!(desk(&bench, |desk| desk.sweep_workspaces(true).expect("swept")).gone, [task("t1")]);
    assert!(!clone.exists());
}

#[test]
fn i9_a_repository_within_a_workspace_of_which_the_owner_has_all_does_not_keep_it() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = landed_with_another(&bench);
    for (nth, lines) in KEEPS_NOT.iter().enumerate() {
        script(&bench, &clone, &clone.join(format!("build/{nth}")), lines);
        let all = desk(&bench, |desk| desk.workspaces(Some(&task("t1"))).expect("looked at"));
        assert!(all[0].has_landed, "{lines}");
    }
    // As its agent makes it, or a remover that died at the very beginning leaves it.
    fs::write(clone.join("../.taken"), "").expect("written");
    assert_eq!(sweep(&bench).gone, [task("t1")]);
}

#[test]
fn i9_a_branch_that_its_agent_took_away_keeps_no_workspace() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = landed_with_another(&bench);
    script(&bench, &clone, &clone, "git checkout -q --detach; git branch -q -D task/t1");
    assert_eq!(sweep(&bench).gone, [task("t1")]);
}

#[test]
fn i9_what_a_workspace_began_at_keeps_it_not_when_the_owner_made_that_anew() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = bench.workspace("t1");
    git(&bench.repo, &["commit", "-q", "--amend", "-m", "anew"]);
    let old = git(&clone, &["rev-parse", "main"]);
    git(&clone, &["fetch", "-q"]);
    git(&clone, &["reset", "-q", "--hard", "origin/main"]);
    commit(&clone, "d", "new\n", "first");
    desk(&bench, |desk| desk.harvest(&Wish::of(&task("t1"))).expect("landed"));
    assert_eq!(git(&clone, &["rev-parse", "main"]), old);
    assert_eq!(sweep(&bench).gone, [task("t1")]);
}

#[test]
fn i9_where_nothing_landed_a_workspace_that_has_nothing_goes_by_a_word_for_it_alone() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = bench.workspace("t1");
    let removed = || desk(&bench, |desk| desk.remove_workspace(&task("t1"), Consent::None));
    assert!(matches!(removed(), Err(Error::NotLanded(_, what)) if what == "its branch"));
    board.act(&task("t1"), Event::Closed { how: How::Dropped, why: None }).expect("closed");
    let own = commit(&clone, "d", "new\n", "first");
    assert!(
        matches!(removed(), Err(Error::NotLanded(_, what)) if what == format!("HEAD is at {own}") || what == format!("refs/heads/task/t1 is at {own}"))
    );
    git(&clone, &["reset", "-q", "--hard", "HEAD~1"]);
    // What is not committed goes by a word for this one alone.
    let way = "nothing of it has landed: `netsky workspace remove t1` says what keeps it, or takes it with what was not committed";
    assert_eq!(sweep(&bench).kept, [(task("t1"), way.to_owned())]);
    removed().expect("it has nothing");
    assert!(!clone.exists());
}

#[test]
fn i9_what_the_owners_repository_has_lost_is_not_kept_there() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = landed_with_another(&bench);
    script(&bench, &clone, &clone, "git tag -a -m own own; git push -q $OWNERS own");
    let own = git(&clone, &["rev-parse", "own"]);
    let object = bench.repo.join(".git/objects").join(&own[..2]).join(&own[2..]);
    fs::remove_file(object).expect("it was pushed");
    assert_eq!(sweep(&bench).kept.len(), 1);
}

#[test]
fn i9_what_is_called_as_a_branch_of_its_origin_is_asked_there() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = landed_with_another(&bench);
    script(
        &bench,
        &clone,
        &clone,
        "git checkout -q -b feat; c . own; git checkout -q task/t1; git update-ref refs/remotes/origin/feat feat; git branch -q -D feat",
    );
    let own = git(&clone, &["rev-parse", "origin/feat"]);
    let why = format!("it has what has not landed: refs/remotes/origin/feat is at {own}");
    let kept = [(task("t1"), why)];
    assert_eq!(sweep(&bench).kept, kept);
    let push = "git push -q $OWNERS origin/feat:refs/heads/feat";
    script(&bench, &clone, &clone, push);
    // Our copy for the next workspace has it by now; once the owner dropped it, its name is nowhere but here.
    bench.workspace("t2");
    script(&bench, &clone, &clone, "git push -q $OWNERS :refs/heads/feat");
    assert_eq!(sweep(&bench).kept, kept);
    script(&bench, &clone, &clone, push);
    assert_eq!(sweep(&bench).gone, [task("t1")]);
}

#[test]
fn i9_what_an_address_had_counts_where_it_was_fetched_for_us() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = landed_with_another(&bench);
    // As if it had been made of an address, and that of the task too.
    let address = "https://example.org/app";
    let (known, path) = (clone.with_file_name("workspace.json"), bench.repo.to_str().expect("text"));
    let text = fs::read_to_string(&known).expect("there");
    fs::write(&known, text.replace(path, address)).expect("written");
    let config = format!("[repositories.app]\npath = \"{path}\"\nurl = \"{address}\"\n");
    fs::write(bench.layout.home().join("config.toml"), config).expect("written");
    let other = bench.temp.path().join("up");
    let other = other.to_str().expect("text");
    git(&clone, &["fetch", "-q", "--no-tags", "-f", other, "main:refs/remotes/origin/main"]);
    let has_landed = || desk(&bench, |desk| desk.workspaces(None).expect("listed")[0].has_landed);
    assert!(!has_landed(), "nobody has it but the workspace");
    // As that address would have been fetched for the next workspace.
    let mirror = |of: &str| {
        bench.layout.mirrors().join(format!("{}.git", &blake3::hash(of.as_bytes()).to_hex()[..16]))
    };
    fs::rename(mirror(path), mirror(address)).expect("there");
    assert!(!has_landed(), "nor has the copy");
    git(&mirror(address).join("git"), &["fetch", "-q", "--no-tags", other, "main:up"]);
    assert_eq!(sweep(&bench).gone, [task("t1")]);
}

#[test]
fn i9_where_the_owners_repository_has_a_part_of_a_history_nothing_is_taken_for_kept() {
    for (depth, words) in [("--depth=1", "shallow"), ("--filter=blob:none", "partial")] {
        let (bench, board) = bench();
        board.create(draft("t1", &bench.repo)).expect("a task");
        let clone = landed_with_another(&bench);
        let lines = format!(
            "git checkout -q -b side; c . one; c . two; git checkout -q task/t1; git config uploadpack.allowFilter true; \
             git -C $OWNERS fetch -q {depth} file://$CLONE side:side"
        );
        script(&bench, &clone, &clone, &lines);
        let kept = sweep(&bench).kept;
        assert!(
            matches!(&kept[..], [(_, why)] if why.contains("cannot be seen") && why.contains(words)),
            "{kept:?}"
        );
    }
}

#[test]
fn i9_what_the_owners_repository_refused_is_not_taken_for_kept() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = landed_with_another(&bench);
    // It says so and ends well, with the objects there and not what is before them.
    script(
        &bench,
        &clone,
        &clone,
        "git clone -q --depth 1 file://$UP dep; c dep own; git -C $OWNERS fetch -q $CLONE/dep HEAD:refs/heads/x 2>&1",
    );
    let kept = sweep(&bench).kept;
    // Before 2.44 git ends there.
    let version = git(&bench.repo, &["version"]);
    let mut version = version.split(['.', ' ']).filter_map(|word| word.parse::<u32>().ok());
    let is_able = version.next().zip(version.next()) >= Some((2, 44));
    let words =
        if is_able { "/dep/.git is a repository of its own: refs/heads/main" } else { "cannot be seen" };
    assert!(matches!(&kept[..], [(_, why)] if why.contains(words)), "{kept:?}");
}

/// Nobody who could be asked.
struct Nowhere;

impl Elsewhere for Nowhere {
    fn lacks(&self, _: BTreeSet<Sha>) -> netsky_work::Result<BTreeSet<Sha>> {
        Err(netsky_work::Error::Missing { path: PathBuf::from("/nowhere") })
    }
}

#[test]
fn i9_where_nothing_can_be_seen_elsewhere_it_stays() {
    let bench = Bench::new();
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    let why = unlanded(&bench.layout, &task("t1"), &Nowhere).expect("it stays");
    assert!(why.starts_with("what is kept elsewhere cannot be seen: "), "{why}");
}

#[test]
fn i9_what_an_agent_shut_is_not_taken_for_empty() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&clone, "d", "new\n", "first");
    let tip = landed(bench.harvest("t1")).tip;
    let shut = clone.join("build/shut");
    script(&bench, &clone, &shut, "git init -q d; c d own");
    // For root nothing is shut, unless it gives that up.
    let is_root = netsky_disk::env::user() == 0;
    let mut remover = Command::new(if is_root { "setpriv" } else { "env" });
    remover.args(is_root.then_some("--bounding-set=-dac_override,-dac_read_search"));
    remover.args([HELPER, "remove", bench.layout.home().to_str().expect("text"), "t1", tip.as_str()]);
    for mode in [0o311, 0o644] {
        fs::set_permissions(&shut, fs::Permissions::from_mode(mode)).expect("set");
        let said = remover.output().expect("it runs");
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        fs::set_permissions(&shut, fs::Permissions::from_mode(0o755)).expect("set");
        assert!(said.contains("cannot be looked into"), "{mode:o}: {said}");
    }
    // Of what is its own, that is undone.
    fs::remove_dir_all(&shut).expect("there");
    for folder in [clone.join(".git"), clone.clone()] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).expect("set");
    }
    let said = remover.output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "Gone", "{said:?}");
    assert!(!clone.exists());
}
