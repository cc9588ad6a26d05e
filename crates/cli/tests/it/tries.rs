//! When what ended is tried again, and what `status` and `down` say of it.

use netsky_disk::clock;
use netsky_disk::process::{Signal, is_alive, signal};
use netsky_model::stamp::Stamp;
use serde_json::json;

use crate::stage::{QUIET, Stage};

/// As if the last try of an agent had been made this many seconds ago; on an earlier boot, as this one may be younger.
fn tried_ago(stage: &Stage, agent: &str, secs: i64) {
    let wall = clock::wall() - jiff::SignedDuration::from_secs(secs);
    let at = Stamp { wall, boot_ms: 0, boot_id: "00000000".to_owned() };
    stage.edit(&format!("state/{agent}-restart-attempts"), |attempts| {
        *attempts["at"].as_array_mut().expect("a list").last_mut().expect("a try") = json!(at);
    });
}

/// The problem lines of a status.
fn told(stage: &Stage) -> String {
    stage.ok(&["status"]).lines().filter(|line| line.contains("problem: ")).collect()
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

#[test]
fn who_makes_the_anchors_pause_is_said_so_with_its_time_and_an_up_does_not_wait_for_it() {
    let stage = Stage::up(0, QUIET, "10m");
    for generation in [1, 2] {
        stage.until("agentinfinity", |stage| {
            let agent = stage.agent("agentinfinity");
            (agent["generation"] == generation && agent["pid"].is_u64()).then_some(())
        });
        let program = stage.program("agentinfinity");
        stage.signal(&program, Signal::KILL);
    }
    let told = stage.until("its pause", |stage| {
        let told = told(stage);
        told.contains("agentinfinity: it keeps ending; the anchor starts it in ").then_some(told)
    });
    assert!(told.contains(" s, `netsky up` at once"), "{told}");
    let upped = stage.ok(&["up", "0"]);
    assert!(upped.contains("agentinfinity generation 3 started"), "{upped}");
    assert!(stage.agent("agentinfinity")["pid"].is_u64() && !self::told(&stage).contains("agentinfinity: "));
}

#[test]
fn where_both_triggers_make_the_anchors_pause_and_it_dies_a_tick_by_hand_brings_all_back() {
    let stage = Stage::up(0, QUIET, "10m");
    let ends = |agent: &str, generation: u64| {
        stage.until("a start", |stage| {
            let agent = stage.agent(agent);
            (agent["generation"] == generation && agent["pid"].is_u64()).then_some(())
        });
        stage.signal(&stage.program(agent), Signal::KILL);
    };
    for (agent, generation) in
        [("agentinfinity", 1), ("agentinfinity", 2), ("netsky-ticker", 1), ("netsky-ticker", 2)]
    {
        ends(agent, generation);
    }
    stage.until("both pauses", |stage| {
        let told = told(stage);
        ["agentinfinity", "netsky-ticker"]
            .iter()
            .all(|agent| told.contains(&format!("{agent}: it keeps ending; the anchor starts it in ")))
            .then_some(())
    });
    stage.kill_anchor();
    let said = stage.ok(&["watchdog", "tick"]);
    for agent in ["agentinfinity", "netsky-ticker"] {
        assert!(said.contains(&format!("{agent} generation 3 started")), "{said}");
    }
}

#[test]
fn status_says_why_who_is_wanted_is_down_and_whether_only_the_next_tick_tries_it() {
    let stage = Stage::new();
    let program = stage.home().with_file_name("agent.sh");
    let script = format!("#!/bin/sh\n{QUIET}\n");
    std::fs::write(&program, script).expect("written");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
    stage.ok(&["up", "1", "--tick", "10m", "--", program.to_str().expect("text")]);
    std::fs::remove_file(&program).expect("there");
    for agent in ["agent0", "agent1"] {
        stage.signal(&stage.program(agent), Signal::KILL);
        let why =
            format!("problem: {agent}: program {program:?} is not there or not executable; next try in ");
        stage.until("the reason", |stage| told(stage).contains(&why).then_some(()));
        stage.until("a verdict", |stage| stage.status()["restart"].is_null().then_some(()));
    }
    stage.hold_triggers();
    for agent in ["agent0", "agent1"] {
        tried_ago(&stage, agent, 1000);
        let when = format!(
            "{agent}: program {program:?} is not there or not executable; next try with the next tick"
        );
        assert!(told(&stage).contains(&when), "{}", told(&stage));
    }
    assert!(told(&stage).contains(", at most 10m 0s from now, attempt "), "{}", told(&stage));
    // A tick that has it to tell, which is over with the wish.
    let (_, line) = stage.refused(&["watchdog", "tick"]);
    assert!(line.contains("agent1: program "), "{line}");
    assert_eq!(told(&stage).matches("agent1: program ").count(), 1, "{}", told(&stage));
    stage.ok(&["down"]);
    assert_eq!(told(&stage), "");
    assert!(stage.json("state/tick/watchdog.json")["problems"].to_string().contains("agent1: program "));
}

#[test]
fn i7_a_restart_whose_child_gives_up_late_is_judged_at_once() {
    let stage = Stage::new();
    let program = stage.home().with_file_name("agent.sh");
    std::fs::write(&program, format!("#!/bin/sh\n{QUIET}\n")).expect("written");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
    stage.ok(&["up", "0", "--tick", "10m", "--", program.to_str().expect("text")]);
    let child = stage.stopped_child();
    // What was announced has passed meanwhile, and what agentinfinity has seen it has told.
    tried_ago(&stage, "agent0", 1000);
    stage.signal(&stage.program("agentinfinity"), Signal::CONT);
    stage.until("its tick", |stage| {
        let log = stage.ok(&["logs", "agentinfinity"]);
        log.lines().any(|line| line.contains("agent0 ended: tick ")).then_some(())
    });
    std::fs::remove_file(&program).expect("there");
    stage.signal(&child, Signal::CONT);
    stage.until("a verdict", |stage| stage.status()["restart"].is_null().then_some(()));
}

#[test]
fn status_says_that_nobody_wakes_a_tick_where_an_up_was_killed_before_it_started_anybody() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.ok(&["down"]);
    // As far as a killed one came.
    for wish in stage.names("state/desired").iter().filter(|name| name.ends_with(".json")) {
        stage.edit(&format!("state/desired/{wish}"), |wish| wish["want"] = "up".into());
    }
    let said = told(&stage);
    for agent in ["agent0", "agentinfinity", "netsky-ticker"] {
        let line = format!(
            "{agent}: it is down; next try with the next tick, which nobody wakes: repeat your `netsky up`"
        );
        assert!(said.contains(&line), "{said}");
    }
}

#[test]
fn a_down_after_one_that_was_killed_midway_says_that_it_stopped_the_anchor() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.hold_triggers();
    // As far as a killed one came: nothing is wanted, and a tick has ended everybody.
    for wish in stage.names("state/desired").iter().filter(|name| name.ends_with(".json")) {
        stage.edit(&format!("state/desired/{wish}"), |wish| wish["want"] = "stopped".into());
    }
    // Who keeps the others ends behind them.
    for _ in 0..2 {
        stage.ok(&["watchdog", "tick"]);
    }
    assert!(stage.status()["anchor_epoch"].is_u64());
    assert_eq!(stage.ok(&["down"]), "no agent was running; the anchor was stopped\n");
    assert_eq!(stage.ok(&["down"]), "nothing was running\n");
}

#[test]
fn status_tells_of_the_mail_of_who_never_was_wanted() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    stage.ok(&["channel", "send", "agent7", "--create", "nonsense soon", "--from", "owner"]);
    assert!(stage.ok(&["status"]).contains("\nagent7: 1 waiting, 0 dead letters\n"));
    let inbox = "channels/agent/agent7/inbox";
    let name = stage.names(inbox).remove(0);
    std::fs::write(stage.home().join(inbox).join(name), "{").expect("written");
    let _ = stage.run(&["channel", "drain", "agent7"]);
    assert!(stage.ok(&["status"]).contains("\nagent7: 0 waiting, 1 dead letter\n"));
}

#[test]
fn status_says_where_who_ended_at_its_start_may_have_said_why() {
    let stage = Stage::up(0, QUIET, "10m");
    let _ = stage.run(&["agent", "1", "--", "/bin/sh", "-c", "echo no such model; exit 3"]);
    let why = "agent1: exited with code 3 (`netsky logs agent1` has its last words); ";
    stage.until("the reason", |stage| told(stage).contains(why).then_some(()));
    assert!(stage.ok(&["logs", "agent1"]).contains("no such model"));
}

#[test]
fn who_is_of_another_kind_now_is_not_told_to_be_undriven() {
    let stage = Stage::up(1, QUIET, "10m");
    let wall = clock::wall() - jiff::SignedDuration::from_mins(1);
    let since = Stamp { wall, boot_ms: 0, boot_id: "00000000".to_owned() };
    let note = json!({ "v": 1, "why": "its book", "since": since });
    std::fs::create_dir_all(stage.home().join("state/drivers")).expect("made");
    std::fs::write(stage.home().join("state/drivers/agent1.undriven.json"), note.to_string())
        .expect("written");
    assert_eq!(told(&stage), "");
}

#[test]
fn i7_an_up_after_everybody_died_while_a_restart_was_watched_waits_for_no_later_tick() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until("its successor", |stage| {
        let root = stage.agent("agent0");
        (root["generation"] == 2 && root["up"] == true).then_some(())
    });
    assert!(!stage.status()["restart"].is_null(), "it is watched for an interval");
    let mut all = vec![stage.anchor()];
    for agent in ["agentinfinity", "netsky-ticker", "agent0"] {
        all.extend([stage.worker(agent), stage.program(agent)]);
    }
    // A program goes with its worker, perhaps before its own turn.
    for process in &all {
        let _ = signal(process, Signal::KILL).expect("ours to signal");
    }
    stage.until("the end of all", |_| all.iter().all(|process| !is_alive(process)).then_some(()));
    let said = stage.ok(&["up", "--tick", "10m", "--", "/bin/sh", "-c", QUIET]);
    assert!(said.contains("agent0 session 3 starting at "), "{said}");
}

#[test]
fn a_restart_of_who_keeps_ending_says_when_it_is_tried() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_dead();
    let now = netsky_disk::clock::stamp();
    let attempts = serde_json::json!({ "v": 1, "at": vec![&now; 5], "crashloop": true, "paged": true });
    std::fs::write(stage.home().join("state/agent0-restart-attempts"), attempts.to_string())
        .expect("written");
    let queued = stage.ok(&["restart"]);
    assert!(queued.contains("; agent0 is gone and is tried again in "), "{queued}");
    assert!(queued.contains("(`netsky up` tries at once); see `netsky status`"), "{queued}");
}

#[test]
fn i7_a_restart_that_was_asked_for_when_agent0_was_gone_says_how_it_ended() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_dead();
    stage.ok(&["restart"]);
    stage.until("its successor", |stage| {
        stage.run(&["watchdog", "tick"]);
        let root = stage.agent("agent0");
        (root["generation"] == 2 && root["up"] == true && root["inbox"] == 1).then_some(())
    });
    let said = stage.ok(&["channel", "drain", "agent0"]);
    assert!(said.contains("Planned restart asked for by owner"), "{said}");
    assert!(said.contains("generation 1 ended by itself (ended by signal 9)"), "{said}");
}

#[test]
fn i7_an_empty_file_asks_for_no_restart() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.hold_triggers();
    std::fs::write(stage.home().join("state/restart-request"), "").expect("written");
    let all = ["agent0", "agent1"].map(|id| stage.program(id));
    stage.ok(&["watchdog", "tick"]);
    assert_eq!(["agent0", "agent1"].map(|id| stage.program(id)), all);
    assert_eq!(stage.status()["restart_queued"], false);
    stage.ok(&["restart"]);
    assert_eq!(stage.status()["restart_queued"], true);
    assert!(
        stage.names("state").contains(&"restart-request".to_owned()) && stage.status()["restart"].is_null()
    );
}

#[test]
fn i10_a_log_that_cannot_be_written_keeps_nobody_from_coming_back() {
    let stage = Stage::up(0, QUIET, "200ms");
    let log = stage.home().join("logs/watchdog.log");
    stage.hold_triggers();
    std::fs::remove_file(&log).expect("the ticks had one");
    std::fs::create_dir(&log).expect("made");
    for id in ["netsky-ticker", "agentinfinity"] {
        stage.signal(&stage.program(id), Signal::CONT);
    }
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_verified(2);
}

#[test]
fn i7_a_start_of_a_clone_leaves_what_is_counted_of_agent0() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.hold_triggers();
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_dead();
    let now = netsky_disk::clock::stamp();
    let attempts = serde_json::json!({ "v": 1, "at": vec![&now; 5], "crashloop": true, "paged": true });
    let counted = stage.home().join("state/agent0-restart-attempts");
    std::fs::write(&counted, attempts.to_string()).expect("written");
    let failed = serde_json::json!({ "v": 1, "at": now, "why": "restart-1: why", "started": null });
    std::fs::write(stage.home().join("state/agent0-revive-failed"), failed.to_string()).expect("written");
    stage.ok(&["agent", "1"]);
    assert_eq!(stage.json("state/agent0-restart-attempts")["at"].as_array().map(Vec::len), Some(5));
    assert!(stage.agent("agent0")["pid"].is_null());
}

#[test]
fn a_next_tick_is_promised_to_nobody_while_ticks_fail() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.until_verified(1);
    stage.hold_triggers();
    let program = stage.program("agent0");
    stage.signal(&program, netsky_disk::process::Signal::KILL);
    stage.until("its end", |_| (!netsky_disk::process::is_alive(&program)).then_some(()));
    let said = |stage: &Stage| String::from_utf8_lossy(&stage.run(&["status"]).stdout).into_owned();
    assert!(said(&stage).contains("with the next tick, at most "), "{}", said(&stage));
    let mut tick = stage.command(&["watchdog", "tick"]);
    tick.env("NETSKY_FAULT", "watchdog.tick.decided=kill").output().expect("starts");
    assert!(said(&stage).contains("with the next tick that comes to its end"), "{}", said(&stage));
}

#[test]
fn who_asks_for_everybody_has_a_clone_that_keeps_dying_tried_at_once() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.until_verified(1);
    stage.hold_triggers();
    let down = |stage: &Stage| stage.agent("agent1")["pid"].is_null();
    for _ in 0..2 {
        let program = stage.program("agent1");
        stage.signal(&program, Signal::KILL);
        stage.until("its end", |_| (!is_alive(&program)).then_some(()));
        stage.run(&["watchdog", "tick"]);
    }
    assert!(down(&stage) && told(&stage).contains("agent1"), "it waits: {}", told(&stage));
    stage.ok(&["up", "--tick", "10m", "--", "/bin/sh", "-c", QUIET]);
    stage.until("agent1 at once", |stage| (!down(stage)).then_some(()));
}
