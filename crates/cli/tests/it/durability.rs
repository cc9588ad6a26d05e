//! What a send does before it says "done", seen call by call: the file, its name, the folder, and only then a word.
//!
//! A kill cannot show a missing fsync, since the kernel keeps what a dead program wrote; only the order of the calls can.

use std::path::Path;

use netsky_sim::{Call, Ended, Moment, Point};

use crate::bus_home::Home;
use crate::racers::is_output;

/// The calls that a run made, in order.
fn calls(home: &Home, args: &[&str]) -> Vec<Point> {
    let trace = home.stepper(args.iter().copied()).points().expect("a traced run");
    assert_eq!(trace.run.ended, Ended::Exited(0), "{}", trace.run.stderr);
    trace.points.into_iter().filter(|point| point.moment == Moment::Exit).collect()
}

/// Where calls of one kind on something below `folder`, or on the folder itself, stand in the order.
fn places(calls: &[Point], call: Call, folder: &Path) -> Vec<usize> {
    let fits = |point: &Point| point.call == call && point.files.iter().any(|file| file.starts_with(folder));
    calls.iter().enumerate().filter(|(_, point)| fits(point)).map(|(index, _)| index).collect()
}

/// A home in which agent7 has a channel, and all calls of one more send to it.
fn one_send() -> (Home, Vec<Point>) {
    let home = Home::init();
    home.netsky(["channel", "send", "agent7", "first", "--from", "agent0", "--create"]).expect("sent");
    let calls = calls(&home, &["channel", "send", "agent7", "second", "--from", "agent0"]);
    (home, calls)
}

/// Where the envelope got its name.
fn placed(home: &Home, calls: &[Point]) -> usize {
    match places(calls, Call::Rename, &home.channel("agent7", "inbox")).as_slice() {
        [one] => *one,
        others => panic!("placed by {} renames: {calls:#?}", others.len()),
    }
}

#[test]
fn t1_a_send_syncs_its_file_once_before_the_name() {
    let (home, calls) = one_send();
    let tmp = home.channel("agent7", "tmp");
    let placed = placed(&home, &calls);
    let (writes, syncs) = (places(&calls, Call::Write, &tmp), places(&calls, Call::Sync, &tmp));
    assert_eq!(syncs.len(), 1, "{calls:#?}");
    assert!(writes.iter().all(|write| *write < syncs[0]), "written after the sync: {calls:#?}");
    assert!(!writes.is_empty() && syncs[0] < placed, "named before the sync: {calls:#?}");
}

#[test]
fn t1_a_send_syncs_the_folder_once_after_the_name_and_before_it_says_so() {
    let (home, calls) = one_send();
    let inbox = home.channel("agent7", "inbox");
    let placed = placed(&home, &calls);
    let syncs = places(&calls, Call::Sync, &inbox);
    assert_eq!(syncs.len(), 1, "{calls:#?}");
    assert!(calls[syncs[0]].files.contains(&inbox), "what was synced is not the folder: {calls:#?}");
    assert!(placed < syncs[0], "synced before the name: {calls:#?}");
    let said = calls.iter().position(is_output).expect("a send says what it sent");
    assert!(said > syncs[0], "said too soon: {calls:#?}");
}

#[test]
fn t1_a_send_syncs_nothing_else() {
    let (home, calls) = one_send();
    let all = places(&calls, Call::Sync, Path::new("/"));
    assert_eq!(all.len(), 2, "home {}: {calls:#?}", home.path().display());
}

#[test]
fn the_version_opens_no_file_of_the_home() {
    let home = Home::init();
    // Points are counted from the first touch of the home, so there are none.
    assert_eq!(calls(&home, &["--version"]), []);
}

#[test]
fn t2_a_drain_makes_its_claim_durable_before_it_shows_the_text() {
    let (home, _) = one_send();
    let calls = calls(&home, &["channel", "drain", "agent7"]);
    let (claimed, delivered) = (home.channel("agent7", "claimed"), home.channel("agent7", "delivered"));
    let shown = calls.iter().position(is_output).expect("a drain shows its mail");
    let synced = places(&calls, Call::Sync, &claimed);
    assert!(synced.first().is_some_and(|first| *first < shown), "shown before durable: {calls:#?}");
    let (recorded, durable) =
        (places(&calls, Call::Rename, &delivered), places(&calls, Call::Sync, &delivered));
    assert_eq!(recorded.len(), 2, "two envelopes: {calls:#?}");
    assert!(durable.last() > recorded.last(), "recorded and not durable: {calls:#?}");
}

#[test]
fn i1_what_is_removed_is_told_durably_before() {
    let home = Home::init();
    std::fs::write(home.path().join("config.toml"), "[mail]\nkeep_acked = \"1s\"\n").expect("written");
    for id in ["a", "b"] {
        home.netsky(["channel", "send", "agent0", id, "--from", "owner", "--id", id]).expect("sent");
        home.netsky(["channel", "ack", "agent0", id]).expect("acked");
    }
    let (acked, logs) = (home.channel("agent0", "acked"), home.path().join("logs"));
    // They go in one tick or in two, once the clock was seen to have passed.
    for _ in 0..1_000 {
        let calls = calls(&home, &["watchdog", "tick"]);
        if let Some(gone) = places(&calls, Call::Unlink, &acked).first() {
            let told = places(&calls, Call::Write, &logs).into_iter().rfind(|told| told < gone);
            let synced = places(&calls, Call::Sync, &logs);
            let between = |synced: &usize| told < Some(*synced) && synced < gone;
            assert!(told.is_some() && synced.iter().any(between), "{calls:#?}");
            assert!(synced.len() <= 2, "a file and its folder, however many go: {calls:#?}");
        }
        if home.files("agent0", "acked").expect("there").is_empty() {
            return;
        }
    }
    panic!("nothing went");
}

#[test]
fn t2_an_ack_is_durable_before_it_says_so() {
    let home = Home::init();
    home.netsky(["channel", "send", "agent7", "x", "--from", "agent0", "--create", "--id", "x"])
        .expect("sent");
    home.netsky(["channel", "drain", "agent7"]).expect("drained");
    let calls = calls(&home, &["channel", "ack", "agent7", "x"]);
    let acked = home.channel("agent7", "acked");
    let (moved, synced) = (places(&calls, Call::Rename, &acked), places(&calls, Call::Sync, &acked));
    let said = calls.iter().position(is_output).expect("an ack says so");
    assert_eq!((moved.len(), synced.len()), (1, 1), "{calls:#?}");
    assert!(moved[0] < synced[0] && synced[0] < said, "{calls:#?}");
}
