//! The check while everything runs: what moves is no damage, and a restart under way breaks nothing.

use std::sync::atomic::{AtomicBool, Ordering};

use netsky_disk::process::Signal;

use super::prepared::check;
use crate::bus_home::Home;
use crate::screen::netsky;
use crate::stage::Stage;

/// An agent that is up and takes and finishes what it gets.
const READER: &str = "netsky session up; while :; do \
    netsky channel wait \"$NETSKY_AGENT\" --timeout 60s; netsky channel drain \"$NETSKY_AGENT\"; done";

#[test]
fn i1_i2_messages_on_their_way_are_no_damage() {
    let home = Home::init();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..60 {
                let id = format!("job-{n}");
                let args = ["channel", "send", "agent0", "text", "--from", "owner", "--id", &id];
                netsky(&home, &args).works();
                netsky(&home, &["channel", "drain", "agent0"]).works();
                netsky(&home, &["channel", "ack", "agent0", &id]).works();
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            check(&home).hold();
        }
    });
    assert_eq!(check(&home).hold().looked_at("I2"), 60);
}

#[test]
fn i7_i11_a_death_and_its_repair_are_no_damage() {
    let stage = Stage::up(1, READER, "500ms");
    stage.ok(&["check"]);
    stage.ok(&["channel", "send", "agent0", "text", "--from", "owner"]);
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until("a second agent0", |stage| {
        stage.ok(&["check"]);
        let root = stage.agent("agent0");
        (root["generation"] == 2 && root["up"] == true && stage.status()["restart"].is_null()).then_some(())
    });
    stage.ok(&["check"]);
    stage.ok(&["down"]);
    stage.ok(&["check"]);
}
