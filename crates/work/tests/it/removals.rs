//! A workspace goes in steps, and whoever dies at one loses nothing; what is in it is looked at and not told.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use netsky_disk::fs::Dir;
use netsky_disk::lock::Lock;
use netsky_model::task::Event;
use netsky_work::Error;
use netsky_work::landing::{Consent, Wish};
use netsky_work::workspace::{self, Removed};

use crate::desk::{bench, desk, draft, facts};
use crate::support::{Bench, HELPER, command, commit, git, head, landed, meanwhile, sweep, task};

/// A helper that removes the workspace of `t1`, whose work has landed by itself.
fn remover(bench: &Bench, fault: &str) -> Command {
    let made = desk(bench, |desk| desk.create_workspace(&task("t1"), None).expect("made").workspace);
    commit(&made.folder(&bench.layout), "d", &format!("{fault}\n"), "first");
    let tip = landed(bench.harvest("t1")).tip;
    let mut command = Command::new(HELPER);
    command.args(["remove", bench.layout.home().to_str().expect("text"), "t1", tip.as_str()]);
    command.env("NETSKY_FAULT", fault).stdout(Stdio::piped());
    command
}

/// The clone of the workspace that goes, by how its name begins by now.
fn clone_in(bench: &Bench, start: &str) -> PathBuf {
    let folder = Dir::open(bench.layout.workspaces()).expect("there");
    let name = folder.names().expect("listed").into_iter().find(|name| name.starts_with(start));
    folder.path().join(name.expect("it was going")).join("repo")
}

#[test]
fn i9_fm_workspace_remove_kill_before_it_was_looked_at_again_gives_it_its_name_back() {
    for (point, is_more) in
        [("work.workspace.leaving", false), ("work.workspace.leaving", true), ("work.workspace.taken", false)]
    {
        let (bench, board) = bench();
        board.create(draft("t1", &bench.repo)).expect("a task");
        let died = remover(&bench, &format!("{point}=kill")).output().expect("it runs");
        assert_eq!(died.status.signal(), Some(9), "{died:?}");
        if is_more {
            commit(&clone_in(&bench, ".leaving-"), "e", "more\n", "second");
        }
        desk(&bench, |desk| desk.harvest(&Wish::of(&task("t1"))).expect("it is there again"));
        let there = workspace::find(&bench.layout, &task("t1")).expect("it reads").expect("there");
        assert_eq!(git(&there.folder(&bench.layout), &["branch", "--show-current"]), "task/t1");
        assert_eq!(git(&bench.repo, &["log", "--format=%s", "-1"]), if is_more { "second" } else { "first" });
        assert_eq!(sweep(&bench).gone, [task("t1")]);
        assert_eq!(facts(&bench, "workspace.removed"), 1);
        bench.assert_whole();
    }
}

#[test]
fn i9_what_its_agent_calls_as_a_remover_does_is_not_taken_for_the_repository() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = bench.workspace("t1");
    let taken = clone.with_file_name(".taken");
    fs::create_dir(&taken).expect("made");
    git(&taken, &["init", "-q", "--template="]);
    commit(&clone, "d", "new\n", "first");
    desk(&bench, |desk| desk.harvest(&Wish::of(&task("t1"))).expect("landed"));
    let shown = desk(&bench, |desk| desk.workspaces(Some(&task("t1"))).expect("looked at"));
    let there = shown[0].workspace.as_ref().expect("it reads");
    assert_eq!(there.tip(&bench.layout), Some(head(&clone, "HEAD")));
    let swept = sweep(&bench);
    assert!(swept.kept[0].1.contains("/t1/.taken is in the way"), "{swept:?}");
    assert_eq!(git(&clone, &["branch", "--show-current"]), "task/t1");
    fs::remove_dir_all(&taken).expect("there");
    assert_eq!(sweep(&bench).gone, [task("t1")]);
}

#[test]
fn i9_fm_workspace_remove_eio_it_has_its_name_and_its_repository_again() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let said = remover(&bench, "work.workspace.taken=error").output().expect("it runs");
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert!(bench.layout.workspace(&task("t1")).join("repo/.git").is_dir());
}

#[test]
fn i9_fm_workspace_remove_kill_who_lists_or_shows_it_sees_it_again() {
    for only in [None, Some(task("t1"))] {
        let (bench, board) = bench();
        board.create(draft("t1", &bench.repo)).expect("a task");
        remover(&bench, "work.workspace.taken=kill").output().expect("it runs");
        let all = desk(&bench, |desk| desk.workspaces(only.as_ref()).expect("it is there again"));
        assert!(matches!(&all[..], [one] if one.task == task("t1") && one.workspace.is_ok()), "{all:?}");
        assert!(bench.layout.workspace(&task("t1")).join("repo/.git").is_dir());
    }
}

#[test]
fn i9_fm_workspace_remove_kill_a_clone_that_was_removed_by_hand_meanwhile_stops_nobody() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    remover(&bench, "work.workspace.taken=kill").output().expect("it runs");
    fs::remove_dir_all(clone_in(&bench, ".leaving-")).expect("there");
    sweep(&bench);
    desk(&bench, |desk| desk.remove_workspace(&task("t1"), Consent::All).expect("dropped"));
    assert_eq!(facts(&bench, "workspace.removed"), 1);
}

#[test]
fn i9_what_an_agent_makes_where_its_repository_was_is_beside_it_then() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    remover(&bench, "work.workspace.taken=kill").output().expect("it runs");
    let clone = clone_in(&bench, ".leaving-");
    fs::remove_file(clone.join(".git")).expect("it says that there is none");
    git(&clone, &["init", "-q", "--template="]);
    commit(&clone, "e", "more\n", "second");
    desk(&bench, |desk| desk.harvest(&Wish::of(&task("t1"))).expect("it is there again"));
    let swept = sweep(&bench);
    assert!(
        swept.gone.is_empty() && swept.kept[0].1.contains("/.git is a repository of its own"),
        "{swept:?}"
    );
    let there = bench.layout.workspace(&task("t1")).join("repo");
    assert_eq!(git(&there, &["branch", "--show-current"]), "task/t1");
}

#[test]
fn i9_who_is_given_a_workspace_while_it_goes_has_it() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = bench.workspace("t1");
    commit(&clone, "d", "new\n", "first");
    desk(&bench, |desk| desk.harvest(&Wish::of(&task("t1"))).expect("landed"));
    let mut sweep = Command::new(HELPER);
    sweep.args(["sweep", bench.layout.home().to_str().expect("text")]);
    sweep.env("NETSKY_FAULT", "work.workspace.taken=stop").stdout(Stdio::piped());
    let said = meanwhile(sweep, || {
        board.act(&task("t1"), Event::Reopened { why: "more".into() }).expect("reopened");
    });
    assert!(String::from_utf8_lossy(&said.stdout).contains("somebody works there again"), "{said:?}");
    assert_eq!(git(&clone, &["branch", "--show-current"]), "task/t1");
}

#[test]
fn i9_one_that_its_agent_opened_for_others_goes_by_force_and_leaves_nothing() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    bench.workspace("t1");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(bench.layout.workspace(&task("t1")), open).expect("set");
    desk(&bench, |desk| desk.remove_workspace(&task("t1"), Consent::All).expect("dropped"));
    let left = Dir::open(bench.layout.workspaces()).expect("there").names().expect("listed");
    assert!(!left.iter().any(|name| name.contains("t1")), "{left:?}");
}

#[test]
fn i9_fm_workspace_remove_kill_once_it_is_gone_nobody_commits_there() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    remover(&bench, "work.workspace.gone=kill").output().expect("it runs");
    let clone = clone_in(&bench, ".gone-");
    fs::write(clone.join("e"), "more\n").expect("written");
    for args in [&["add", "e"][..], &["commit", "-q", "--allow-empty", "-m", "second"]] {
        assert!(!command(&clone).args(args).output().expect("git runs").status.success(), "{args:?}");
    }
    assert_eq!(sweep(&bench).swept.workspaces, 1);
    assert_eq!(facts(&bench, "workspace.removed"), 1);
}

#[test]
fn t19_while_one_is_deleted_others_are_made_and_a_sweep_does_it_too() {
    let (bench, board) = bench();
    for id in ["t1", "t2"] {
        board.create(draft(id, &bench.repo)).expect("a task");
    }
    for (point, is_deleted) in [("work.workspace.gone", false), ("work.workspace.told", true)] {
        let output = meanwhile(remover(&bench, &format!("{point}=stop")), || {
            let removals = Lock::try_take(bench.layout.workspaces().join(".removals")).expect("looked");
            assert_eq!(removals.is_some(), is_deleted, "{point}: nobody waits for it");
            drop(removals);
            assert_eq!(sweep(&bench).swept.workspaces, usize::from(is_deleted));
            if is_deleted {
                desk(&bench, |desk| desk.create_workspace(&task("t2"), None).expect("made"));
            }
        });
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), format!("{:?}", Removed::Gone));
    }
}

#[test]
fn t19_who_was_stopped_as_it_removed_one_is_named_to_those_who_wait() {
    let (bench, board) = bench();
    for id in ["t1", "t2"] {
        board.create(draft(id, &bench.repo)).expect("a task");
    }
    bench.workspace("t1");
    let lock = bench.layout.workspaces().join(".removals");
    let mut held = Lock::take(&lock).expect("free");
    held.note(&4_000_001).expect("noted");
    match desk(&bench, |desk| desk.create_workspace(&task("t2"), None)) {
        Err(Error::Removing { by, .. }) => assert_eq!(by, Some(4_000_001)),
        other => panic!("{other:?}"),
    }
    let names = Dir::open(bench.layout.workspaces()).expect("there").names().expect("listed");
    assert!(!names.iter().any(|name| name.starts_with(".new-")), "{names:?}");
}

#[test]
fn a17_a12_what_stands_in_the_place_of_a_name_is_not_told() {
    let (bench, board) = bench();
    board.create(draft("t1", &bench.repo)).expect("a task");
    let clone = bench.workspace("t1");
    commit(&clone, "d", "new\n", "first");
    desk(&bench, |desk| desk.harvest(&Wish::of(&task("t1"))).expect("landed"));
    let (name, secret) = (clone.join(".git/refs/heads/zz"), bench.temp.path().join("secret"));
    fs::write(&secret, "a key\n").expect("written");
    let told = || match desk(&bench, |desk| desk.remove_workspace(&task("t1"), Consent::None)) {
        Err(Error::NotLanded(_, what)) => what,
        other => panic!("{other:?}"),
    };
    symlink(&secret, &name).expect("made");
    assert!(
        told().ends_with(
            "/repo/.git do not read (it is shut or gone, has them in tables, or has a link for one)"
        )
    );
    fs::remove_file(&name).expect("there");
    fs::File::create(&name).expect("made").set_len(64 << 20).expect("long");
    assert!(
        told().ends_with(
            "/repo/.git do not read (it is shut or gone, has them in tables, or has a link for one)"
        )
    );
    fs::write(&name, "a key\n").expect("written");
    assert_eq!(told(), "refs/heads/zz is at no commit");
    fs::remove_file(&name).expect("there");
    fs::rename(clone.join(".git/refs"), clone.join(".git/away")).expect("there");
    symlink(clone.join(".git/away"), clone.join(".git/refs")).expect("made");
    assert!(
        told().ends_with(
            "/repo/.git do not read (it is shut or gone, has them in tables, or has a link for one)"
        )
    );
    fs::remove_file(clone.join(".git/refs")).expect("there");
    fs::rename(clone.join(".git/away"), clone.join(".git/refs")).expect("there");
    desk(&bench, |desk| desk.remove_workspace(&task("t1"), Consent::None).expect("all of it has landed"));
}
