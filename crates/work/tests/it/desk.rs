//! The desk: what is told of a landing whoever dies or fails in it, what is a repository of the owner's, and when a workspace goes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use netsky_bus::Bus;
use netsky_disk::fs::Dir;
use netsky_model::id::{AgentId, Generation, Sender};
use netsky_model::task::{Actor, Change, Draft, Event, How, State, Title};
use netsky_model::witness::Nobody;
use netsky_work::Error;
use netsky_work::git::{Git, Sha};
use netsky_work::harvest::harvest;
use netsky_work::landing::{Consent, Desk};
use netsky_work::task::{Board, Error as Refused};
use netsky_work::workspace::{self, Over, Removed, SHARE_FROM, Wish};

use crate::support::{
    Bench, HELPER, command, commit, git, head, landed, main_branch, meanwhile, sweep, task,
};

/// A home with a record, and the owner's board of it.
pub(crate) fn bench() -> (Bench, Board) {
    let bench = Bench::new();
    Dir::create(bench.layout.record()).expect("made");
    let board = Board::new(&bench.layout, Actor::Keeper(Sender::owner()));
    (bench, board)
}

pub(crate) fn draft(id: &str, repo: &Path) -> Draft {
    let title = Title::try_from("work".to_owned()).expect("a title");
    let repo = Some(repo.to_str().expect("text").to_owned());
    Draft { id: Some(task(id)), repo, ..Draft::new(title) }
}

/// Has the owner's desk do something.
pub(crate) fn desk<T>(bench: &Bench, act: impl FnOnce(&Desk<'_>) -> T) -> T {
    let bus = Bus::open(&bench.layout, &Nobody);
    let actor = Actor::Keeper(Sender::owner());
    act(&Desk::open(&bench.layout, &bus, HELPER.as_ref(), actor).expect("it opens"))
}

/// A desk of a process of its own lands a task.
pub(crate) fn land(bench: &Bench, id: &str, fault: &str) -> Command {
    let mut command = Command::new(HELPER);
    command.args(["land", bench.layout.home().to_str().expect("text"), id]);
    command.env("NETSKY_FAULT", fault).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn facts(bench: &Bench, kind: &str) -> usize {
    let facts = netsky_ledger::facts(&bench.layout).expect("the record reads");
    facts.iter().filter(|fact| fact.kind == kind).count()
}

pub(crate) fn state(board: &Board, id: &str) -> State {
    board.get(&task(id)).expect("reads").expect("a task").state
}

#[test]
fn a8_a_workspace_is_never_taken_for_a_repository_of_the_owners() {
    let (bench, board) = bench();
    let clone = bench.workspace("t1");
    let (canary, evil) = (bench.temp.path().join("canary"), bench.temp.path().join("evil"));
    fs::write(&evil, format!("#!/bin/sh\ntouch {}\ncat\n", canary.display())).expect("written");
    fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).expect("set");
    commit(&clone, ".gitattributes", "* filter=x\n", "attributes");
    git(&clone, &["checkout", "-q", "-B", "main"]);
    for key in ["filter.x.clean", "filter.x.smudge", "core.fsmonitor"] {
        git(&clone, &["config", key, evil.to_str().expect("text")]);
    }
    fs::write(clone.join("a"), "touched\n").expect("written");
    let beside = |name: &str| bench.temp.path().join(name);
    symlink(&clone, beside("link")).expect("made");
    fs::create_dir(beside("leads")).expect("made");
    fs::write(beside("leads/.git"), format!("gitdir: {}\n", clone.join(".git").display())).expect("written");
    fs::create_dir(beside("linked")).expect("made");
    symlink(clone.join(".git"), beside("linked/.git")).expect("made");
    let inner = bench.layout.home().join("x/../workspaces");
    let places = [clone.clone(), beside("link"), beside("leads"), beside("linked"), inner];
    // What only leads there is fetched from as any clone is; nothing lands in it.
    for (nth, place) in [&places[0], &places[1], &places[4]].into_iter().enumerate() {
        let id = format!("p{nth}");
        board.create(draft(&id, place)).expect("a task");
        let made = desk(&bench, |desk| desk.create_workspace(&task(&id), None));
        assert!(made.is_err(), "{}", place.display());
        assert!(workspace::find(&bench.layout, &task(&id)).expect("looked").is_none());
    }
    for place in &places[..4] {
        let mut job = bench.job("t1");
        job.repo = place.clone();
        let came = harvest(&job);
        assert!(matches!(came, Err(Error::Within { .. })), "{}: {came:?}", place.display());
    }
    // The files of `main` are laid out there.
    git(&bench.repo, &["checkout", "-q", "-b", "other"]);
    let inside = bench.layout.workspaces().join("t9");
    git(&bench.repo, &["worktree", "add", "-q", inside.to_str().expect("text"), "main"]);
    assert!(matches!(harvest(&bench.job("t1")), Err(Error::Within { .. })));
    assert!(!canary.exists(), "it was run");
}

#[test]
fn a8_an_agent_names_no_folder_that_the_owner_did_not() {
    let (bench, board) = bench();
    let agent: AgentId = "agent7".parse().expect("an agent");
    let own = Board::new(&bench.layout, Actor::Agent(agent, Generation(1)));
    assert!(matches!(own.create(draft("t1", &bench.repo)), Err(Refused::NotNamed(_))));
    own.create(Draft { repo: Some("https://example.org/x".into()), ..draft("t1", &bench.repo) })
        .expect("made");
    let repo = bench.repo.to_str().expect("text").to_owned();
    let change = || Event::Updated(Box::new(Change { repo: Some(repo.clone()), ..Change::default() }));
    assert!(matches!(own.act(&task("t1"), change()), Err(Refused::NotNamed(_))));
    board.create(draft("t2", &bench.repo)).expect("the owner's");
    let named = format!("[repositories.x]\npath = \"{repo}\"\n");
    fs::write(bench.layout.home().join("config.toml"), named).expect("written");
    own.act(&task("t1"), change()).expect("it is named");
    // A link may lead elsewhere later.
    let link = bench.temp.path().join("link");
    symlink(&bench.repo, &link).expect("made");
    assert!(matches!(own.create(draft("t3", &link)), Err(Refused::NotNamed(_))));
}

#[test]
fn i9_a_workspace_that_is_worked_in_again_stays() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    desk(&bench, |desk| desk.harvest(&netsky_work::landing::Wish::of(&task("t1"))).expect("landed"));
    let is_kept = || {
        desk(&bench, |desk| {
            let removed = desk.remove_workspace(&task("t1"), Consent::None);
            assert!(matches!(removed, Err(Error::InUse(_))), "{removed:?}");
            assert!(desk.sweep_workspaces(false).expect("swept").gone.is_empty());
        });
        assert!(workspace::find(&bench.layout, &task("t1")).expect("looked").is_some());
    };
    board.act(&task("t1"), Event::Reopened { why: "more".into() }).expect("reopened");
    is_kept();
    board.act(&task("t1"), Event::Closed { how: How::Done, why: None }).expect("closed");
    fs::create_dir_all(bench.layout.dispatches()).expect("made");
    fs::write(bench.layout.dispatch(&task("t1")), "{}").expect("written");
    is_kept();
    fs::remove_file(bench.layout.dispatch(&task("t1"))).expect("gone");
    assert_eq!(sweep(&bench).gone, [task("t1")]);
}

#[test]
fn fm_workspace_remove_kill_that_it_went_is_told_once_and_not_where_there_is_another_by_then() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    for (is_another, told) in [(false, 1), (true, 1), (false, 2)] {
        let made = desk(&bench, |desk| desk.create_workspace(&task("t1"), None).expect("made").workspace);
        let mut command = Command::new(HELPER);
        command.args(["remove", bench.layout.home().to_str().expect("text"), "t1", made.base.as_str()]);
        let died = command.env("NETSKY_FAULT", "work.workspace.gone=kill").output().expect("it runs");
        assert_eq!(died.status.signal(), Some(9), "{died:?}");
        if is_another {
            desk(&bench, |desk| desk.create_workspace(&task("t1"), None).expect("made again"));
        }
        for swept in [1, 0] {
            assert_eq!(sweep(&bench).swept.workspaces, swept);
            assert_eq!(facts(&bench, "workspace.removed"), told, "{is_another}");
        }
    }
}

#[test]
fn i9_what_is_on_another_branch_of_a_workspace_keeps_it() {
    for (put, back) in
        [(["switch", "-q", "-c", "idea"], true), (["checkout", "-q", "--detach", "HEAD"], false)]
    {
        let (bench, board) = bench();
        board.create(draft("t1", &bench.repo)).expect("a task");
        let clone = bench.workspace("t1");
        commit(&clone, "d", "new\n", "first");
        desk(&bench, |desk| desk.harvest(&netsky_work::landing::Wish::of(&task("t1"))).expect("landed"));
        git(&clone, &put);
        commit(&clone, "idea", "of its own\n", "an idea");
        let is_kept = || {
            desk(&bench, |desk| {
                let removed = desk.remove_workspace(&task("t1"), Consent::None);
                assert!(matches!(removed, Err(Error::NotLanded(..))), "{put:?}: {removed:?}");
                assert!(desk.sweep_workspaces(false).expect("swept").gone.is_empty(), "{put:?}");
            });
        };
        is_kept();
        git(&clone, &["pack-refs", "--all"]);
        is_kept();
        git(&clone, &["switch", "-q", "task/t1"]);
        if back {
            is_kept();
            git(&clone, &["branch", "-q", "-D", "idea"]);
        }
        assert_eq!(sweep(&bench).gone, [task("t1")], "{put:?}");
    }
}

#[test]
fn i9_what_the_owner_has_on_main_keeps_no_workspace_and_a_name_of_anything_else_is_told() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = bench.workspace("t1");
    commit(&bench.repo, "c", "of the owner\n", "meanwhile");
    git(&clone, &["fetch", "-q"]);
    git(&clone, &["branch", "-q", "-f", "main", "origin/main"]);
    commit(&clone, "d", "new\n", "first");
    git(&clone, &["branch", "half"]);
    commit(&clone, "d", "newer\n", "second");
    desk(&bench, |desk| desk.harvest(&netsky_work::landing::Wish::of(&task("t1"))).expect("landed"));
    git(&clone, &["fetch", "-q"]);
    fs::write(clone.join(".git/refs/heads/x.lock"), "").expect("written");
    let has_landed = || desk(&bench, |desk| desk.workspaces(None).expect("listed")[0].has_landed);
    assert!(has_landed(), "half of it is none that did not");
    let idea = commit(&clone, "idea", "of its own\n", "an idea");
    git(&clone, &["reset", "-q", "--hard", "HEAD^"]);
    for name in ["refs/tags/idea", "refs/remotes/other/idea", "refs/heads/idea"] {
        git(&clone, &["update-ref", name, idea.as_str()]);
        if name == "refs/heads/idea" {
            // A name that is no text, beside it in one file.
            let odd = OsStr::from_bytes(b"caf\xe9");
            assert!(command(&clone).arg("branch").arg(odd).status().expect("git runs").success());
            git(&clone, &["pack-refs", "--all"]);
        }
        match desk(&bench, |desk| desk.remove_workspace(&task("t1"), Consent::None)) {
            Err(Error::NotLanded(_, what)) => assert_eq!(what, format!("{name} is at {idea}")),
            other => panic!("{other:?}"),
        }
        assert!(!has_landed());
        git(&clone, &["update-ref", "-d", name]);
    }
    let beside = bench.temp.path().join("beside");
    git(&clone, &["worktree", "add", "-q", "--detach", beside.to_str().expect("text")]);
    assert!(has_landed(), "it has nothing of its own");
    commit(&beside, "idea", "of its own\n", "an idea");
    assert!(!has_landed(), "a linked checkout has more");
    git(&clone, &["worktree", "remove", beside.to_str().expect("text")]);
    assert!(has_landed());
    assert_eq!(sweep(&bench).gone, [task("t1")]);
}

#[test]
fn t19_work_whose_task_is_dropped_while_the_gate_runs_does_not_land() {
    let elsewhere = Change { main: Some("release".into()), ..Change::default() };
    for (event, why) in [
        (Event::Closed { how: How::Dropped, why: None }, "the task was dropped meanwhile"),
        (Event::Updated(Box::new(elsewhere)), "the task was said to land elsewhere meanwhile"),
    ] {
        let (bench, board) = bench();
        board.create(draft("t1", &bench.repo)).expect("a task");
        commit(&bench.workspace("t1"), "d", "new\n", "first");
        let main = bench.main();
        let output = meanwhile(land(&bench, "t1", "work.harvest.gated=stop"), || {
            board.act(&task("t1"), event).expect("the owner's");
        });
        assert!(String::from_utf8_lossy(&output.stdout).contains(why), "{output:?}");
        assert_eq!((bench.main(), facts(&bench, "harvest.landed")), (main, 0));
    }
}

#[test]
fn i9_a_workspace_that_cannot_be_removed_keeps_no_other() {
    let (bench, board) = bench();
    for id in ["t1", "t2"] {
        board.create(draft(id, &bench.repo)).expect("a task");
        commit(&bench.workspace(id), id, "new\n", "first");
        desk(&bench, |desk| desk.harvest(&netsky_work::landing::Wish::of(&task(id))).expect("landed"));
    }
    fs::remove_file(bench.layout.workspace(&task("t1")).join(".throwaway")).expect("gone");
    let new = bench.layout.workspaces().join(".new-t3-1");
    drop(netsky_disk::throwaway::create_held(&new).expect("made"));
    for _ in 0..2 {
        let swept = desk(&bench, |desk| desk.sweep_workspaces(false).expect("the others are"));
        assert!(swept.failed.is_some() && swept.kept.is_empty(), "{swept:?}");
        assert!(!bench.layout.workspace(&task("t2")).exists() && !new.exists());
    }
}

#[test]
fn commits_are_by_whoever_goes_on_with_a_workspace() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    for agent in ["agent2", "agent3"] {
        let made =
            desk(&bench, |desk| desk.create_workspace(&task("t1"), Some(&agent.parse().expect("one"))));
        let clone = made.expect("made").workspace.folder(&bench.layout);
        let by = git(&clone, &["config", "user.email"]);
        assert_eq!(
            (git(&clone, &["config", "user.name"]), by),
            (agent.to_owned(), format!("{agent}@netsky"))
        );
    }
    commit(&bench.layout.workspace(&task("t1")).join("repo"), "d", "new\n", "first");
    landed(bench.harvest("t1"));
    // Of a task that has none nothing is made, which would be taken for one.
    let author = netsky_work::git::Identity::new("agent3", "a@b").expect("fit");
    workspace::set_author(&bench.layout, &task("t2"), &author).expect("nothing to do");
    assert!(!bench.layout.workspace(&task("t2")).exists());
}

#[test]
fn i9_a_harvest_whose_task_another_one_closed_meanwhile_says_that_it_has_landed() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    let output = meanwhile(land(&bench, "t1", "work.landing.started=stop"), || {
        desk(&bench, |desk| {
            desk.harvest(&netsky_work::landing::Wish::of(&task("t1"))).expect("landed");
            desk.remove_workspace(&task("t1"), Consent::None).expect("removed");
        });
    });
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains(&format!("AlreadyLanded {{ sha: {:?} }}", bench.main())), "{said}");
}

#[test]
fn i9_the_workspace_of_work_that_the_owner_brought_to_main_may_go() {
    for by_hand in [&["merge", "-q", "--no-ff", "-m", "by hand"][..], &["cherry-pick"]] {
        let (bench, board) = bench();
        board.create(draft("t1", &bench.repo)).expect("a task");
        let clone = bench.workspace("t1");
        commit(&clone, "d", "new\n", "first");
        commit(&bench.repo, "c", "of the owner\n", "meanwhile");
        git(&bench.repo, &["fetch", "-q", clone.to_str().expect("text"), "task/t1"]);
        git(&bench.repo, &[by_hand, &["FETCH_HEAD"]].concat());
        for _ in 0..2 {
            let output = land(&bench, "t1", "").output().expect("it starts");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                said.contains("AlreadyLanded") && said.contains("has_more: false"),
                "{by_hand:?}: {said}"
            );
        }
        assert!(state(&board, "t1").is_closed(), "{by_hand:?}");
        let more = commit(&clone, "e", "more\n", "second");
        let kept = desk(&bench, |desk| desk.remove_workspace(&task("t1"), Consent::None));
        assert!(matches!(kept, Err(Error::NotLanded(..))), "{by_hand:?}: {more} has not");
        git(&clone, &["reset", "-q", "--hard", "HEAD^"]);
        assert_eq!(sweep(&bench).gone, [task("t1")], "{by_hand:?}");
    }
}

#[test]
fn t19_i9_a_landing_that_does_not_come_to_be_takes_no_earlier_ones_place() {
    for is_killed in [false, true] {
        let (bench, board) = bench();
        board.create(draft("t1", &bench.repo)).expect("a task");
        let clone = bench.workspace("t1");
        commit(&clone, "d", "new\n", "first");
        assert!(land(&bench, "t1", "").output().expect("it starts").status.success());
        board.act(&task("t1"), Event::Reopened { why: "more".into() }).expect("reopened");
        commit(&clone, "e", "more\n", "second");
        if is_killed {
            let output = land(&bench, "t1", "work.land.fetched=kill").output().expect("it starts");
            assert_eq!(output.status.signal(), Some(9));
        } else {
            let output = meanwhile(land(&bench, "t1", "work.harvest.gated=stop"), || {
                fs::write(bench.repo.join("a"), "of the owner\n").expect("written");
            });
            assert!(String::from_utf8_lossy(&output.stdout).contains("DirtyMain"), "{output:?}");
            git(&bench.repo, &["reset", "-q", "--hard"]);
        }
        // Its agent gives it up.
        git(&clone, &["reset", "-q", "--hard", "HEAD^"]);
        board.act(&task("t1"), Event::Closed { how: How::Done, why: None }).expect("closed");
        assert_eq!(sweep(&bench).gone, [task("t1")], "{is_killed}");
        assert_eq!(facts(&bench, "harvest.landed"), 1, "{is_killed}");
    }
}

#[test]
fn i9_what_is_committed_while_a_workspace_goes_brings_it_back() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let made = desk(&bench, |desk| desk.create_workspace(&task("t1"), None).expect("made").workspace);
    commit(&made.folder(&bench.layout), "d", "new\n", "first");
    let tip = landed(bench.harvest("t1")).tip;
    let mut command = Command::new(HELPER);
    command.args(["remove", bench.layout.home().to_str().expect("text"), "t1", tip.as_str()]);
    command.env("NETSKY_FAULT", "work.workspace.leaving=stop").stdout(Stdio::piped());
    let output = meanwhile(command, || {
        let folder = Dir::open(bench.layout.workspaces()).expect("there");
        let gone = folder.names().expect("listed").into_iter().find(|name| name.starts_with(".leaving-"));
        commit(&folder.path().join(gone.expect("it is going")).join("repo"), "e", "more\n", "second");
        let swept = sweep(&bench);
        assert_eq!((swept.swept.workspaces, facts(&bench, "workspace.removed")), (0, 0), "somebody is at it");
    });
    let more = head(&bench.layout.workspace(&task("t1")).join("repo"), "HEAD");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        format!("{:?}", Removed::HasMore(format!("refs/heads/task/t1 is at {more}")))
    );
}

#[test]
fn t19_a_landing_that_was_never_told_is_told_before_the_next_one_takes_its_mark() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = bench.workspace("t1");
    commit(&clone, "d", "new\n", "first");
    let output = land(&bench, "t1", "work.landing.harvested=kill").output().expect("it starts");
    assert_eq!((output.status.signal(), facts(&bench, "harvest.landed")), (Some(9), 0));
    let first = bench.main();
    commit(&clone, "e", "more\n", "second");
    assert!(land(&bench, "t1", "").output().expect("it starts").status.success());
    let all = netsky_ledger::facts(&bench.layout).expect("the record reads");
    let keys: Vec<&str> =
        all.iter().filter(|fact| fact.kind == "harvest.landed").map(|fact| fact.key.as_str()).collect();
    assert_eq!(keys, [format!("t1/{first}"), format!("t1/{}", bench.main())]);
    assert!(state(&board, "t1").is_closed());
    bench.assert_whole();
}

#[test]
fn t19_fm_harvest_kill_work_whose_last_commit_changes_nothing_has_landed_and_is_closed() {
    // None, or one that `main` has within another.
    for last in ["d", "c"] {
        let (bench, board) = bench();
        board.create(draft("t1", &bench.repo)).expect("a task");
        let clone = bench.workspace("t1");
        commit(&clone, "d", "new\n", "first");
        commit(&clone, last, "new\n", "nothing");
        fs::write(bench.repo.join("b"), "of the owner\n").expect("written");
        git(&bench.repo, &["add", "b"]);
        commit(&bench.repo, "c", "new\n", "meanwhile");
        let output = land(&bench, "t1", "work.land.moved=kill").output().expect("it starts");
        assert_eq!(output.status.signal(), Some(9), "{last}");
        for _ in 0..2 {
            let output = land(&bench, "t1", "").output().expect("it starts");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(said.contains("AlreadyLanded") && said.contains("troubles: []"), "{last}: {output:?}");
            let landed = How::Landed { sha: bench.main().to_string(), main: "main".into() };
            assert_eq!(state(&board, "t1"), State::Closed { how: landed, why: None }, "{last}");
        }
        assert_eq!((facts(&bench, "harvest.landed"), facts(&bench, "harvest.refused")), (1, 0), "{last}");
        assert_eq!(bench.times_landed("t1"), 1, "{last}");
        desk(&bench, |desk| desk.remove_workspace(&task("t1"), Consent::None)).expect("it may go");
        bench.assert_whole();
    }
}

#[test]
fn t19_a_task_that_is_closed_while_its_gate_runs_has_landed_all_the_same() {
    for (how, point) in [(How::Done, "work.harvest.picked=stop"), (How::Dropped, "work.land.fetched=stop")] {
        let (bench, board) = bench();
        board.create(draft("t1", &bench.repo)).expect("a task");
        commit(&bench.workspace("t1"), "d", "new\n", "first");
        let output = meanwhile(land(&bench, "t1", point), || {
            board.act(&task("t1"), Event::Closed { how, why: None }).expect("closed");
        });
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("troubles: []"), "{output:?}");
        let landed = How::Landed { sha: bench.main().to_string(), main: "main".into() };
        assert_eq!(state(&board, "t1"), State::Closed { how: landed, why: None });
        assert_eq!(facts(&bench, "harvest.landed"), 1);
    }
}

#[test]
fn t19_what_fails_once_main_has_moved_is_recorded_as_landed() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    let output = land(&bench, "t1", "work.land.moved=error").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && !said.contains("troubles: []"), "{output:?}");
    assert_eq!((facts(&bench, "harvest.landed"), facts(&bench, "harvest.refused")), (1, 0));
    assert!(land(&bench, "t1", "").output().expect("it starts").status.success());
    assert!(state(&board, "t1").is_closed());
    assert_eq!((facts(&bench, "harvest.landed"), bench.times_landed("t1")), (1, 1));
    bench.assert_whole();
}

#[test]
fn t19_a_branch_that_only_followed_main_has_not_landed() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    let base: Sha = bench.main();
    commit(&bench.repo, "c", "of another\n", "meanwhile");
    git(&clone, &["pull", "-q", "--ff-only", "origin", "main"]);
    let mut job = bench.job("t1");
    job.base = Some(base.clone());
    assert_eq!(harvest(&job).expect("an outcome"), netsky_work::harvest::Outcome::Empty);
    // What somebody merged by hand has.
    let tip = commit(&clone, "d", "new\n", "work");
    git(&bench.repo, &["fetch", "-q", clone.to_str().expect("text"), "task/t1"]);
    git(&bench.repo, &["merge", "-q", "--no-ff", "-m", "by hand", "FETCH_HEAD"]);
    let came = harvest(&job).expect("an outcome");
    assert_eq!(came, netsky_work::harvest::Outcome::AlreadyLanded { sha: tip });
}

#[test]
fn a_number_that_is_taken_is_given_to_no_other_task() {
    let (bench, board) = bench();
    for id in ["18446744073709551615", "18446744073709551614", "4"] {
        board.create(draft(id, &bench.repo)).expect("a task");
    }
    for expected in ["5", "6"] {
        let made = board.create(Draft { id: None, ..draft("x", &bench.repo) }).expect("a task");
        assert_eq!(made.id.as_str(), expected);
    }
    assert_eq!(board.list().expect("reads").len(), 5);
}

#[test]
fn a8_no_workspace_is_made_of_one() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    let repo = clone.to_str().expect("text").parse().expect("a path");
    let wish = Wish {
        task: task("t2"),
        repo,
        main: main_branch(),
        branch: None,
        author: None,
        share_from: SHARE_FROM,
    };
    let made = workspace::create(&bench.layout, &Git::find().expect("git"), &wish);
    assert!(matches!(made, Err(Error::Within { .. })), "{made:?}");
    let removed = workspace::remove(&bench.layout, &task("t1"), Over::Forced, &|_| Ok(()));
    assert_eq!(removed.expect("removed"), Removed::Gone);
}

/// Has a repository's `main` pushed once work has landed.
fn pushes(bench: &Bench, to: &str) {
    let repo = bench.repo.to_str().expect("text");
    let text = format!("[repositories.own]\npath = \"{repo}\"\npush = \"{to}\"\n");
    fs::write(bench.layout.home().join("config.toml"), text).expect("written");
}

#[test]
fn a17_an_address_that_is_not_pushed_to_is_told_without_its_secret() {
    for to in ["https://user:canary@host/app", "http://canary@host/app", "ssh://x:canary@host/app"] {
        let (bench, board) = bench();
        board.create(draft("t1", &bench.repo)).expect("a task");
        commit(&bench.workspace("t1"), "d", "new\n", "first");
        pushes(&bench, to);
        let output = land(&bench, "t1", "").output().expect("it starts");
        let said = format!("{output:?}");
        assert!(said.contains("main is not pushed to …@host/app: "), "{said}");
        assert!(!said.contains("canary"), "{said}");
        let facts = format!("{:?}", netsky_ledger::facts(&bench.layout).expect("the record reads"));
        assert!(!facts.contains("canary"), "{facts}");
    }
}

#[test]
fn t19_a_push_is_no_part_of_a_harvest_that_another_one_would_end() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    let remote = bench.temp.path().join("remote.git");
    git(bench.temp.path(), &["init", "-q", "--bare", "--template=", "remote.git"]);
    let (hook, seen) = (remote.join("hooks/pre-receive"), bench.temp.path().join("seen"));
    fs::create_dir_all(remote.join("hooks")).expect("made");
    fs::write(&hook, format!("#!/bin/sh\nenv > {}\n", seen.display())).expect("written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("set");
    pushes(&bench, remote.to_str().expect("text"));
    assert!(land(&bench, "t1", "").output().expect("it starts").status.success());
    assert_eq!(head(&remote, "main"), bench.main());
    let seen = fs::read_to_string(seen).expect("the hook ran");
    assert!(!seen.contains("NETSKY_HARVEST"), "{seen}");
}

#[test]
fn t19_a_repeat_on_a_closed_task_does_what_is_missing_of_its_files() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    let in_the_way = bench.repo.join("d");
    let said = meanwhile(land(&bench, "t1", "work.land.moved=stop"), || {
        fs::write(&in_the_way, "of the owner\n").expect("written");
    });
    let says = |output: &std::process::Output, words: &str| {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(words), "{said}");
    };
    says(&said, "the files that are checked out are behind");
    assert!(matches!(state(&board, "t1"), State::Closed { how: How::Landed { .. }, .. }));
    says(&land(&bench, "t1", "").output().expect("runs"), "a commit would take back what landed");
    fs::remove_file(&in_the_way).expect("gone");
    says(&land(&bench, "t1", "").output().expect("runs"), "troubles: []");
    assert_eq!(fs::read_to_string(&in_the_way).expect("it followed"), "new\n");
    bench.assert_whole();
}
