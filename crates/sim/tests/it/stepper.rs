//! What a point is, that kills land exactly there, and that no run outlives its bound.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use netsky_sim::{Call, Ended, Errno, Error, Fault, Moment, Point, Stepper};
use tempfile::TempDir;

fn mv(folder: &Path) -> Stepper {
    fs::write(folder.join("a"), "whole").unwrap();
    Stepper::new("/bin/mv").args(["a", "b"]).cwd(folder).from_first_touch_of(folder)
}

fn cp(folder: &Path) -> Stepper {
    fs::write(folder.join("a"), "whole").unwrap();
    Stepper::new("/bin/cp").args(["--reflink=never", "a", "b"]).cwd(folder).from_first_touch_of(folder)
}

fn is(call: Call, moment: Moment) -> impl Fn(&Point) -> bool {
    move |point| point.call == call && point.moment == moment
}

#[test]
fn points_come_in_pairs_and_name_their_files() {
    let folder = TempDir::new().unwrap();
    let trace = mv(folder.path()).only(&[Call::Rename]).points().unwrap();
    assert_eq!(trace.run.ended, Ended::Exited(0));
    let [before, after] = &trace.points[..] else { panic!("{:?}", trace.points) };
    assert_eq!((before.index, before.moment), (0, Moment::Entry));
    assert_eq!((after.index, after.moment), (1, Moment::Exit));
    let root = fs::canonicalize(folder.path()).unwrap();
    assert_eq!(before.files, [root.join("a"), root.join("b")]);
    assert_eq!(after.files, before.files);
}

#[test]
fn a_kill_before_a_call_undoes_it_and_a_kill_after_it_does_not() {
    for (moment, there, gone) in [(Moment::Entry, "a", "b"), (Moment::Exit, "b", "a")] {
        let folder = TempDir::new().unwrap();
        let outcome = mv(folder.path()).kill_when(is(Call::Rename, moment)).unwrap();
        assert_eq!(outcome.run.ended, Ended::Killed);
        assert_eq!(outcome.hit.unwrap().moment, moment);
        assert_eq!(fs::read_to_string(folder.path().join(there)).unwrap(), "whole");
        assert!(!folder.path().join(gone).exists());
    }
}

#[test]
fn every_point_is_hit_in_its_turn_and_leaves_what_came_before_it() {
    let shell = |folder: &Path| {
        let script = "echo one > a; echo two > b";
        Stepper::new("/bin/sh").args(["-c", script]).cwd(folder).from_first_touch_of(folder)
    };
    let points = shell(TempDir::new().unwrap().path()).points().unwrap().points;
    assert_eq!(points.len(), 8, "an open and a write of two files, both sides: {points:?}");
    let (one, two) = (Some("one\n"), Some("two\n"));
    let left = [
        (None, None),
        (Some(""), None),
        (Some(""), None),
        (one, None),
        (one, None),
        (one, Some("")),
        (one, Some("")),
        (one, two),
    ];
    for (index, (a, b)) in left.into_iter().enumerate() {
        let folder = TempDir::new().unwrap();
        let hit = shell(folder.path()).kill_at(index).unwrap().hit.unwrap();
        let at = &points[index];
        assert_eq!((hit.index, hit.name, hit.moment), (at.index, at.name, at.moment));
        let text = |name| fs::read_to_string(folder.path().join(name)).ok();
        assert_eq!((text("a").as_deref(), text("b").as_deref()), (a, b), "{at}");
    }
    let folder = TempDir::new().unwrap();
    let beyond = shell(folder.path()).kill_at(points.len()).unwrap();
    assert!(beyond.hit.is_none());
    assert_eq!(beyond.run.ended, Ended::Exited(0));
}

#[test]
fn what_was_written_before_the_kill_is_kept() {
    let shell = |script: &str| Stepper::new("/bin/sh").args(["-c", script]).only(&[Call::Write]);
    let run = shell("echo one; echo two >&2; exit 7").points().unwrap().run;
    assert_eq!((run.ended, &*run.stdout, &*run.stderr), (Ended::Exited(7), "one\n", "two\n"));
    let unseen = shell("echo one; echo two >&2; exit 7").run().unwrap();
    assert_eq!((unseen.ended, unseen.stdout, unseen.stderr), (run.ended, run.stdout, run.stderr));
    // Points 0 and 1 are the first echo, 2 is the entry of the second.
    assert_eq!(shell("echo one; echo two").kill_at(2).unwrap().run.stdout, "one\n");
    assert_eq!(shell("echo one; echo two").kill_at(3).unwrap().run.stdout, "one\ntwo\n");
}

#[test]
fn a_run_gets_the_environment_it_was_given_and_no_other() {
    let run = Stepper::new("/usr/bin/env").env("KEY", "value").points().unwrap().run;
    let lines: Vec<_> = run.stdout.lines().filter(|line| !line.starts_with("_=")).collect();
    assert_eq!(lines, ["KEY=value"]);
}

#[test]
fn a_run_past_its_bound_is_killed_and_an_error() {
    let started = Instant::now();
    let limit = Duration::from_millis(200);
    let endless = Stepper::new("/bin/sh").args(["-c", "while :; do :; done"]).limit(limit);
    assert!(matches!(endless.points(), Err(Error::TimedOut { .. })));
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_point_is_new_where_something_may_be_otherwise_than_at_the_one_before() {
    let folder = TempDir::new().unwrap();
    let script = "echo one > a; read x < a; echo two >> a; exec 3< nothing";
    let shell = Stepper::new("/bin/sh").args(["-c", script]).cwd(folder.path());
    let points =
        shell.from_first_touch_of(folder.path()).only(&[Call::Open, Call::Write]).points().unwrap().points;
    let seen: Vec<_> = points.iter().map(|at| (at.call, at.moment, at.is_new)).collect();
    let (open, write, before, after) = (Call::Open, Call::Write, Moment::Entry, Moment::Exit);
    let expected = [
        (open, before, true),
        (open, after, true),
        (write, before, false),
        (write, after, true),
        // It only reads.
        (open, before, false),
        (open, after, false),
        (open, before, false),
        (open, after, true),
        (write, before, false),
        (write, after, true),
        // It fails.
        (open, before, false),
        (open, after, false),
    ];
    assert_eq!(seen[..expected.len()], expected, "{points:?}");
}

#[test]
fn of_a_family_all_are_killed_or_one_alone_and_the_others_go_on() {
    for (fault, there) in [(Fault::Kill, false), (Fault::KillOne, true)] {
        let folder = TempDir::new().unwrap();
        let script = format!("mkdir {}; echo after > b", folder.path().join("a").display());
        let shell =
            Stepper::new("/bin/sh").args(["-c", &script]).cwd(folder.path()).env("PATH", "/usr/bin:/bin");
        let shell = shell.from_first_touch_of(folder.path()).family();
        let here = |point: &Point| point.call == Call::Mkdir && point.moment == Moment::Entry;
        let watched = shell.serve(here, fault).unwrap().ended().unwrap();
        let hit = watched.outcome.hit.unwrap();
        assert!(hit.by.starts_with("mkdir /"), "{}", hit.by);
        assert!(!folder.path().join("a").exists(), "{fault:?}");
        assert_eq!(folder.path().join("b").exists(), there, "{fault:?}");
        let ends = watched.points.iter().filter(|point| point.call == Call::Exit).count();
        assert_eq!(ends, usize::from(there), "the shell's alone: {:?}", watched.points);
    }
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    let error = Stepper::new("/nowhere/at/all").points().unwrap_err();
    assert!(matches!(error, Error::NotStarted { .. }), "{error}");
}

#[test]
fn a_program_with_a_second_thread_is_refused() {
    let this = std::env::current_exe().unwrap();
    let threads = Stepper::new(this).args(["--exact", "stepper::nothing", "--test-threads=2"]);
    assert!(matches!(threads.points(), Err(Error::Threads { .. })));
}

#[test]
fn nothing() {}

#[test]
fn a_signal_that_is_not_ours_reaches_the_program() {
    let run = Stepper::new("/bin/sh").args(["-c", "trap 'echo caught; exit 3' TERM; kill -TERM $$"]).points();
    let run = run.unwrap().run;
    assert_eq!((run.ended, &*run.stdout), (Ended::Exited(3), "caught\n"));
}

#[test]
fn a_paused_program_stands_where_it_was_stopped() {
    let folder = TempDir::new().unwrap();
    let paused = mv(folder.path()).pause_when(is(Call::Rename, Moment::Exit)).unwrap().unwrap();
    assert!(folder.path().join("b").exists());
    let stat = fs::read_to_string(format!("/proc/{}/stat", paused.pid())).unwrap();
    assert_eq!(stat.split_whitespace().nth(2), Some("T"), "under SIGSTOP, not traced: {stat}");
    assert_eq!(paused.resume().unwrap().ended, Ended::Exited(0));
}

#[test]
fn a_paused_program_can_be_killed_and_dies_when_dropped() {
    let folder = TempDir::new().unwrap();
    let pause = || mv(folder.path()).pause_when(is(Call::Rename, Moment::Exit)).unwrap().unwrap();
    assert_eq!(pause().kill().unwrap().ended, Ended::Killed);
    let paused = pause();
    let pid = paused.pid();
    drop(paused);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_call_can_be_made_to_fail() {
    let folder = TempDir::new().unwrap();
    let written = |point: &Point| point.call == Call::Write && point.files[0].ends_with("b");
    let outcome = cp(folder.path()).fail_when(written, Errno::ENOSPC).unwrap();
    assert!(outcome.hit.is_some());
    assert_eq!(outcome.run.ended, Ended::Exited(1));
    assert!(outcome.run.stderr.contains("No space left on device"), "{}", outcome.run.stderr);
    assert_eq!(fs::read(folder.path().join("b")).unwrap(), b"");
}
