//! up, down, status, restart: what a newcomer does, and the restart protocol under kill.

use std::process::Command;

use netsky_disk::process::{Signal, is_alive};
use netsky_model::process::ProcessId;

use crate::bystander::Bystander;
use crate::stage::{QUIET, Stage};

#[test]
fn up_returns_at_the_proof_and_down_ends_everything() {
    let stage = Stage::up(2, QUIET, "1s");
    let everyone: Vec<_> =
        ["agent0", "agent1", "agent2", "agentinfinity", "netsky-ticker"].map(|id| stage.program(id)).into();
    let again = stage.ok(&["up", "2", "--", "/bin/sh", "-c", QUIET]);
    assert!(again.contains("agent0 session 1 starting at "), "the same proof: {again}");
    assert_eq!(stage.program("agent0"), everyone[0], "up leaves what is up");
    stage.ok(&["down"]);
    assert!(everyone.iter().all(|process| !is_alive(process)));
    assert!(stage.names("state/up").iter().all(|name| name == "tmp"), "no proof outlives who it is of");
    assert_eq!(stage.ok(&["down"]), "nothing was running\n");
    assert_eq!(stage.agent("agent0")["want"], "stopped");
    let told = stage.ok(&["up", "0", "--", "/bin/sh", "-c", QUIET]);
    assert!(told.contains("agent0 session 2 starting at "), "K rises: {told}");
    assert!(stage.names("logs/handoffs").is_empty(), "nothing died, nothing is handed over");
}

#[test]
fn i7_a_killed_agent0_comes_back_with_its_handoff_and_is_verified() {
    let stage = Stage::up(1, QUIET, "500ms");
    let (root, clone) = (stage.program("agent0"), stage.program("agent1"));
    stage.signal(&root, Signal::KILL);
    stage.until_verified(2);
    assert_eq!(stage.program("agent1"), clone, "a crash restart leaves clones alone");
    let inbox = stage.ok(&["channel", "drain", "agent0"]);
    assert!(inbox.contains("from=\"agentinfinity\" kind=\"handoff\""), "{inbox}");
    assert!(inbox.contains("ended without a handoff"), "{inbox}");
    assert_eq!(stage.names("logs/handoffs").iter().filter(|name| name.ends_with(".json")).count(), 1);
    assert!(stage.names("state/crash-handoffs").iter().all(|name| name == "tmp"), "our copy goes last");
    assert_eq!(stage.living_roots(), ["2"]);
}

#[test]
fn i7_verified_forgives_nothing_and_the_fifth_death_in_the_window_is_a_crashloop() {
    let stage = Stage::up(0, QUIET, "500ms");
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_verified(2);
    // As if three more had died since, each a minute after it was verified; long enough ago to try at once.
    let began = stage.json("state/agent0-restart-attempts");
    stage.edit("state/agent0-restart-attempts", |attempts| {
        let mut before = attempts["at"][0].clone();
        assert_eq!(attempts["at"].as_array().map(Vec::len), Some(1), "{began}");
        let boot_ms = before["boot_ms"].as_u64().expect("a stamp");
        before["boot_ms"] = boot_ms.saturating_sub(90_000).into();
        attempts["at"] = vec![before; 4].into();
    });
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_verified(3);
    assert!(stage.names("state").contains(&"agent0-crashloop-suspected".to_owned()), "also after verified");
    let pages = "SELECT count(*) AS n FROM facts WHERE kind = 'page' AND key LIKE 'crashloop.agent0.%'";
    assert!(stage.ok(&["query", pages, "--json"]).contains("\"n\":1"), "one page for each crashloop");
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_dead();
    let told = stage.ok(&["watchdog", "tick"]);
    let wait = told.split_once("agent0: it keeps dying; next start in ").expect(&told).1;
    let seconds: u64 = wait.split_once(' ').expect(&told).0.parse().expect(&told);
    assert!(seconds > 10 * 60, "longer than any wait below a crashloop: {told}");
    assert!(stage.status()["restart"].is_null() && stage.living_roots().is_empty());
}

#[test]
fn i7_an_agent0_that_lives_and_never_says_that_it_is_up_is_ended_and_tried_again() {
    let script = "[ $NETSKY_GENERATION = 2 ] || netsky session up; exec sleep 100000";
    let stage = Stage::up(0, script, "300ms");
    stage.hold_triggers();
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until("the wait for a proof", |stage| {
        let _ = stage.run(&["watchdog", "tick"]);
        (stage.status()["restart"]["phase"] == "spawned").then_some(())
    });
    // As if five children had waited for the proof in vain; what this one waits for would take minutes.
    stage.edit("state/restart-inflight", |inflight| inflight["epoch"] = 5.into());
    stage.until("a restart that failed", |stage| {
        let _ = stage.run(&["watchdog", "tick"]);
        stage.names("state").contains(&"agent0-revive-failed".to_owned()).then_some(())
    });
    let silent = stage.program("agent0");
    // As if it had failed just now, for as long as this machine may take to look.
    let now = netsky_disk::clock::stamp().boot_ms;
    stage.edit("state/agent0-restart-attempts", |attempts| {
        attempts["at"][0]["boot_ms"] = (now + 3_600_000).into();
    });
    let told = stage.ok(&["watchdog", "tick"]);
    assert!(told.contains("agent0: next start in ") && is_alive(&silent), "it may say so yet: {told}");
    stage.edit("state/agent0-restart-attempts", |attempts| attempts["at"][0]["boot_ms"] = 0.into());
    stage.until("a verified restart", |stage| {
        let _ = stage.run(&["watchdog", "tick"]);
        let root = stage.agent("agent0");
        (stage.status()["restart"].is_null() && root["up"] == true && root["generation"] == 3).then_some(())
    });
    assert!(!is_alive(&silent));
    assert_eq!(stage.living_roots(), ["3"]);
    let inbox = stage.ok(&["channel", "drain", "agent0"]);
    assert!(inbox.contains("it never said that it is up"), "{inbox}");
}

#[test]
fn a_planned_restart_carries_the_users_handoff_and_brings_clones_back() {
    let stage = Stage::up(1, QUIET, "500ms");
    let clone = stage.program("agent1");
    let file = stage.home().join("../handoff.txt");
    std::fs::write(&file, "the gate is green; harvest 92 next").expect("written");
    stage.ok(&["restart", "--handoff", file.to_str().expect("text")]);
    stage.until_verified(2);
    assert!(!is_alive(&clone), "a planned restart ends every numbered session");
    assert_eq!(stage.agent("agent1")["generation"], 2);
    let inbox = stage.ok(&["channel", "drain", "agent0"]);
    assert!(inbox.contains("the gate is green; harvest 92 next"), "{inbox}");
    assert!(file.exists(), "the user's file stays the user's");
    let archive = stage.names("state/restart-archive");
    assert!(archive.iter().any(|name| name.ends_with(".request")), "archived once verified: {archive:?}");
}

#[test]
fn restart_requests_that_cannot_be_met_are_refused_and_queue_nothing() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    assert_eq!(stage.refused(&["restart"]).0, 3, "nothing is up");
    stage.ok(&["up", "0", "--tick", "10m", "--", "/bin/sh", "-c", QUIET]);
    stage.hold_triggers();
    for (file, code, what) in
        [("/nowhere", 3, "no handoff file"), ("/proc", 2, "regular"), ("/dev/zero", 2, "regular")]
    {
        let (exit, line) = stage.refused(&["restart", "--handoff", file]);
        assert!(exit == code && line.contains(what), "{exit} {line}");
    }
    stage.ok(&["restart"]);
    let (exit, line) = stage.refused(&["restart"]);
    assert!(exit == 5 && line.contains("queued already"), "{line}");
}

#[test]
fn fm_detached_restart_preflight_kills_nothing_when_something_is_missing() {
    let stage = Stage::up(0, QUIET, "300ms");
    let root = stage.program("agent0");
    let path = stage.home().join("state/desired/agent0.json");
    let wish = std::fs::read_to_string(&path).expect("there").replace("/bin/sh", "/bin/no-such-shell");
    std::fs::write(&path, wish).expect("written");
    stage.ok(&["restart"]);
    stage.until("a restart that failed", |stage| {
        stage.names("state").contains(&"agent0-revive-failed".to_owned()).then_some(())
    });
    assert!(is_alive(&root), "nothing is killed before everything needed was looked at");
    assert_eq!(stage.program("agent0"), root);
    let said = stage.ok(&["status"]);
    assert!(
        said.contains("problem: the last restart failed: restart-") && said.contains("/restart-archive"),
        "{said}"
    );
}

/// Where a tick or the child of a restart is killed, and which restart.
const POINTS: [&str; 7] = [
    "watchdog.child.marked",
    "watchdog.child.teardown",
    "watchdog.child.wished",
    "watchdog.child.spawned",
    "watchdog.child.up",
    "watchdog.handoff.sent",
    "watchdog.verified",
];

#[test]
fn fm_detached_restart_kill_at_every_phase_ends_verified_with_one_handoff() {
    for point in POINTS {
        let stage = Stage::up(0, QUIET, "300ms");
        stage.hold_triggers();
        stage.signal(&stage.program("agent0"), Signal::KILL);
        let log = stage.home().join("../faults");
        let mut killed = stage.command(&["watchdog", "tick"]);
        killed.env("NETSKY_FAULT", format!("{point}=kill")).env("NETSKY_FAULT_LOG", &log);
        stage.until_dead();
        killed.output().expect("the tick starts");
        if point == "watchdog.verified" {
            // Reached by the tick that clears up, which comes later and is killed then.
            stage.until(point, |stage| {
                let mut tick = stage.command(&["watchdog", "tick"]);
                tick.env("NETSKY_FAULT", format!("{point}=kill")).env("NETSKY_FAULT_LOG", &log);
                let _ = tick.output();
                log.exists().then_some(())
            });
        }
        let root = stage.until(point, |stage| {
            let generations = stage.living_roots();
            assert!(generations.len() <= 1, "{point}: two agent0: {generations:?}");
            let _ = stage.run(&["watchdog", "tick"]);
            let verified = stage.status()["restart"].is_null() && stage.agent("agent0")["up"] == true;
            verified.then(|| stage.agent("agent0"))
        });
        assert_eq!(std::fs::read_to_string(&log).unwrap_or_default().lines().count(), 1, "{point} was hit");
        assert!(root["generation"].as_u64() >= Some(2));
        let inbox = stage.ok(&["channel", "drain", "agent0"]);
        assert_eq!(inbox.matches("kind=\"handoff\"").count(), 1, "{point}: {inbox}");
    }
}

#[test]
fn a_paused_child_that_wakes_after_its_successor_changes_nothing() {
    let stage = Stage::up(0, QUIET, "300ms");
    let child = stage.stopped_child();
    // What a tick does with a child past its deadline, but for the kill: another one has the restart.
    stage.edit("state/restart-inflight", |inflight| {
        inflight["epoch"] = 2.into();
        inflight["child"] = serde_json::Value::Null;
    });
    stage.signal(&child, Signal::CONT);
    stage.until("the end of the paused child", |_| (!is_alive(&child)).then_some(()));
    assert_eq!(stage.agent("agent0")["generation"], 1, "it started nobody");
    stage.until("a verified restart", |stage| {
        let _ = stage.run(&["watchdog", "tick"]);
        (stage.status()["restart"].is_null() && stage.agent("agent0")["up"] == true).then_some(())
    });
    assert_eq!(stage.agent("agent0")["generation"], 2);
}

#[test]
fn mail_of_a_dead_generation_comes_back_flagged() {
    let stage = Stage::up(
        0,
        "netsky session up; netsky channel wait agent0; netsky channel drain agent0; \
        touch \"$NETSKY_HOME/../took-$NETSKY_GENERATION\"; exec sleep 100000",
        "500ms",
    );
    stage.ok(&["channel", "send", "agent0", "do it", "--from", "owner"]);
    let took = stage.home().join("../took-1");
    stage.until("the first surfacing", |_| took.exists().then_some(()));
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until("the second surfacing", |stage| stage.home().join("../took-2").exists().then_some(()));
    let shown = stage.ok(&["channel", "list", "agent0", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    let mail =
        list["envelopes"].as_array().expect("a list").iter().find(|e| e["from"] == "owner").expect("kept");
    assert_eq!((mail["attempt"].as_u64(), mail["state"].as_str()), (Some(2), Some("delivered")));
}

#[test]
fn t2_no_down_and_no_planned_restart_makes_a_dead_letter() {
    const TAKER: &str = "netsky session up; netsky channel drain agent0; \
        touch \"$NETSKY_HOME/../took-$NETSKY_GENERATION\"; exec sleep 100000";
    let stage = Stage::up(0, TAKER, "300ms");
    let took = |generation: u64| {
        let file = stage.home().join(format!("../took-{generation}"));
        stage.until("a drain", |_| file.exists().then_some(()));
    };
    took(1);
    stage.ok(&["channel", "send", "agent0", "do it", "--id", "it", "--from", "owner"]);
    for generation in [2, 4, 6] {
        stage.ok(&["down"]);
        stage.ok(&["up", "0"]);
        took(generation);
        stage.ok(&["restart"]);
        stage.until_verified(generation + 1);
        took(generation + 1);
    }
    // Only this envelope is looked at: how often a handoff was drained depends on who was first, its child or the drain.
    let mail = |stage: &Stage| {
        let list = stage.ok(&["channel", "list", "agent0", "--json"]);
        let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
        list["envelopes"].as_array().expect("a list").iter().find(|e| e["id"] == "it").expect("kept").clone()
    };
    assert_eq!(
        (mail(&stage)["attempt"].as_u64(), mail(&stage)["state"].as_str()),
        (Some(6), Some("delivered"))
    );
    assert_eq!(stage.agent("agent0")["poison"], 0);
    // The next death is one too many.
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_verified(8);
    stage.until("a dead letter", |stage| (mail(stage)["state"] == "poisoned").then_some(()));
}

#[test]
fn t2_what_a_session_that_was_ended_on_purpose_had_claimed_is_no_dead_letter() {
    let stage = Stage::up(
        0,
        "netsky session up; until netsky channel wait agent0; do :; done; \
        NETSKY_FAULT=bus.claim.synced=stop netsky channel drain agent0; exec sleep 100000",
        "10m",
    );
    // Made elsewhere and moved in, so that it is at its last attempt when it is first seen.
    stage.ok(&["channel", "send", "agent8", "do it", "--id", "it", "--from", "owner", "--create"]);
    let folder = |agent: &str, folder: &str| stage.home().join(format!("channels/agent/{agent}/{folder}"));
    let only = |folder: &std::path::Path| {
        let file = std::fs::read_dir(folder).expect("there").next()?;
        Some(file.expect("reads").file_name().into_string().expect("text"))
    };
    let made = only(&folder("agent8", "inbox")).expect("it is there");
    let last = made.replace("-it.json", &format!("-it.{}.json", netsky_model::life::MAX_ATTEMPTS));
    std::fs::rename(folder("agent8", "inbox").join(made), folder("agent0", "inbox").join(last))
        .expect("moved");
    stage.until("a claim", |_| only(&folder("agent0", "claimed")));
    stage.ok(&["down"]);
    let waits = only(&folder("agent0", "inbox"));
    assert!(waits.as_ref().is_some_and(|file| file.ends_with("-it.6.json")), "{waits:?}");
    assert_eq!(stage.agent("agent0")["poison"], 0);
}

#[test]
fn owner_verbs_are_refused_inside_a_session_and_session_verbs_outside() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let inside = |args: &[&str]| {
        let output =
            stage.command(args).env("NETSKY_AGENT", "agent1").env("OSTK_MARK", "x").output().expect("runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for args in [&["up", "0", "--", "true"][..], &["down"], &["restart"]] {
        let (exit, line) = inside(args);
        assert_eq!(exit, Some(4), "{args:?}: {line}");
    }
    assert_eq!(stage.refused(&["session", "up"]).0, 4);
    let (exit, line) = stage.refused(&["up"]);
    assert!(exit == 2 && line.contains("no program"), "{line}");
    assert_eq!(stage.refused(&["up", "--runtime", "clade", "--", "true"]).0, 2);
    assert_eq!(stage.refused(&["up", "--tick", "0s", "--", "true"]).0, 2);
    std::fs::write(stage.home().join("config.toml"), "[defaults]\nargs = []\n").expect("written");
    let (exit, line) = stage.refused(&["up", "--", "true"]);
    assert!(exit == 2 && line.contains("line 2"), "{line}");
}

#[test]
fn an_anchor_that_dies_under_the_child_fails_no_restart() {
    let stage = Stage::up(0, QUIET, "300ms");
    let child = stage.stopped_child();
    let anchor = stage.anchor();
    stage.signal(&anchor, Signal::KILL);
    stage.signal(&child, Signal::CONT);
    stage.until("a verified restart", |stage| {
        let _ = stage.run(&["watchdog", "tick"]);
        (stage.status()["restart"].is_null() && stage.agent("agent0")["up"] == true).then_some(())
    });
    assert!(!stage.names("state").contains(&"agent0-revive-failed".to_owned()), "nothing failed");
    assert_ne!(stage.anchor(), anchor);
}

#[test]
fn t25_a_tick_prunes_what_its_readers_are_done_with_and_nothing_else() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    let old = |path: &str| {
        let path = stage.home().join(path);
        std::fs::write(&path, "x").expect("written");
        let touched = Command::new("touch").args(["-d", "2001-01-01"]).arg(&path).status();
        assert!(touched.expect("touch runs").success());
    };
    let current = stage.names("state/up");
    for path in
        ["state/tmp/stray", "state/up/00112233445566778899aabbccddeeff", "state/restart-archive/old.log"]
    {
        old(path);
    }
    std::fs::write(stage.home().join("state/tmp/fresh"), "x").expect("written");
    std::fs::write(stage.home().join("logs/watchdog.log"), vec![b'x'; 1024 * 1024 + 1]).expect("written");
    stage.ok(&["watchdog", "tick"]);
    assert!(stage.names("logs").contains(&"watchdog.log.prev".to_owned()));
    assert_eq!(stage.names("state/up"), current, "the proof of who is up stays");
    assert_eq!(stage.names("state/tmp"), ["fresh"], "a writer may be at work");
    assert!(stage.names("state/restart-archive").iter().all(|name| name == "tmp"));
}

#[test]
fn t10_a_proof_of_another_generation_or_with_another_nonce_proves_nothing() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    let name = stage.names("state/up").into_iter().find(|name| name.len() == 32).expect("a proof");
    let path = stage.home().join("state/up").join(&name);
    let proof = std::fs::read_to_string(&path).expect("there");
    assert_eq!(stage.agent("agent0")["up"], true);
    std::fs::write(&path, proof.replace("\"generation\": 1", "\"generation\": 2")).expect("written");
    assert_eq!(stage.agent("agent0")["up"], false);
    std::fs::write(&path, &proof).expect("written");
    std::fs::rename(&path, stage.home().join("state/up/00112233445566778899aabbccddeeff")).expect("moved");
    assert_eq!(stage.agent("agent0")["up"], false);
}

#[test]
fn one_damaged_wish_stops_nobody_else() {
    let stage = Stage::up(1, QUIET, "300ms");
    stage.hold_triggers();
    let wish = stage.home().join("state/desired/agent1.json");
    std::fs::write(&wish, "{").expect("written");
    std::fs::write(stage.home().join("state/agent0-restart-attempts"), "garbage").expect("written");
    stage.signal(&stage.program("agent0"), Signal::KILL);
    let (exit, line) = stage.until("a tick that tells", |stage| {
        let output = stage.run(&["watchdog", "tick"]);
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        (!line.is_empty()).then_some((output.status.code(), line))
    });
    assert!(exit == Some(1) && line.contains("agent1"), "{line}");
    assert!(stage.names("state").iter().any(|name| name.starts_with("agent0-restart-attempts.damaged-")));
    assert!(stage.ok(&["status"]).contains("problem: understand"), "told");
    let clone = stage.agent("agent1");
    assert!(clone["want"].is_null() && clone["pid"].is_number(), "what lives is seen all the same: {clone}");
    stage.until("agent0 back", |stage| {
        let _ = stage.run(&["watchdog", "tick"]);
        (stage.agent("agent0")["up"] == true && stage.agent("agent0")["generation"] == 2).then_some(())
    });
    assert_eq!(std::fs::read_to_string(&wish).expect("there"), "{", "what does not read is not overwritten");
}

#[test]
fn up_again_takes_the_correction_and_without_words_comes_back_as_it_was() {
    let stage = Stage::new();
    let (exit, line) = stage.refused(&["up", "0", "--tick", "500ms", "--", "/bin/sh", "-c", "exit 3"]);
    assert!(exit == 5 && line.contains("exited with code 3"), "{exit}: {line}");
    let told = stage.ok(&["up", "0", "--tick", "500ms", "--", "/bin/sh", "-c", QUIET]);
    assert!(told.contains(" starting at "), "{told}");
    stage.ok(&["down"]);
    let told = stage.ok(&["up"]);
    assert!(told.contains(" starting at "), "{told}");
    let (exit, line) = stage.refused(&["up", "0", "--", "/bin/sh", "-c", "true"]);
    assert!(exit == 4 && line.contains("agent0 lives with another program"), "{exit}: {line}");
}

#[test]
fn a_child_that_nobody_noted_is_found_by_its_lock() {
    let stage = Stage::up(0, QUIET, "300ms");
    let child = stage.stopped_child();
    // As if the tick had died between the start of the child and the note of it, an hour ago on this boot.
    stage.edit("state/restart-inflight", |inflight| {
        inflight["child"] = serde_json::Value::Null;
        // Somebody has looked all the while.
        inflight["looked"] =
            serde_json::json!({ "last": inflight["began"], "gap_ms": 0, "unseen_ms": 0, "resumed": null });
        inflight["child_since"]["boot_ms"] = 0.into();
        inflight["began"]["boot_ms"] = 0.into();
    });
    let status =
        stage.names("state/restart-status").into_iter().find(|name| name.ends_with(".json")).expect("one");
    stage.edit(&format!("state/restart-status/{status}"), |told| told["updated_at"]["boot_ms"] = 0.into());
    stage.until("the stuck child's end", |stage| {
        let _ = stage.run(&["watchdog", "tick"]);
        (!is_alive(&child)).then_some(())
    });
}

#[test]
fn t24_a_stuck_holder_of_the_watchdogs_lock_is_ended() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    let lock = stage.home().join("state/tick/watchdog.lock");
    // Flock is part of every Linux.
    let holder = Bystander::start(Command::new("flock").arg("-o").arg(&lock).args(["sleep", "1000"]));
    let id = &holder.id;
    stage.until("a held lock", |_| netsky_disk::lock::Lock::is_held(&lock).expect("looked").then_some(()));
    let note = serde_json::json!({ "process": id, "since": { "wall": "2026-01-01T00:00:00Z", "boot_ms": 0, "boot_id": id.boot_id } });
    std::fs::write(&lock, note.to_string()).expect("written");
    stage.ok(&["watchdog", "tick"]);
    assert!(!is_alive(id));
}

#[test]
fn an_agents_files_have_the_umask_of_whoever_said_up() {
    let stage = Stage::new();
    let script = "umask > \"$NETSKY_HOME/../umask\"; netsky session up && exec sleep 100000";
    let up = stage.command(&["up", "0", "--", "/bin/sh", "-c", script]);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "umask 027; exec \"$0\" \"$@\""]).arg(up.get_program()).args(up.get_args()).env_clear();
    shell
        .envs(up.get_envs().filter_map(|(key, value)| Some((key, value?))))
        .current_dir(up.get_current_dir().expect("set"));
    assert!(shell.output().expect("runs").status.success());
    let umask = std::fs::read_to_string(stage.home().join("../umask")).expect("written");
    assert_eq!(umask.trim(), "0027");
}

/// Killed in this order when dropped.
struct Left([ProcessId; 3]);

impl Drop for Left {
    fn drop(&mut self) {
        for left in &self.0 {
            let _ = netsky_disk::process::signal(left, Signal::KILL);
        }
    }
}

#[test]
fn a_home_that_was_removed_and_made_again_gets_no_second_agent0() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    let old = stage.program("agent0");
    // What is left of the removed home is nobody's; this test ends what it started.
    let _left = Left([stage.worker("agentinfinity"), stage.worker("netsky-ticker"), stage.anchor()]);
    stage.remove_home();
    stage.ok(&["up", "0", "--tick", "10m", "--", "/bin/sh", "-c", QUIET]);
    assert!(!is_alive(&old), "the old agent0 is ended before the new one starts");
    assert_eq!(stage.living_roots().len(), 1);
}

#[test]
fn a_tick_where_nothing_is_wanted_starts_no_anchor() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.ok(&["down"]);
    assert_eq!(stage.ok(&["watchdog", "tick"]), "all is as it should be\n");
    assert!(stage.status()["anchor_epoch"].is_null());
    assert!(stage.ok(&["status"]).contains("nothing is wanted"));
}

#[test]
fn up_does_not_take_the_proof_of_the_dead() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_dead();
    let told = stage.ok(&["up", "0", "--tick", "10m", "--", "/bin/sh", "-c", QUIET]);
    assert!(told.contains("agent0 session 2 starting at "), "{told}");
}

#[test]
fn logs_show_what_an_agent_printed_also_when_it_is_gone() {
    let stage = Stage::up(0, "netsky session up; echo marker-$NETSKY_GENERATION; exec sleep 100000", "10m");
    stage.until("its words", |stage| stage.ok(&["logs", "0"]).contains("marker-1").then_some(()));
    // The input of these runs has ended before it began.
    assert!(stage.ok(&["attach", "0"]).contains("marker-1"));
    stage.ok(&["down"]);
    assert!(stage.ok(&["logs", "agent0"]).contains("marker-1"));
    let (exit, line) = stage.refused(&["logs", "agent0", "--stderr"]);
    assert!(exit == 3 && line.contains("its terminal carries both"), "{line}");
    let (exit, line) = stage.refused(&["logs", "agent9"]);
    assert!(exit == 3 && line.contains("netsky status"), "{line}");
}
