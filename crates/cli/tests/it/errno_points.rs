//! L5: the real `netsky channel send|drain` where one file-system call fails.
//!
//! A full or failing disk may refuse the work, in one clear line and with a documented exit code; it may not lose what
//! was promised, leave halves, or keep the next try from succeeding.

use anyhow::{Result, ensure};
use netsky_sim::{Call, Ended, Errno, Fault, Outcome, Point};

use crate::bus_home::{DRAIN, Deaths, Home, repeats_are_flagged, surfacings};
use crate::everywhere::break_everywhere;
use crate::racers::stopped_with_a_claim;

const SEND: [&str; 8] = ["channel", "send", "agent7", "second", "--from", "agent0", "--id", "second"];

fn home() -> Home {
    let home = Home::init();
    let first = ["channel", "send", "agent7", "first", "--from", "agent0", "--create", "--id", "first"];
    home.netsky(first).expect("sent");
    home
}

/// Exit 0, or one line on standard error and the exit code that the documents have for this trouble: the machine's is not
/// the home's, nor its owner's.
pub(crate) fn clear_answer(outcome: &Outcome, errno: Errno) -> Result<bool> {
    let stderr = &outcome.run.stderr;
    match outcome.run.ended {
        Ended::Exited(0) => Ok(true),
        Ended::Exited(code @ 1..=7) => {
            // The failing call may have been the one that says so.
            let one_line =
                stderr.is_empty() || (stderr.starts_with("netsky: ") && stderr.lines().count() == 1);
            ensure!(one_line, "exit {code} says: {stderr}");
            // 6 is for what was done and could not be said.
            ensure!(matches!(code, 1 | 5 | 6), "exit {code} for {errno}: {stderr}");
            Ok(false)
        }
        ended => anyhow::bail!("{ended:?}: {stderr}"),
    }
}

fn send_under(errno: Errno) {
    let name = format!("send, {errno}");
    break_everywhere(&name, Fault::Fail(errno), &home(), &SEND, |home, outcome| {
        let sent = clear_answer(outcome, errno)?;
        let audit = home.audit("agent7")?;
        ensure!(!sent || audit.folder_of("second") == Some("inbox"), "exit 0, is absent");
        ensure!(audit.folder_of("first") == Some("inbox"), "a neighbour was touched");
        home.netsky(SEND)?;
        let surfaced = home.drain()?;
        repeats_are_flagged(&surfaced, Deaths::NONE)?;
        ensure!(surfaced.len() == 2, "surfaced {surfaced:?}");
        home.audit("agent7")?;
        Ok(())
    });
}

fn drain_under(errno: Errno) {
    let name = format!("drain, {errno}");
    break_everywhere(&name, Fault::Fail(errno), &home(), &DRAIN, |home, outcome| {
        clear_answer(outcome, errno)?;
        home.audit("agent7")?;
        let mut surfaced = surfacings(&outcome.run.stdout);
        surfaced.extend(home.drain()?);
        // What failed was one message's, or the reader's while it held one.
        repeats_are_flagged(&surfaced, Deaths::one_at_a_time(1))?;
        home.attempts_are_explained("agent7", Deaths::one_at_a_time(1))?;
        ensure!(surfaced.iter().any(|one| one.id == "first"), "lost");
        ensure!(home.audit("agent7")?.folder_of("first") == Some("delivered"), "not recorded");
        Ok(())
    });
}

/// A reader that fails before it showed anything has cost no attempt, however it shows.
fn unseen_under(errno: Errno) {
    let template = home();
    template.netsky(SEND).expect("sent");
    for args in [
        &DRAIN[..],
        &["channel", "drain", "agent7", "--json"],
        &["channel", "watch", "agent7", "--max", "2"],
        &["channel", "watch", "agent7", "--max", "2", "--", "/bin/cat"],
    ] {
        let name = format!("{args:?}, {errno}");
        break_everywhere(&name, Fault::Fail(errno), &template, args, |home, outcome| {
            if outcome.run.stdout.is_empty() {
                let comes = home.drain()?;
                ensure!(comes.len() == 2 && comes.iter().all(|one| one.attempt == 1), "{comes:?}");
            }
            Ok(())
        });
    }
}

fn create_under(errno: Errno) {
    let send = ["channel", "send", "agent7", "text", "--from", "agent0", "--create", "--id", "again"];
    let name = format!("send --create, {errno}");
    break_everywhere(&name, Fault::Fail(errno), &Home::init(), &send, |home, outcome| {
        let sent = clear_answer(outcome, errno)?;
        ensure!(!sent || home.audit("agent7")?.folder_of("again") == Some("inbox"), "exit 0, is absent");
        home.netsky(send)?;
        ensure!(home.drain()?.len() == 1, "not once");
        Ok(())
    });
}

fn ack_under(errno: Errno) {
    let template = home();
    template.drain().expect("drained");
    let ack = ["channel", "ack", "agent7", "first"];
    break_everywhere(&format!("ack, {errno}"), Fault::Fail(errno), &template, &ack, |home, outcome| {
        let acked = clear_answer(outcome, errno)?;
        let there = home.audit("agent7")?.folder_of("first");
        ensure!(there == Some("acked") || (!acked && there == Some("delivered")), "is in {there:?}");
        home.netsky(ack)?;
        ensure!(home.audit("agent7")?.folder_of("first") == Some("acked"), "exit 0, is elsewhere");
        Ok(())
    });
}

/// One test for each error of each operation.
macro_rules! cells {
    ($($operation:ident: $under:ident;)*) => { $(mod $operation {
        use super::*;

        #[test]
        fn enospc_every_syscall() {
            $under(Errno::ENOSPC);
        }

        #[test]
        fn eio_every_syscall() {
            $under(Errno::EIO);
        }

        #[test]
        fn emfile_every_syscall() {
            $under(Errno::EMFILE);
        }

        #[test]
        fn erofs_every_syscall() {
            $under(Errno::EROFS);
        }
    })* };
}

cells! {
    fm_send: send_under;
    fm_send_create: create_under;
    fm_claim_and_fm_deliver: drain_under;
    fm_ack: ack_under;
}

#[test]
fn fm_claim_emfile_before_the_first_byte_costs_no_attempt() {
    unseen_under(Errno::EMFILE);
}

#[test]
fn fm_claim_eio_before_the_first_byte_costs_no_attempt() {
    unseen_under(Errno::EIO);
}

#[test]
fn fm_claim_eio_of_one_file_stops_no_neighbour() {
    let template = home();
    template.netsky(SEND).expect("sent");
    let of_first = |point: &Point| {
        matches!(point.call, Call::Open | Call::Rename)
            && point.files.iter().any(|file| file.to_string_lossy().ends_with("-first.json"))
    };
    let outcome = template.stepper(DRAIN).fail_when(of_first, Errno::EIO).expect("a run");
    assert!(outcome.hit.is_some(), "first is looked at");
    assert_eq!(outcome.run.ended, Ended::Exited(1), "{}", outcome.run.stderr);
    assert!(outcome.run.stderr.contains("left where it is"), "{}", outcome.run.stderr);
    assert!(surfacings(&outcome.run.stdout).iter().any(|one| one.id == "second"), "{}", outcome.run.stdout);
    let surfaced = template.drain().expect("drained");
    assert!(surfaced.iter().any(|one| one.id == "first"), "it waited: {surfaced:?}");
}

#[test]
fn fm_claim_emfile_takes_nothing_from_an_owner_that_lives() {
    let template = home();
    template.netsky(DRAIN).expect("drained");
    let paused = stopped_with_a_claim(&template);
    let points = break_everywhere(
        "drain, live owner",
        Fault::Fail(Errno::EMFILE),
        &template,
        &DRAIN,
        |home, outcome| {
            clear_answer(outcome, Errno::EMFILE)?;
            let surfaced = surfacings(&outcome.run.stdout);
            ensure!(surfaced.iter().all(|one| one.id != "s0-0001"), "surfaced what another holds");
            let held = home.audit("agent7")?.folder_of("s0-0001");
            ensure!(held == Some("claimed"), "taken from a live owner: {held:?}");
            Ok(())
        },
    );
    assert!(
        points.iter().any(|point| point.files.iter().any(|file| file.ends_with("stat"))),
        "no look at the owner"
    );
    paused.resume().expect("it goes on");
}

/// Whether a run opens the file of the message `id`.
fn opens(id: &str) -> impl Fn(&Point) -> bool {
    let end = format!("-{id}.json");
    move |point| {
        point.call == Call::Open && point.files.iter().any(|file| file.to_string_lossy().ends_with(&end))
    }
}

#[test]
fn fm_ack_fm_poison_retry_fm_forward_emfile_and_eio_are_not_called_damage() {
    let template = crate::cells::dead_letter();
    template.netsky(["channel", "send", "agent7", "x", "--from", "owner", "--id", "three"]).expect("sent");
    for (args, id) in [
        (&["channel", "ack", "agent7", "two"][..], "two"),
        (&["channel", "poison", "retry", "agent7", "two"], "two"),
        (&["channel", "forward", "agent7", "three", "--to", "agent8"], "three"),
    ] {
        for (errno, code) in [(Errno::EMFILE, 5), (Errno::EIO, 1)] {
            let home = template.copy();
            let before = home.files("agent7", "poison").expect("read");
            let outcome = home.stepper(args.iter().copied()).fail_when(opens(id), errno).expect("a run");
            assert!(outcome.hit.is_some(), "{args:?} reads it");
            assert_eq!(outcome.run.ended, Ended::Exited(code), "{args:?}: {}", outcome.run.stderr);
            assert_eq!(home.files("agent7", "poison").expect("read"), before);
            home.netsky(args.iter().copied()).expect("the repeat is safe");
        }
    }
}

#[test]
fn fm_ack_fm_forward_eacces_what_waits_and_may_not_be_read_goes_aside_as_by_a_drain() {
    for verb in [&["ack", "agent7", "two"][..], &["forward", "agent7", "two", "--to", "agent8"]] {
        let home = crate::cells::two();
        let args = ["channel"].iter().chain(verb).copied();
        let outcome = home.stepper(args).fail_when(opens("two"), Errno::EACCES).expect("a run");
        assert!(outcome.hit.is_some(), "{verb:?} reads it");
        assert_eq!(outcome.run.ended, Ended::Exited(7), "{verb:?}: {}", outcome.run.stderr);
        let aside = home.files("agent7", "poison").expect("read");
        assert_eq!(aside.len(), 2, "it and its reason: {aside:?}");
    }
}

/// Whether a run opens the claim of the message `id`.
fn holds(id: &str) -> impl Fn(&Point) -> bool {
    let mark = format!("-{id}.");
    move |point| {
        let is_claim = |file: &std::path::PathBuf| {
            file.to_str().is_some_and(|file| file.contains("/claimed/") && file.contains(&mark))
        };
        point.call == Call::Open && point.files.iter().any(is_claim)
    }
}

#[test]
fn fm_claim_emfile_of_the_hold_on_a_later_claim_is_told_and_it_waits_at_the_same_attempt() {
    let home = home();
    home.netsky(SEND).expect("sent");
    let drain = ["channel", "drain", "agent7", "--json"];
    let outcome = home.stepper(drain).fail_when(holds("second"), Errno::EMFILE).expect("a run");
    assert!(outcome.hit.is_some(), "it holds its claim");
    assert!(outcome.run.stdout.contains("\"first\""), "{}", outcome.run.stdout);
    assert_eq!(outcome.run.ended, Ended::Exited(5), "{}", outcome.run.stderr);
    assert!(outcome.run.stderr.contains("Too many open files"), "{}", outcome.run.stderr);
    let audit = home.audit("agent7").expect("whole");
    assert_eq!((audit.found["second"].folder, audit.found["second"].attempt), ("inbox", 1));
}

#[test]
fn fm_forward_emfile_of_the_hold_leaves_it_waiting_at_the_same_attempt() {
    let home = crate::cells::two();
    let forward = crate::cells::FORWARD_TWO;
    let (opens, mut opened) = (opens("two"), 0);
    let holds = |point: &Point| {
        opened += usize::from(opens(point));
        opened == 2
    };
    let outcome = home.stepper(forward.iter().copied()).fail_when(holds, Errno::EMFILE).expect("a run");
    assert!(outcome.hit.is_some(), "it reads it, and holds it");
    assert_eq!(outcome.run.ended, Ended::Exited(5), "{}", outcome.run.stderr);
    let audit = home.audit("agent7").expect("whole");
    assert_eq!((audit.found["two"].folder, audit.found["two"].attempt), ("inbox", 1));
    home.netsky(forward.iter().copied()).expect("the repeat is safe");
}
