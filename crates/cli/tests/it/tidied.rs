//! A home that somebody tidied: what its programs can make again is made again, and nobody is lost for what cannot.

use std::process::Stdio;

use netsky_disk::process::{Signal, identify, is_alive, is_stopped};

use crate::stage::{QUIET, Stage};

#[test]
fn who_has_no_description_any_more_or_a_damaged_one_comes_back_as_the_next_generation() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.ok(&["down"]);
    let agents = stage.home().join(".ostk/agents");
    std::fs::remove_file(agents.join("agent0.meta")).expect("there");
    std::fs::write(agents.join("agent1.meta"), "").expect("written");
    stage.ok(&["up", "1"]);
    for agent in ["agent0", "agent1"] {
        let status = stage.agent(agent);
        assert!(status["generation"] == 2 && status["state"] == "active", "{status}");
    }
    stage.ok(&["down"]);
}

#[test]
fn a_down_ends_who_lost_their_descriptions_and_an_up_brings_them_back() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.hold_triggers();
    let programs = ["agent0", "agent1"].map(|agent| stage.program(agent));
    std::fs::remove_dir_all(stage.home().join(".ostk/agents")).expect("there");
    let told = stage.ok(&["down"]);
    assert!(told.contains("ended agent0, agent1, agentinfinity, netsky-ticker"), "{told}");
    assert_eq!(programs.map(|program| is_alive(&program)), [false; 2]);
    stage.ok(&["up"]);
    assert_eq!(stage.agent("agent0")["generation"], 2);
    stage.ok(&["down"]);
}

#[test]
fn a_home_that_lost_its_state_takes_mail_and_is_taken_down() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    let program = stage.program("agent0");
    std::fs::remove_dir_all(stage.home().join("state")).expect("there");
    stage.ok(&["channel", "send", "agent0", "still here", "--from", "owner"]);
    let told = stage.ok(&["down"]);
    assert!(told.contains("ended agent0, agentinfinity, netsky-ticker") && !is_alive(&program), "{told}");
    stage.ok(&["up", "--", "/bin/sh", "-c", QUIET]);
    stage.ok(&["down"]);
}

#[test]
fn a_ticker_that_lives_and_makes_no_tick_is_told_of() {
    let stage = Stage::up(0, QUIET, "200ms");
    let told = stage.status()["problems"].to_string();
    assert!(!told.contains("there was no tick"), "{told}");
    stage.hold_triggers();
    let told = stage.until("a tick that is late", |stage| {
        let told = stage.status()["problems"].to_string();
        told.contains("there was no tick for ").then_some(told)
    });
    assert!(
        told.contains("netsky-ticker (pid ") && told.contains("`netsky watchdog tick` makes one"),
        "{told}"
    );
    stage.ok(&["watchdog", "tick"]);
    let told = stage.status()["problems"].to_string();
    assert!(!told.contains("there was no tick"), "{told}");
}

#[test]
fn i2_sessions_that_are_counted_anew_are_not_taken_for_those_before() {
    let takes = "netsky session up; while netsky channel wait agent0; do netsky channel drain agent0; done";
    let stage = Stage::up(0, takes, "10m");
    stage.ok(&["channel", "send", "agent0", "x", "--from", "owner"]);
    let taken = |stage: &Stage| {
        (stage.agent("agent0")["unfinished"] == 1 && stage.agent("agent0")["inbox"] == 0).then_some(())
    };
    stage.until("a message that was taken", taken);
    stage.ok(&["down"]);
    std::fs::remove_dir_all(stage.home().join(".ostk")).expect("there");
    stage.ok(&["up"]);
    stage.until("a message that was taken again", taken);
    assert_eq!(stage.agent("agent0")["generation"], 1);
    // Whoever says so knows that no line is missing.
    let facts = stage.home().join("facts");
    std::fs::write(&facts, "").expect("written");
    stage.ok(&["check", "--facts", facts.to_str().expect("text")]);
}

#[test]
fn i7_an_actor_whose_lock_was_removed_does_nothing_beside_the_next_one() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_dead();
    let mut tick = stage.command(&["watchdog", "tick"]);
    let tick =
        tick.env("NETSKY_FAULT", "watchdog.tick.decided=stop").stderr(Stdio::piped()).stdout(Stdio::null());
    let tick = tick.spawn().expect("starts");
    let id = identify(tick.id()).expect("our child");
    stage.until("a tick that has decided", |_| is_stopped(&id).then_some(()));
    std::fs::remove_dir_all(stage.home().join("state")).expect("there");
    stage.ok(&["down"]);
    stage.signal(&id, Signal::CONT);
    let output = tick.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("it was removed under this actor"), "{said}");
    assert!(stage.agent("agent0").is_null(), "nobody is wanted, and nobody was started");
}
