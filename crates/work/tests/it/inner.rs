//! Repositories within a workspace: which of them keep it, and which do not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use netsky_work::landing::Wish;

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

/// What keeps it, and by which name that is told.
const OWN: &[(&str, &str)] = &[
    ("git clone -q $UP d; c d own", "build/d/.git"),
    ("git init -q d; c d own", "build/d/.git"),
    // No log tells of it any more, or ever did.
    (
        "git clone -q $UP d; c d own; git -C d reflog expire --expire=now --all; git -C d gc -q --prune=now",
        "build/d/.git",
    ),
    ("git init -q d; c d own; git -C d reflog expire --expire=now --all", "build/d/.git"),
    (
        "git -c core.logAllRefUpdates=false clone -q $UP d; git -C d config core.logAllRefUpdates false; c d own",
        "build/d/.git",
    ),
    ("git clone -q $UP d; git -C d branch w $(git -C d commit-tree -m own HEAD^{tree})", "build/d/.git"),
    (
        "git clone -q $UP d; git -C d reset -q --hard $(git -C d commit-tree -m own HEAD^{tree})",
        "build/d/.git",
    ),
    ("git clone -q $UP d; git -C d tag -a -m w w $(git -C d commit-tree -m own HEAD^{tree})", "build/d/.git"),
    (
        "git clone -q $UP d; git -C d update-ref refs/w $(git -C d commit-tree -m own HEAD^{tree})",
        "build/d/.git",
    ),
    ("git clone -q $UP d; echo own > d/own; git -C d add own; git -C d stash -q", "build/d/.git"),
    // Words of a log that are those of what it fetched.
    ("git clone -q $UP d; c d 'Refuse a push that is no Fast-forward'", "build/d/.git"),
    ("git clone -q $UP d; GIT_REFLOG_ACTION='clone: from /' c d own", "build/d/.git"),
    ("git clone -q $UP d; git -C d commit -q --amend -m own", "build/d/.git"),
    ("git clone -q $UP d; c d own; git -C d pull -q --rebase", "build/d/.git"),
    ("git clone -q --depth 1 file://$UP d; c d own", "build/d/.git"),
    ("git clone -q $UP d; git -C d worktree add -q --detach ../wt; c wt own", "build/d/.git"),
    // Of another one within the workspace that is gone.
    (
        "git init -q a; c a own; git init -q b; git -C b fetch -q ../a HEAD; git -C b checkout -q FETCH_HEAD; rm -rf a",
        "build/b/.git",
    ),
    ("git clone -q $UP a; c a own; git clone -q a b; rm -rf a", "build/b/.git"),
    ("git init -q a; c a own; git clone -q a b; git -C b remote remove origin; rm -rf a", "build/b/.git"),
    (
        "git init -q a; c a own; git clone -q a b; git -C b remote set-url origin https://example.org/x; rm -rf a",
        "build/b/.git",
    ),
    (
        "git clone -q $UP a; c a own; git clone -q $UP b; git -C b pull -q --ff-only ../a HEAD; rm -rf a",
        "build/b/.git",
    ),
    ("git init -q a:b; c a:b own; git clone -q ./a:b b; rm -rf a:b", "build/b/.git"),
    (
        "git init -q --bare a; git clone -q $UP b; c b own; git -C b remote add a ../a; git -C b push -q a HEAD",
        "build/b/.git",
    ),
    (
        "git init -q --bare a; git clone -q $UP b; c b own; git -C b remote add a ../a; git -C b push -q a HEAD; \
         sed -i 's/url = /url=/' b/.git/config",
        "build/b/.git",
    ),
    // Of another one that has it no more.
    ("git clone -q $UP a; c a own; git clone -q a b; git -C a reset -q --hard HEAD~1", "build/b/.git"),
    (
        "c $CLONE own; git clone -q $CLONE d; git -C $CLONE reset -q --hard HEAD~1; git -C $CLONE reflog expire --expire=now --all",
        "build/d/.git",
    ),
    // A remote that was never pushed to, or has other places too, or is none any more.
    (
        "git clone -q $UP d; git -C d remote add --mirror=push b https://example.org/x; c d own",
        "build/d/.git",
    ),
    (
        "git clone -q $UP b; git init -q --bare a; git -C b remote set-url --push origin ../a; c b own; git -C b push -q origin HEAD:x",
        "build/b/.git",
    ),
    (
        "git init -q --bare a; git clone -q $UP b; c b own; git -C b remote add a $PWD/a; git -C b push -q a HEAD; \
         git -C b config --remove-section remote.a; rm -rf a",
        "build/b/.git",
    ),
    (
        "git clone -q $UP d; git init -q --bare a; printf '[remote \"origin\"]\\n pushurl=../a\\n' > d/.git/extra; \
         git -C d config include.path extra; c d own; git -C d push -q origin HEAD:x",
        "build/d/.git",
    ),
    (
        "git clone -q $UP d; git init -q --bare a; printf '[remote \"origin\"] pushurl=../a\\n' >> d/.git/config; c d own; \
         git -C d push -q origin HEAD:x",
        "build/d/.git",
    ),
    // What is called as a branch of a remote.
    (
        "git clone -q $UP d; git init -q --bare a; git -C d remote add origin/a ../a; c d own; git -C d push -q origin/a HEAD:x",
        "build/d/.git",
    ),
    (
        "git clone -q $UP a; c a own; git clone -q $UP d; git -C d remote add n ../a; \
         git -C d config remote.n.fetch '+refs/heads/*:refs/remotes/origin/n/*'; git -C d fetch -q n; git -C a reset -q --hard HEAD~1",
        "build/d/.git",
    ),
    ("git clone -q $UP d; c d own; git -C d fetch -q . HEAD:refs/remotes/origin/x", "build/d/.git"),
    (
        "git clone -q $UP d; git clone -q $UP a; c a own; git -C a push -q ../d HEAD:refs/remotes/origin/x; rm -rf a",
        "build/d/.git",
    ),
    (
        "mkdir -p \"n of $(dirname $UP)\"; git clone -q $UP \"n of $UP\"; c \"n of $UP\" own; git init -q a; \
         git -C a fetch -q \"../n of $UP\" main; git -C a checkout -q FETCH_HEAD; rm -rf n*",
        "build/a/.git",
    ),
    (
        "git clone -q $UP d; c d own; git -C d fetch -q . HEAD:refs/remotes/origin/x; git -C d reflog expire --expire=now --all",
        "build/d/.git",
    ),
    (
        "git clone -q $UP d; git -C d config core.logAllRefUpdates false; c d own; git -C d fetch -q . HEAD:refs/remotes/origin/x",
        "build/d/.git",
    ),
    (
        "git clone -q $UP d; FILTER_BRANCH_SQUELCH_WARNING=1 git -C d filter-branch -f --msg-filter 'sed s/t/T/' -- --all >&2; \
         git -C d update-ref -d refs/original/refs/heads/main",
        "build/d/.git",
    ),
    (
        "git clone -q $UP d; git init -q --bare a; git -C d config extensions.worktreeConfig true; git -C d worktree add -q ../wt -b f; \
         git -C wt config --worktree remote.origin.pushurl ../a; c wt own; git -C wt push -q origin HEAD:x",
        "build/d/.git",
    ),
    (
        "git clone -q --bare $UP b; git clone -q b a; c a own; git -C a push -q origin HEAD:side; git clone -q $UP d; \
         git -C d checkout -q --detach; git -C d remote add --mirror=fetch n ../a; git -C d fetch -q n; rm -rf a b",
        "build/d/.git",
    ),
    (
        "git clone -q $UP d; git init -q --bare a; printf '[remote.origin]\\n pushurl=../a\\n' >> d/.git/config; c d own; \
         git -C d push -q origin HEAD:x",
        "build/d/.git",
    ),
    (
        "git clone -q $UP n; git -C n checkout -q -b feat; c n own; git clone -q n m; git -C n remote add --mirror=fetch bak ../m; \
         git -C n checkout -q --detach v1; git -C n fetch -q --all",
        "build/m/.git",
    ),
    // A part of it is out of the workspace.
    (
        "git clone -q $UP d; c d own; c d two; git clone -q --depth 1 file://$PWD/d $UP.w6; git -C d remote add b $UP.w6; git -C d fetch -q b",
        "build/d/.git",
    ),
    (
        "git clone -q $UP d; c d own; git -C d config uploadpack.allowFilter true; git clone -q --bare --filter=tree:0 --no-local file://$PWD/d $UP.w7; \
         git -C d remote add b $UP.w7; git -C d fetch -q b",
        "build/d/.git",
    ),
    (
        "git clone -q $UP d; git clone -q $UP a; c a own; git -C d pull -q --no-commit --no-ff ../a HEAD; rm -rf a",
        "build/d/.git",
    ),
    // What is out of the workspace by its path alone.
    (
        "git clone -q $UP d; git -C d worktree add -q --detach $UP.w1; c $UP.w1 own; git clone -q $UP.w1 b; rm -rf $UP.w1",
        "build/b/.git",
    ),
    (
        "git clone -q $UP d; git -C d worktree add -q --detach $UP.w5; c $UP.w5 own; git clone -q $UP.w5 b",
        "build/b/.git",
    ),
    (
        "git init -q d; c d own; mkdir $UP.w2; ln -s $PWD/d/.git $UP.w2/.git; git clone -q $UP.w2 b",
        "build/b/.git",
    ),
    ("git init -q --separate-git-dir=$PWD/store $UP.w3; c $UP.w3 own; git clone -q $UP.w3 b", "build/b/.git"),
    (
        "git clone -q $UP d; git clone -q --bare -s $PWD/d $UP.w4; git -C d remote add h $UP.w4; c d own; git -C d push -q h HEAD:x",
        "build/d/.git",
    ),
    ("git clone -q $UP d; git -C d checkout -q v1; mkfifo d/.git/objects/info/commit-graph", "build/d/.git"),
    // Names that are of one checkout, or of a log.
    (
        "git clone -q $UP d; git -C d worktree add -q --detach ../wt; git -C wt update-ref refs/worktree/k $(git -C d commit-tree -m own HEAD^{tree})",
        "build/d/.git",
    ),
    (
        "git clone -q $UP d; echo 1 > d/own; git -C d add own; git -C d stash -q; echo 2 > d/own; git -C d add own; git -C d stash -q; \
         git -C d push -q origin stash@{0}:refs/heads/st",
        "build/d/.git",
    ),
    // Wherever it is.
    ("git init -q d; c d own; mv d/.git store; ln -s ../store d/.git", "build/store"),
    ("git init -q --separate-git-dir=sep d; c d own", "build/sep"),
    ("git init -q --separate-git-dir=\"$PWD/sep \" d; c d own", "build/sep"),
    (
        "git clone -q $UP d; git -C d -c protocol.file.allow=always submodule --quiet add $UP sub; c d/sub own; \
         git -C d submodule --quiet deinit -f sub; git -C d reset -q --hard",
        "build/d/.git/modules/sub",
    ),
    ("git init -q d; c d own; mkdir ../.git/modules; mv d/.git ../.git/modules/lib", ".git/modules/lib"),
    (
        "git init -q d; c d own; mkdir -p ../.git/worktrees/x/modules; mv d/.git ../.git/worktrees/x/modules/lib",
        ".git/worktrees/x/modules/lib",
    ),
    ("git init -q ../../lib; c ../../lib own", "../lib/.git"),
    ("git clone -q --bare $UP x; git -C x worktree add -q -b f ../wt; c wt own", "build/x"),
    ("git clone -q --bare $UP x; git -C x worktree add -q --detach ../wt; c wt own", "build/x"),
    ("git clone -q --mirror $UP x; git -C x worktree add -q -b f ../wt; c wt own; mv x y", "build/y"),
    (
        "git init -q d; c d own; mv d/.git store; echo 'gitdir: ../store' > d/file; ln -s file d/.git",
        "build/store",
    ),
    (
        "mkdir s; git init -q d; c d own; mv d/.git store; echo 'gitdir: ../store' > s/file; ln -s ../s/file d/.git",
        "build/store",
    ),
];

/// What keeps nothing.
const BROUGHT: &[&str] = &[
    "git init -q d",
    "git clone -q $UP d",
    "git clone -q $UP d; git -C d checkout -q v1",
    "git clone -q $UP d; git -C d pack-refs --all; git -C d checkout -q --detach HEAD~1",
    "git clone -q $UP d; git -C d checkout -q -B main v1; git -C d branch -m other; git -C d remote set-head origin -a",
    "git clone -q $UP d; git -C d reset -q --hard HEAD~1; git -C d pull -q",
    "git clone -q $UP d; git -C d reset -q --hard HEAD~1; git -C d pull -q --rebase",
    "git clone -q $UP d; git -C d worktree add -q ../wt; git -C d reflog expire --expire=now --all",
    "git -c core.logAllRefUpdates=false clone -q $UP d; git -C d checkout -q HEAD~1",
    "git clone -q --depth 1 file://$UP d",
    "git clone -q --depth 1 --branch v1 file://$UP d",
    "git clone -q --depth 2 file://$UP d; git -C d checkout -q HEAD~1",
    "git init -q d; git -C d fetch -q $UP v1; git -C d checkout -q FETCH_HEAD",
    "git init -q d; git -C d pull -q $UP main",
    "git clone -q --bare $UP $UP.git; git init -q d; git -C d fetch -q $UP.git v1; git -C d checkout -q FETCH_HEAD",
    "git clone -q $UP a; git clone -q a d; git -C d checkout -q v1",
    "git clone -q $UP a; git clone -q -s $PWD/a d; git -C d checkout -q HEAD~2",
    "git clone -q --bare $UP x; git -C x config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'; git -C x fetch -q; \
     git clone -q x d; git -C d checkout -q v1",
    "git clone -q $UP d; git -C d sparse-checkout set x; git -C d checkout -q v1",
    "git clone -q $CLONE d",
    "git clone -q $UP 'a:\"b'; git -C 'a:\"b' checkout -q HEAD~1",
    "git clone -q $UP d; git -C d -c protocol.file.allow=always submodule --quiet add $UP sub; git -C d/sub checkout -q HEAD~1",
    "git clone -q $UP $UP.r; c $UP.r own; git -C $UP.r worktree add -q --detach $UP.wt; git clone -q $UP.wt d",
    // It is the owner's, or stays, or is elsewhere by now.
    "git clone -q $OWNERS a; git init -q d; git -C d fetch -q ../a; git -C d checkout -q FETCH_HEAD; rm -rf a",
    "git init -q --separate-git-dir=$UP/../sep d; c d own",
    "git clone -q $UP d; c d own; git -C d push -q origin HEAD:refs/heads/side",
    "git clone -q $UP d; c d own; git init -q --bare $UP/../hub; git -C d remote add hub $UP/../hub; git -C d push -q hub HEAD",
];

/// The clone of a workspace whose work has landed, and beside the home another repository.
fn landed_with_another(bench: &Bench) -> PathBuf {
    let up = bench.temp.path().join("up");
    fs::create_dir(&up).expect("made");
    git(&up, &["init", "-q", "-b", "main", "--template="]);
    for words in ["one", "two", "three"] {
        commit(&up, "up", words, words);
    }
    git(&up, &["tag", "-a", "-m", "one", "v1", "HEAD~1"]);
    let clone = bench.workspace("t1");
    commit(&clone, "d", "new\n", "first");
    desk(bench, |desk| desk.harvest(&Wish::of(&task("t1"))).expect("landed"));
    clone
}

#[test]
fn i9_what_an_agent_committed_in_a_repository_within_a_workspace_keeps_it() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = landed_with_another(&bench);
    // Of who works nothing is said.
    board.create(draft("t2", &bench.repo)).expect("a task");
    bench.workspace("t2");
    for (lines, name) in OWN {
        script(&bench, &clone, &clone.join("build"), lines);
        let kept = sweep(&bench).kept;
        let path = clone.join(name).display().to_string().replace("repo/../", "");
        let why = format!(
            "it has what has not landed: {path} has commits that are seen nowhere else: `git push` them to a remote of it and `git fetch` that, or move it out of the workspace"
        );
        assert_eq!(kept, [(task("t1"), why)], "{lines}");
        for made in ["build", ".git/modules", ".git/worktrees", "../lib"] {
            // Most make none of these.
            let _ = fs::remove_dir_all(clone.join(made));
        }
    }
}

#[test]
fn i9_what_a_build_brought_into_a_workspace_does_not_keep_it() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = landed_with_another(&bench);
    for (nth, lines) in BROUGHT.iter().enumerate() {
        script(&bench, &clone, &clone.join(format!("build/{nth}")), lines);
        let all = desk(&bench, |desk| desk.workspaces(Some(&task("t1"))).expect("looked at"));
        assert!(all[0].has_landed, "{lines}");
    }
    // As its agent makes it, or a remover that died at the very beginning leaves it.
    fs::write(clone.join("../.taken"), "").expect("written");
    assert_eq!(sweep(&bench).gone, [task("t1")]);
}

#[test]
fn i9_what_its_origin_has_counts_as_long_as_that_is_the_repository() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = landed_with_another(&bench);
    script(&bench, &clone, &clone, "git checkout -q -b feat; c . own; git checkout -q task/t1");
    let own = git(&clone, &["rev-parse", "feat"]);
    let elsewhere = "git init -q --bare build/x; git config --unset-all remote.origin.pushurl; \
        git config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'; \
        git remote set-url origin $CLONE/build/x; git push -q origin feat";
    script(&bench, &clone, &clone, elsewhere);
    assert_eq!(git(&clone, &["rev-parse", "origin/feat"]), own);
    let kept = sweep(&bench).kept;
    let why = format!("it has what has not landed: refs/heads/feat is at {own}");
    assert_eq!(kept, [(task("t1"), why)]);
    // One of this machine is asked itself.
    script(
        &bench,
        &clone,
        &clone,
        "git remote set-url origin $OWNERS; git update-ref refs/remotes/origin/feat feat",
    );
    assert_eq!(sweep(&bench).kept, kept);
    script(&bench, &clone, &clone, "git push -q origin feat");
    assert_eq!(sweep(&bench).gone, [task("t1")]);
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
}
