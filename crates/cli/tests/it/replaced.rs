//! A consumer that was stopped with a claim in its hands, replaced, and continued: what it does then comes too late.
//!
//! Stopped after every single system call between its claim and its print. Where it does not hold the file yet, a release
//! simply takes the claim; from where it does, the release is refused until the consumer is killed. Either way the
//! message is shown by the replacement, flagged, and nothing by who lost it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use netsky_sim::{Call, Ended, Moment, Point};

use crate::bus_home::{DRAIN, Home, surfacings};
use crate::racers::is_output;
use crate::screen::netsky;

const RELEASE: [&str; 4] = ["channel", "release", "agent7", "job-1"];

/// Every file of the mailboxes and of the state, with its bytes.
fn files(home: &Home) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(folder).expect("there") {
            let path = entry.expect("readable").path();
            match path.is_dir() {
                true => walk(&path, found),
                false => drop(found.insert(path.clone(), fs::read(path).expect("readable"))),
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&home.path().join("channels"), &mut found);
    walk(&home.path().join("state"), &mut found);
    found
}

fn home_with_a_message() -> Home {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent7", "x", "--from", "owner", "--create", "--id", "job-1"])
        .works();
    home
}

/// The points of a drain after its claim and before its print, by their numbers.
fn points_with_a_claim(args: &[&str]) -> Vec<Point> {
    let home = home_with_a_message();
    let points = home.stepper(args.iter().copied()).points().expect("a consumer").points;
    let claim = |point: &Point| {
        let to = point.files.last().map(|file| file.to_string_lossy().into_owned());
        point.call == Call::Rename && to.is_some_and(|to| to.contains("/claimed/"))
    };
    let print = |point: &Point| point.call == Call::Write && is_output(point);
    let held = points.iter().position(claim).expect("it claims");
    let shown = points.iter().position(print).expect("it prints");
    points[held..shown].iter().filter(|point| point.moment == Moment::Exit).cloned().collect()
}

/// Stops the consumer at a point, replaces it, continues it; whether it had to be killed for that.
fn stop_replace_continue(args: &[&str], at: &Point) -> bool {
    let home = home_with_a_message();
    let paused = home.stepper(args.iter().copied()).pause_when(|point| point.index == at.index);
    let paused = paused.expect("a consumer").unwrap_or_else(|| panic!("it never came to {at}"));
    let released = netsky(&home, &RELEASE);
    let held = released.code == 5;
    if held {
        released.fails_with(5, &["job-1 of agent7 is held by process", "--kill"]);
        let mut kill = RELEASE.to_vec();
        kill.push("--kill");
        netsky(&home, &kill).works();
    } else {
        released.works();
    }
    let replacement = surfacings(netsky(&home, &DRAIN).works());
    let told: Vec<(&str, u32)> = replacement.iter().map(|one| (&*one.id, one.attempt)).collect();
    assert_eq!(told, [("job-1", 2)], "{at}");
    assert!(replacement[0].redelivered, "{at}");
    let before = files(&home);
    let late = paused.resume().expect("its end");
    // One that lives on answers, as JSON with an empty list.
    let nothing = if held || !args.contains(&"--json") { "" } else { "{\"envelopes\":[],\"left_out\":0}\n" };
    assert_eq!(late.stdout, nothing, "{at}: surfaced by who had lost it");
    assert_eq!(files(&home), before, "{at}: changed by who had lost it");
    match held {
        true => assert_eq!(late.ended, Ended::Signalled(9), "{at}"),
        false => {
            assert_eq!(late.ended, Ended::Exited(5), "{at}: {}", late.stderr);
            assert!(
                late.stderr.contains("was taken from this process before it was shown"),
                "{}",
                late.stderr
            );
        }
    }
    held
}

#[test]
fn must_show_a_stopped_and_replaced_drain_surfaces_and_changes_nothing() {
    let points = points_with_a_claim(&DRAIN);
    let held = points.iter().filter(|point| stop_replace_continue(&DRAIN, point)).count();
    println!("replaced: {} stop points, {held} of them with the file held", points.len());
    assert!(held > 0 && held < points.len(), "both kinds: {held} of {}", points.len());
}

#[test]
fn must_show_a_stopped_and_replaced_json_drain_surfaces_and_changes_nothing() {
    let args = ["channel", "drain", "agent7", "--json"];
    let points = points_with_a_claim(&args);
    let held = points.iter().filter(|point| stop_replace_continue(&args, point)).count();
    assert!(held > 0 && held < points.len(), "both kinds: {held} of {}", points.len());
}
