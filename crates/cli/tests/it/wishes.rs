//! Wishes that somebody damaged or removed: who lives for them is seen, kept and ended, and every way out is said.

use std::os::unix::fs::DirBuilderExt;

use netsky_disk::process::{Signal, is_alive};
use netsky_sim::{Call, Errno, Point};

use crate::bus_home::Home;
use crate::stage::{QUIET, Stage};

fn problems(stage: &Stage) -> String {
    stage.status()["problems"].to_string()
}

/// No wish of agent0 and of the two that keep the rest reads.
fn damage_wishes(stage: &Stage) {
    for agent in ["agent0", "agentinfinity", "netsky-ticker"] {
        std::fs::write(stage.home().join(format!("state/desired/{agent}.json")), "{").expect("written");
    }
}

#[test]
fn who_lives_for_wishes_that_do_not_read_keeps_an_anchor() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    damage_wishes(&stage);
    let anchor = stage.kill_anchor();
    let told = stage.ok(&["status"]);
    assert!(told.contains("anchor: nobody serves") && told.matches("unknown").count() == 3, "{told}");
    let (exit, told) = stage.refused(&["watchdog", "tick"]);
    assert!(exit == 1 && told.contains("agent0.json"), "{exit}: {told}");
    assert_ne!(stage.anchor(), anchor);
    assert_eq!(stage.agent("agent0")["up"], true);
    assert!(stage.ok(&["down"]).contains("ended agent0, agentinfinity, netsky-ticker"));
    stage.refused(&["watchdog", "tick"]);
    // Nobody lives; the anchor answers before it ends.
    stage.until("a home that is down", |stage| {
        stage
            .ok(&["status"])
            .contains("anchor: not running, and no wish that reads wants anything")
            .then_some(())
    });
}

#[test]
fn who_runs_without_a_wish_stands_in_status_and_is_ended_by_a_down() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.hold_triggers();
    let program = stage.program("agent1");
    std::fs::remove_file(stage.home().join("state/desired/agent1.json")).expect("there");
    let clone = stage.agent("agent1");
    assert!(clone["want"].is_null() && clone["pid"] == program.pid, "{clone}");
    let told = "agent1: runs, and no wish of it is there; `netsky down` ends it";
    assert!(problems(&stage).contains(told));
    stage.kill_anchor();
    assert!(problems(&stage).contains(told), "also where nobody serves");
    std::fs::write(stage.home().join("state/desired/agent0.json"), "{").expect("written");
    let (exit, line) = stage.refused(&["up"]);
    assert!(exit == 1 && line.contains("desired/agent0.json"), "{exit}: {line}");
    assert!(line.ends_with("`netsky up -- PROGRAM` writes it anew\n"), "{line}");
    assert!(stage.ok(&["down"]).contains("agent1") && !is_alive(&program));
}

#[test]
fn who_runs_without_any_wish_is_ended_by_a_down_also_where_nobody_serves() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    let program = stage.program("agent0");
    std::fs::remove_dir_all(stage.home().join("state/desired")).expect("there");
    stage.kill_anchor();
    let told = stage.ok(&["status"]);
    assert!(told.contains("agent0: runs, and no wish") && told.contains("anchor: nobody serves"), "{told}");
    let told = stage.ok(&["down"]);
    assert!(told.contains("ended agent0, agentinfinity, netsky-ticker") && !is_alive(&program), "{told}");
}

#[test]
fn a_down_ends_who_lives_for_wishes_that_do_not_read() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    damage_wishes(&stage);
    let anchor = stage.anchor();
    stage.signal(&anchor, Signal::KILL);
    let said = stage.ok(&["down"]);
    assert!(said.contains("ended agent0, agentinfinity, netsky-ticker"), "{said}");
    assert!(stage.living_roots().is_empty());
}

#[test]
fn an_agent0_that_died_without_a_wish_is_told_of_and_an_up_brings_it_back() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    std::fs::remove_file(stage.home().join("state/desired/agent0.json")).expect("there");
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_dead();
    let told = "agent0: is down, and no wish of it is there; `netsky up -- PROGRAM` brings it back";
    let ticked = stage.ok(&["watchdog", "tick"]);
    assert_eq!(ticked.lines().find(|line| !line.contains("it is stopped")), Some(told), "{ticked}");
    assert!(problems(&stage).contains(told));
    stage.ok(&["down"]);
    assert!(!problems(&stage).contains("agent0"), "of a home that is down nobody is missed");
    assert!(stage.ok(&["up", "--", "/bin/sh", "-c", QUIET]).contains("agent0 session 2 starting at "));
}

#[test]
fn who_lives_without_a_wish_is_not_taken_for_another_program_and_keeps_its_handoff() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    let program = stage.program("agent0");
    std::fs::remove_dir_all(stage.home().join("state/desired")).expect("there");
    let (exit, line) = stage.refused(&["up", "--", "/bin/sh", "-c", "exec sleep 100000"]);
    assert!(exit == 4 && line.contains("agent0 lives with another program"), "{exit}: {line}");
    assert!(is_alive(&program) && stage.names("state/desired").is_empty());
    stage.ok(&["up", "--tick", "10m", "--", "/bin/sh", "-c", QUIET]);
    assert_eq!(stage.program("agent0"), program);
    stage.signal(&program, Signal::KILL);
    stage.until_dead();
    stage.ok(&["watchdog", "tick"]);
    stage.until("a new agent0", |stage| (stage.agent("agent0")["generation"] == 2).then_some(()));
    stage.until("its handoff", |stage| {
        stage.ok(&["channel", "list", "agent0"]).contains("handoff").then_some(())
    });
}

#[test]
fn an_up_beside_a_wish_that_cannot_be_set_aside_begins_nothing() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    std::fs::create_dir_all(stage.home().join("state/desired/agent0.json")).expect("made");
    let (exit, line) = stage.refused(&["up", "--", "/bin/sh", "-c", QUIET]);
    assert!(exit == 1 && line.contains("agent0.json") && line.contains("move it away"), "{exit}: {line}");
    assert_eq!(stage.names("state/desired"), ["agent0.json"]);
}

#[test]
fn a_file_in_the_place_of_all_wishes_is_named_and_once_it_is_away_a_down_ends_all() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    let program = stage.program("agent0");
    let wishes = stage.home().join("state/desired");
    std::fs::remove_dir_all(&wishes).expect("there");
    std::fs::write(&wishes, "").expect("written");
    for verb in [&["down"][..], &["status"], &["watchdog", "tick"]] {
        let (exit, line) = stage.refused(verb);
        assert!(exit == 1 && line.contains("state/desired: not a folder, move it away"), "{exit}: {line}");
    }
    std::fs::remove_file(&wishes).expect("there");
    stage.ok(&["down"]);
    assert!(!is_alive(&program));
}

#[test]
fn a_wish_that_does_not_read_is_told_with_the_way_out() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.hold_triggers();
    for (agent, way_out) in [
        ("agent0", "`netsky up -- PROGRAM` writes it anew"),
        ("agent1", "`netsky up 1 -- PROGRAM` writes it anew"),
        ("netsky-ticker", "`netsky up` writes it anew"),
    ] {
        std::fs::write(stage.home().join(format!("state/desired/{agent}.json")), "{").expect("written");
        assert!(problems(&stage).contains(&format!("the wish for {agent} is left as it is, {way_out}")));
    }
    stage.ok(&["up", "1", "--tick", "10m", "--", "/bin/sh", "-c", QUIET]);
    assert!(!problems(&stage).contains("wish"), "{}", problems(&stage));
}

#[test]
fn an_up_with_another_interval_replaces_the_ticker_whatever_its_wish_says() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    let path = stage.home().join("state/desired/netsky-ticker.json");
    for (tick, generation) in [("9m", 2), ("8m", 3)] {
        stage.ok(&["up", "--tick", tick]);
        assert_eq!(stage.agent("netsky-ticker")["generation"], generation);
        let counted = stage.home().join("state/netsky-ticker-restart-attempts");
        assert!(
            !counted.exists(),
            "it was wanted anew, and did not die: {:?}",
            std::fs::read_to_string(counted)
        );
        // As a `down` that was cut short leaves it.
        let wish = std::fs::read_to_string(&path).expect("there");
        assert!(wish.contains("\"want\":\"up\"") || wish.contains("\"want\": \"up\""), "{wish}");
        let stopped = wish.replace("\"want\":\"up\"", "\"want\":\"stopped\"");
        std::fs::write(&path, stopped.replace("\"want\": \"up\"", "\"want\": \"stopped\"")).expect("written");
    }
}

#[test]
fn an_up_takes_no_wish_that_is_about_another_agent() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.ok(&["down"]);
    let desired = stage.home().join("state/desired");
    std::fs::copy(desired.join("agent1.json"), desired.join("agent0.json")).expect("copied");
    let (exit, line) = stage.refused(&["up", "1"]);
    assert!(exit == 1 && line.contains("agent0.json: it is about agent1; move it away"), "{exit}: {line}");
}

#[test]
fn fm_status_eio_sessions_that_cannot_be_looked_at_are_not_taken_for_none_that_died_without_a_wish() {
    let home = Home::init();
    let [desired, agents] = ["state/desired", ".ostk/agents"].map(|folder| home.path().join(folder));
    for folder in [&desired, &agents] {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).expect("made");
    }
    let wish = include_str!("../../../model/samples/desired.v1.json");
    std::fs::write(desired.join("agent0.json"), wish).expect("written");
    std::fs::write(agents.join("agent1.meta"), "{}").expect("written");
    let told = "who ended without a wish is not known";
    assert!(!home.netsky(["status"]).expect("runs").stdout.contains(told));
    // The look at who ended comes after the one at who lives, and only then.
    let (mut wished, mut held) = (false, false);
    let is_looked_at = |point: &Point| {
        let of = |name: &str| point.files.iter().any(|file| file.ends_with(name));
        wished |= of("agent0.json");
        held |= wished && of("agent1.lock");
        held && point.call == Call::Open && of(".ostk/agents")
    };
    let outcome = home.stepper(["status"]).fail_when(is_looked_at, Errno::EIO).expect("runs");
    assert!(outcome.hit.is_some(), "it is never looked at");
    let run = outcome.run;
    assert!(run.stdout.contains(told) && run.stdout.contains("agent0"), "{}{}", run.stdout, run.stderr);
}
