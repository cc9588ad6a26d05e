//! Where work lands: where its task says, on the branch that a name stands for, and beside other homes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_model::task::{Change, Event, How, State};
use netsky_work::git::Git;
use netsky_work::harvest::{Outcome, Tree, harvest};
use netsky_work::landing::{Consent, Wish};
use netsky_work::workspace;

use crate::desk::{bench, desk, draft, facts, land, state};
use crate::support::{Bench, command, commit, git, head, landed, main_branch, task};

/// Makes `main` another name of a branch that is checked out.
pub(crate) fn alias(repo: &Path, is_link: bool) {
    git(repo, &["branch", "-m", "main", "trunk"]);
    if is_link {
        symlink("refs/heads/trunk", repo.join(".git/refs/heads/main")).expect("made");
    } else {
        git(repo, &["symbolic-ref", "refs/heads/main", "refs/heads/trunk"]);
    }
}

/// A repository whose refs are in tables; none where git knows no such.
fn tables(at: &Path) -> bool {
    fs::create_dir(at).expect("made");
    let args = ["init", "-q", "-b", "main", "--template=", "--ref-format=reftable"];
    let made = command(at).args(args).output().expect("git runs");
    if !made.status.success() {
        eprintln!("skipped: this git keeps no refs in tables");
        return false;
    }
    commit(at, "a", "one\n", "first");
    true
}

#[test]
fn i9_work_lands_where_its_task_says_or_not_at_all() {
    let (bench, board) = bench();
    git(&bench.repo, &["branch", "release"]);
    let other = bench.temp.path().join("other");
    git(
        bench.temp.path(),
        &["clone", "-q", bench.repo.to_str().expect("text"), other.to_str().expect("text")],
    );
    let other = other.to_str().expect("text").to_owned();
    let changes = [
        Change { main: Some("release".into()), ..Change::default() },
        Change { repo: Some(other), ..Change::default() },
    ];
    let mut main = bench.main();
    for (id, change) in ["t1", "t2"].into_iter().zip(changes) {
        board.create(draft(id, &bench.repo)).expect("a task");
        commit(&bench.workspace(id), id, "new\n", "first");
        board.act(&task(id), Event::Updated(Box::new(change))).expect("the owner's");
        let came = desk(&bench, |desk| desk.harvest(&Wish::of(&task(id))).expect("asked"));
        let Outcome::Refused(why) = came.outcome else { panic!("{id}: {:?}", came.outcome) };
        assert!(why.contains("by now") && why.contains("takes that back"), "{why}");
        assert_eq!(bench.main(), main);
        // As is said there.
        let back = if id == "t1" {
            Change { main: Some("main".into()), ..Change::default() }
        } else {
            Change { repo: Some(bench.remote().to_string()), ..Change::default() }
        };
        board.act(&task(id), Event::Updated(Box::new(back))).expect("the owner's");
        let came = desk(&bench, |desk| desk.harvest(&Wish::of(&task(id))).expect("asked"));
        assert!(matches!(came.outcome, Outcome::Landed(_)), "{id}: {:?}", came.outcome);
        main = bench.main();
    }
}

#[test]
fn i9_work_that_landed_lands_nowhere_else_by_a_task_that_was_changed_since() {
    let (bench, board) = bench();
    git(&bench.repo, &["branch", "release"]);
    board.create(draft("t1", &bench.repo)).expect("a task");
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    desk(&bench, |desk| desk.harvest(&Wish::of(&task("t1"))).expect("landed"));
    board.act(&task("t1"), Event::Reopened { why: "there, too".into() }).expect("reopened");
    let change = Change { main: Some("release".into()), ..Change::default() };
    board.act(&task("t1"), Event::Updated(Box::new(change))).expect("the owner's");
    let came = desk(&bench, |desk| desk.harvest(&Wish::of(&task("t1"))).expect("asked"));
    assert!(matches!(came.outcome, Outcome::Refused(_)), "{:?}", came.outcome);
    assert!(!state(&board, "t1").is_closed());
}

#[test]
fn i9_what_landed_is_known_where_main_has_become_another_branchs_name() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    desk(&bench, |desk| desk.harvest(&Wish::of(&task("t1"))).expect("landed"));
    alias(&bench.repo, false);
    desk(&bench, |desk| {
        let again = desk.harvest(&Wish::of(&task("t1"))).expect("asked");
        assert!(
            matches!(again.outcome, Outcome::AlreadyLanded { .. }) && !again.has_more,
            "{:?}",
            again.outcome
        );
        desk.remove_workspace(&task("t1"), Consent::None).expect("all of it has landed");
    });
}

#[test]
fn a25_t19_fm_harvest_kill_a_home_that_was_moved_finishes_its_landing() {
    let bench = Bench::new();
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    bench.helper_harvest("t1", &[("NETSKY_FAULT", "work.land.moved=kill")]);
    let moved = Layout::new(bench.temp.path().join("moved"));
    fs::rename(bench.layout.home(), moved.home()).expect("moved");
    let mut job = bench.job("t1");
    job.workspace = moved.workspace(&task("t1")).join("repo");
    job.layout = moved;
    assert!(matches!(harvest(&job).expect("an outcome"), Outcome::AlreadyLanded { .. }));
    bench.assert_whole();
}

#[test]
fn t19_fm_harvest_kill_what_a_dead_one_landed_has_landed_wherever_the_task_says_by_then() {
    let (bench, board) = bench();
    git(&bench.repo, &["branch", "release"]);
    board.create(draft("t1", &bench.repo)).expect("a task");
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    land(&bench, "t1", "work.land.moved=kill").output().expect("it starts");
    let change = Change { main: Some("release".into()), ..Change::default() };
    board.act(&task("t1"), Event::Updated(Box::new(change))).expect("the owner's");
    let came = desk(&bench, |desk| desk.harvest(&Wish::of(&task("t1"))).expect("asked"));
    assert_eq!(came.outcome, Outcome::AlreadyLanded { sha: bench.main() });
    assert!(state(&board, "t1").is_closed() && facts(&bench, "harvest.landed") == 1);
    bench.assert_whole();
}

#[test]
fn t19_main_that_is_another_branchs_name_moves_that_one_with_its_files() {
    for in_tables in [false, true] {
        let (mut bench, board) = bench();
        if in_tables {
            bench.repo = bench.temp.path().join("tables");
            if !tables(&bench.repo) {
                continue;
            }
        }
        alias(&bench.repo, false);
        board.create(draft("t1", &bench.repo)).expect("a task");
        let clone = desk(&bench, |desk| desk.create_workspace(&task("t1"), None).expect("made"));
        commit(&clone.workspace.folder(&bench.layout), "d", "new\n", "first");
        // By either name.
        for name in ["main", "trunk"] {
            let change = Change { main: Some(name.into()), ..Change::default() };
            board.act(&task("t1"), Event::Updated(Box::new(change))).expect("the owner's");
        }
        let came = desk(&bench, |desk| desk.harvest(&Wish::of(&task("t1"))).expect("asked"));
        let landed = landed(came.outcome);
        assert_eq!((landed.tree, landed.sha), (Tree::Moved, head(&bench.repo, "refs/heads/trunk")));
        bench.assert_whole();
    }
}

#[test]
fn t19_a_name_that_is_another_branchs_is_no_place_to_land_by_itself() {
    for (is_link, in_tables) in [(false, false), (true, false), (false, true)] {
        let mut bench = Bench::new();
        if in_tables {
            bench.repo = bench.temp.path().join("tables");
            if !tables(&bench.repo) {
                continue;
            }
        }
        let clone = bench.workspace("t1");
        alias(&bench.repo, is_link);
        commit(&clone, "d", "new\n", "first");
        match bench.harvest("t1") {
            Outcome::Refused(why) => assert!(why.contains("another name of refs/heads/trunk"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn t19_an_empty_folder_that_git_left_beside_a_packed_main_stops_nothing() {
    let bench = Bench::new();
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    git(&bench.repo, &["pack-refs", "--all"]);
    let refused = command(&bench.repo).args(["branch", "main/x"]).output().expect("git runs");
    assert!(!refused.status.success() && bench.repo.join(".git/refs/heads/main").is_dir());
    assert_eq!(landed(bench.harvest("t1")).tree, Tree::Moved);
    bench.assert_whole();
}

#[test]
fn i9_fm_harvest_kill_of_another_homes_dead_landing_is_said_whose_it_is() {
    let bench = Bench::new();
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    bench.helper_harvest("t1", &[("NETSKY_FAULT", "work.land.moved=kill")]);
    let other = Layout::new(bench.temp.path().join("other"));
    Dir::create(other.state()).expect("a home");
    let mut job = bench.job("t1");
    job.layout = other;
    job.patience = Duration::from_millis(200);
    match harvest(&job).expect("an outcome") {
        Outcome::Refused(why) => assert!(why.contains(&bench.layout.home().display().to_string()), "{why}"),
        came => panic!("{came:?}"),
    }
    assert!(matches!(bench.harvest("t1"), Outcome::AlreadyLanded { .. }));
    bench.assert_whole();
}

#[test]
fn t19_what_is_no_file_that_was_cut_off_stays() {
    let text = "a line that lands\n".repeat(9);
    for what in ["a link", "another mode"] {
        let bench = Bench::new();
        commit(&bench.workspace("t1"), "d", &text, "first");
        bench.helper_harvest("t1", &[("NETSKY_FAULT", "work.land.moved=kill")]);
        let at = bench.repo.join("d");
        if what == "a link" {
            fs::write(bench.temp.path().join("mine"), &text[..20]).expect("written");
            symlink(bench.temp.path().join("mine"), &at).expect("made");
        } else {
            fs::write(&at, &text).expect("written");
            fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).expect("set");
        }
        let before = fs::symlink_metadata(&at).expect("there").permissions();
        let said = bench.harvest("t1");
        assert!(matches!(said, Outcome::Behind { .. }), "{what}: {said:?}");
        assert_eq!(fs::symlink_metadata(&at).expect("there").permissions(), before, "{what}");
    }
}

#[test]
fn t19_fm_harvest_kill_what_a_dead_one_landed_is_told_of_a_task_that_was_closed_since() {
    for (how, by_removal, point) in [
        (How::Done, false, "work.land.moved"),
        (How::Dropped, false, "work.landing.recorded"),
        (How::Done, true, "work.landing.recorded"),
        (How::Dropped, true, "work.land.moved"),
    ] {
        let (bench, board) = bench();
        board.create(draft("t1", &bench.repo)).expect("a task");
        commit(&bench.workspace("t1"), "d", "new\n", "first");
        land(&bench, "t1", &format!("{point}=kill")).output().expect("it starts");
        board.act(&task("t1"), Event::Closed { how, why: None }).expect("closed");
        desk(&bench, |desk| match by_removal {
            true => desk.remove_workspace(&task("t1"), Consent::None).expect("all of it has landed"),
            false => drop(desk.harvest(&Wish::of(&task("t1"))).expect("it is brought to its end")),
        });
        let landed = How::Landed { sha: bench.main().to_string(), main: "main".into() };
        assert_eq!(state(&board, "t1"), State::Closed { how: landed, why: None });
        assert_eq!(facts(&bench, "harvest.landed"), 1);
        bench.assert_whole();
    }
}

#[test]
fn t19_fm_harvest_kill_what_a_dead_one_landed_is_told_before_its_workspace_is_dropped() {
    for is_more in [false, true] {
        let (bench, board) = bench();
        board.create(draft("t1", &bench.repo)).expect("a task");
        let clone = bench.workspace("t1");
        commit(&clone, "d", "new\n", "first");
        land(&bench, "t1", "work.land.moved=kill").output().expect("it starts");
        if is_more {
            commit(&clone, "e", "more\n", "second");
        }
        desk(&bench, |desk| desk.remove_workspace(&task("t1"), Consent::All).expect("dropped"));
        assert_eq!((facts(&bench, "harvest.landed"), state(&board, "t1").is_closed()), (1, !is_more));
        bench.assert_whole();
    }
}

#[test]
fn t19_fm_harvest_kill_a_landing_in_a_repository_that_was_moved_is_said_to_be_ours() {
    let mut bench = Bench::new();
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    bench.helper_harvest("t1", &[("NETSKY_FAULT", "work.land.moved=kill")]);
    let moved = bench.temp.path().join("moved");
    fs::rename(&bench.repo, &moved).expect("moved");
    bench.repo = moved;
    let Outcome::Refused(why) = bench.harvest("t1") else { panic!("nobody finishes it") };
    assert!(why.contains("index.lock, and `git stash` there"), "{why}");
}

#[test]
fn t19_what_landed_and_was_taken_back_is_said_to_be_so() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    let ask = || desk(&bench, |desk| desk.harvest(&Wish::of(&task("t1"))).expect("asked"));
    assert!(matches!(ask().outcome, Outcome::Landed(_)));
    git(&bench.repo, &["reset", "-q", "--hard", "HEAD^"]);
    for is_forgotten in [false, true] {
        if is_forgotten {
            git(&bench.repo, &["reflog", "expire", "--expire=now", "--all"]);
            git(&bench.repo, &["gc", "-q", "--prune=now"]);
        }
        let said = ask();
        assert!(!said.has_more && said.troubles.is_empty(), "{said:?}");
        let Outcome::Refused(why) = said.outcome else { panic!("{said:?}") };
        assert!(why.contains("is not on main any more: `netsky task reopen t1`"), "{why}");
    }
    board.act(&task("t1"), Event::Reopened { why: "again".into() }).expect("reopened");
    assert!(matches!(ask().outcome, Outcome::Landed(_)) && state(&board, "t1").is_closed());
    // And the second one of two, taken back.
    board.act(&task("t1"), Event::Reopened { why: "more".into() }).expect("reopened");
    commit(&bench.layout.workspace(&task("t1")).join("repo"), "e", "more\n", "second");
    assert!(matches!(ask().outcome, Outcome::Landed(_)));
    git(&bench.repo, &["reset", "-q", "--hard", "HEAD^"]);
    assert!(matches!(ask().outcome, Outcome::Refused(_)));
    // And where its workspace is gone since, or nothing is asked for.
    let dry = Wish { is_dry: true, ..Wish::of(&task("t1")) };
    let said = desk(&bench, |desk| desk.harvest(&dry).expect("asked"));
    assert!(matches!(said.outcome, Outcome::Refused(why) if why.contains("has its branch land anew")));
    desk(&bench, |desk| desk.remove_workspace(&task("t1"), Consent::All).expect("dropped"));
    assert!(matches!(ask().outcome, Outcome::Refused(why) if why.contains("its workspace is gone")));
    git(&bench.repo, &["reset", "-q", "--hard", "ORIG_HEAD"]);
    assert!(matches!(ask().outcome, Outcome::AlreadyLanded { .. }));
    bench.assert_whole();
}

#[test]
fn t19_files_that_a_setting_puts_elsewhere_are_said_to_be_so() {
    let bench = Bench::new();
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    let elsewhere = bench.temp.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("made");
    git(&bench.repo, &["config", "core.worktree", elsewhere.to_str().expect("text")]);
    let error = harvest(&bench.job("t1")).expect_err("it cannot follow").to_string();
    assert!(error.contains("core.worktree puts the files of refs/heads/main elsewhere"), "{error}");
    // A linked checkout has its own.
    git(&bench.repo, &["--work-tree=.", "switch", "-q", "-c", "dev"]);
    let linked = bench.temp.path().join("linked");
    git(&bench.repo, &["worktree", "add", "-q", linked.to_str().expect("text"), "main"]);
    assert_eq!(landed(bench.harvest("t1")).tree, Tree::Moved);
}

#[test]
fn t19_a_checkout_of_main_that_is_gone_is_no_second_one() {
    let bench = Bench::new();
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    let second = bench.temp.path().join("second");
    git(&bench.repo, &["worktree", "add", "-q", "-f", second.to_str().expect("text"), "main"]);
    let error = harvest(&bench.job("t1")).expect_err("which of them is to follow").to_string();
    assert!(error.contains("check out another branch than main there"), "{error}");
    fs::remove_dir_all(&second).expect("ours");
    assert_eq!(landed(bench.harvest("t1")).tree, Tree::Moved);
    bench.assert_whole();
}

#[test]
fn a_partial_clone_is_said_to_be_one() {
    let bench = Bench::new();
    let (partial, mut of) = (bench.temp.path().join("partial"), "file://".to_owned());
    of += bench.repo.to_str().expect("text");
    git(&bench.repo, &["config", "uploadpack.allowFilter", "true"]);
    let to = partial.to_str().expect("text");
    git(bench.temp.path(), &["clone", "-q", "--no-checkout", "--filter=blob:none", &of, to]);
    let wish = workspace::Wish {
        task: task("t1"),
        repo: to.parse().expect("a repository"),
        main: main_branch(),
        branch: None,
        author: None,
        share_from: workspace::SHARE_FROM,
    };
    let made = workspace::create(&bench.layout, &Git::find().expect("git"), &wish);
    let error = made.expect_err("its files are not there").to_string();
    assert!(error.contains("it is a partial clone") && error.contains("git"), "{error}");
}

#[test]
fn t19_a_task_that_was_reopened_and_dropped_stays_so_though_not_all_was_told() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    land(&bench, "t1", "work.landing.closed=kill").output().expect("it starts");
    assert!(state(&board, "t1").is_closed());
    board.act(&task("t1"), Event::Reopened { why: "more".into() }).expect("reopened");
    let dropped = State::Closed { how: How::Dropped, why: None };
    board.act(&task("t1"), Event::Closed { how: How::Dropped, why: None }).expect("closed");
    for is_told in [false, true] {
        let came = desk(&bench, |desk| desk.harvest(&Wish::of(&task("t1"))));
        assert_eq!(came.is_err(), is_told, "{came:?}");
        assert_eq!((state(&board, "t1"), facts(&bench, "harvest.landed")), (dropped.clone(), 1));
    }
}

#[test]
fn t19_a_task_that_was_reopened_is_not_closed_by_what_landed_before() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = bench.workspace("t1");
    commit(&clone, "d", "new\n", "first");
    let ask = || desk(&bench, |desk| desk.harvest(&Wish::of(&task("t1"))).expect("asked").outcome);
    assert!(matches!(ask(), Outcome::Landed(_)));
    git(&bench.repo, &["revert", "--no-edit", "HEAD"]);
    board.act(&task("t1"), Event::Reopened { why: "again".into() }).expect("reopened");
    // The very tip, and a branch of which git left out what it had seen on main.
    for is_rebased in [false, true] {
        if is_rebased {
            git(&clone, &["fetch", "-q"]);
            git(&clone, &["rebase", "-q", "origin/main"]);
        }
        let Outcome::Refused(why) = ask() else { panic!("{is_rebased}") };
        assert!(why.contains("before it was reopened"), "{why}");
        assert!(!state(&board, "t1").is_closed());
    }
    commit(&clone, "d", "new again\n", "again");
    assert!(matches!(ask(), Outcome::Landed(_)));
    assert!(state(&board, "t1").is_closed());
}
