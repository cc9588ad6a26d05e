//! When what ended is tried again, and what `status` and `down` say of it.

use netsky_disk::clock;
use netsky_disk::process::Signal;

use crate::stage::{QUIET, Stage};

/// As if the last try of an agent had been made this many seconds ago.
fn tried_ago(stage: &Stage, agent: &str, secs: u64) {
    let at = clock::boot().as_millis() as u64 - secs * 1000;
    stage.edit(&format!("state/{agent}-restart-attempts"), |attempts| {
        attempts["at"].as_array_mut().expect("a list").last_mut().expect("a try")["boot_ms"] = at.into();
    });
}

#[test]
fn i7_who_was_killed_twice_is_tried_when_that_was_announced_and_not_with_the_next_beat() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.until("the first beat", |stage| {
        (stage.json("state/tick/ticker.json")["outcome"] == "done").then_some(())
    });
    let beat = stage.json("state/tick/ticker.json");
    for agent in ["agent0", "agent1"] {
        let comes = |generation: u64| {
            stage.signal(&stage.program(agent), Signal::KILL);
            stage.until("the next one", |stage| {
                let now = stage.agent(agent);
                let up = now["up"] == true || agent != "agent0";
                (now["generation"] == generation && up && !now["pid"].is_null()).then_some(())
            });
        };
        comes(2);
        // Whoever was tried just now waits for 10 s; time for a slow machine, and none to waste.
        tried_ago(&stage, agent, 5);
        comes(3);
        // Nobody waits, and the tick that gives up the restart which was not verified begins no other.
        tried_ago(&stage, agent, 1000);
        comes(4);
    }
    assert_eq!(stage.json("state/tick/ticker.json"), beat, "no beat came meanwhile");
    let log = stage.ok(&["logs", "agentinfinity"]);
    let due = log.lines().filter(|line| line.contains(" a try is due: ")).count();
    // Six were announced, of which a later one may have hidden those that were not waited for.
    assert!((2..=6).contains(&due), "once for each announced time: {log}");
}
