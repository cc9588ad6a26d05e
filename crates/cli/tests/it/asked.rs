//! `up`, `restart` and `status` say what was not done as it was asked, and do nothing by halves.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netsky_disk::clock;
use netsky_disk::lock::Lock;
use netsky_disk::process::{PidFd, Signal, is_alive};
use serde_json::Value;

use crate::stage::{QUIET, Stage};

#[test]
fn up_with_a_program_that_ends_at_once_says_so_at_once() {
    let stage = Stage::new();
    let began = Instant::now();
    let output = stage.run(&["up", "1", "--tick", "10m", "--", "/bin/sh", "-c", "exit 127"]);
    let took = began.elapsed();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(5), "{out}{err}");
    assert!(out.contains("agent0 generation 1 started\n"), "{out}");
    let why = "agent0 ended before it proved that it is up: exited with code 127; it is tried again";
    assert!(err.contains(why), "{err}");
    // Far from the 60 s of a proof that does not come, on however busy a machine.
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[test]
fn up_with_what_can_never_be_started_changes_nothing() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let long = "x".repeat(100_000);
    for (argv, why) in [
        (&["/nowhere/at/all"][..], "is not there or not executable"),
        (&[""], "is not there or not executable"),
        (&["/bin/sh", &long, &long], "at most 196608"),
    ] {
        let (exit, line) = stage.refused(&[&["up", "1", "--"], argv].concat());
        assert!(exit == 2 && line.contains(why) && line.contains("nothing was changed"), "{exit} {line}");
    }
    assert!(stage.status()["anchor_epoch"].is_null(), "nobody was started");
    assert!(stage.names("state/desired").is_empty());
}

#[test]
fn up_says_who_runs_on_with_settings_that_the_configuration_has_no_more() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let config = |text: &str| std::fs::write(stage.home().join("config.toml"), text).expect("written");
    let (env, up) =
        (|style: &str| format!("[agents.agent1]\nenv = {{ STYLE = \"{style}\" }}\n"), ["up", "1"]);
    config(&env("short"));
    let told = stage.ok(&[&up[..], &["--tick", "10m", "--", "/bin/sh", "-c", QUIET]].concat());
    assert!(!told.contains("run on"), "{told}");
    for changed in [env("long"), env("short") + "receipts = \"none\"\n"] {
        config(&changed);
        let told = stage.ok(&up);
        assert!(told.contains("run on as they were started: agent1 (what config.toml says now"), "{told}");
    }
    stage.ok(&["down"]);
    let told = stage.ok(&up);
    assert!(!told.contains("run on"), "it was started with what is there now: {told}");
}

#[test]
fn up_with_a_configuration_that_can_never_be_started_changes_nothing() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let config = |text: &str| std::fs::write(stage.home().join("config.toml"), text).expect("written");
    for (text, words, why) in [
        (
            "argv = [\"/nowhere/at/all\"]",
            &[][..],
            "program \"/nowhere/at/all\" is not there or not executable",
        ),
        ("argv = [\"\"]", &[], "program \"\" is not there or not executable"),
        ("argv = [\"a\\u0000b\"]", &[], "program \"a\\0b\" is not there or not executable"),
        (
            "argv = [\"/bin/sh\", \"a\\u0000b\"]",
            &[],
            "program \"/bin/sh\" cannot be told \"a\\0b\", which has a NUL",
        ),
        ("argv = [\"/bin/sh\"]\ncwd = \"/nowhere\"", &[], "working folder \"/nowhere\" is not there"),
        ("cwd = \"/nowhere\"", &["--", "/bin/sh"], "working folder \"/nowhere\" is not there"),
    ] {
        config(&format!("[defaults]\n{text}\n"));
        let (exit, line) = stage.refused(&[&["up", "1"], words].concat());
        let told = format!("agent0 cannot be started: config.toml: {why}; nothing was changed");
        assert!(exit == 2 && line.contains(&told), "{exit} {line}");
    }
    assert!(stage.status()["anchor_epoch"].is_null(), "nobody was started");
    assert!(stage.names("state/desired").is_empty());
}

#[test]
fn up_without_words_runs_the_program_of_before_as_the_settings_say_now() {
    let stage = Stage::up(0, QUIET, "10m");
    let config = |text: &str| {
        std::fs::write(stage.home().join("config.toml"), format!("[defaults]\n{text}\n")).expect("written");
    };
    config("cwd = \"/nowhere\"");
    let (exit, line) = stage.refused(&["up"]);
    assert!(exit == 2 && line.contains("config.toml: working folder \"/nowhere\" is not there"), "{line}");
    config("cwd = \"/\"\nenv = { SAID = \"now\" }");
    let (exit, line) = stage.refused(&["up"]);
    assert!(exit == 4 && line.contains("agent0 lives with another program or folder"), "{exit} {line}");
    stage.ok(&["down"]);
    stage.ok(&["up"]);
    let wish = stage.json("state/desired/agent0.json");
    assert!(wish["cwd"] == "/" && wish["env"]["SAID"] == "now" && wish["argv"][2] == QUIET, "{wish}");
}

#[test]
fn up_without_words_names_a_program_or_folder_that_is_gone() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let program = stage.home().join("../agent.sh");
    std::fs::write(&program, format!("#!/bin/sh\n{QUIET}\n")).expect("written");
    let may = |mode| std::fs::set_permissions(&program, Permissions::from_mode(mode)).expect("ours");
    may(0o700);
    stage.ok(&["up", "0", "--tick", "10m", "--", program.to_str().expect("text")]);
    may(0o600);
    // It lives and is wanted: nothing has to be started.
    stage.ok(&["up"]);
    stage.hold_triggers();
    stage.signal(&stage.program("agent0"), Signal::KILL);
    let (exit, line) = stage.refused(&["up"]);
    assert!(exit == 5 && line.contains("agent0 cannot be started: program "), "{exit} {line}");
    stage.ok(&["down"]);
    let (exit, line) = stage.refused(&["up"]);
    assert!(
        exit == 2 && line.contains("is not there or not executable; nothing was changed"),
        "{exit} {line}"
    );
    assert!(stage.status()["anchor_epoch"].is_null(), "nobody was started");
}

#[test]
fn up_again_is_not_refused_for_a_folder_that_is_gone_under_who_lives() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let folder = stage.home().join("../work");
    std::fs::create_dir(&folder).expect("made");
    let config = format!("[defaults]\nargv = [\"/bin/sh\", \"-c\", {QUIET:?}]\ncwd = {folder:?}\n");
    std::fs::write(stage.home().join("config.toml"), config).expect("written");
    stage.ok(&["up", "0", "--tick", "10m"]);
    std::fs::remove_dir(&folder).expect("empty");
    stage.ok(&["up"]);
    stage.ok(&["down"]);
    let (exit, line) = stage.refused(&["up"]);
    assert!(exit == 2 && line.contains("agent0 cannot be started: config.toml: working folder "), "{line}");
}

#[test]
fn up_again_with_a_program_that_is_gone_says_so_at_once() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    stage.edit("state/desired/agent0.json", |wish| wish["argv"] = serde_json::json!(["/nowhere/at/all"]));
    let (exit, line) = stage.refused(&["up", "--", "/nowhere/at/all"]);
    assert!(exit == 2 && line.contains("agent0 cannot be started: program \"/nowhere/at/all\""), "{line}");
}

#[test]
fn a_tick_that_started_the_anchor_says_so() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    stage.signal(&stage.anchor(), Signal::KILL);
    let told = stage.ok(&["watchdog", "tick"]);
    assert!(told.contains("started the anchor (epoch 2)"), "{told}");
}

#[test]
fn up_with_an_agent_that_cannot_be_started_exits_1_and_the_others_run() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let bad = "[agents.agent1]\nargv = [\"/nowhere/at/all\"]\n";
    let good = format!("[defaults]\nargv = [\"/bin/sh\", \"-c\", {QUIET:?}]\n");
    std::fs::write(stage.home().join("config.toml"), good + bad).expect("written");
    for json in [false, true] {
        let mut args = vec!["up", "2"];
        if json {
            args.insert(0, "--json");
        }
        let output = stage.run(&args);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{out}{err}");
        assert!(err.lines().count() == 1 && err.contains("agent1"), "{err}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&out).is_ok(), json, "{out}");
    }
    stage.program("agent0");
    stage.program("agent2");
}

#[test]
fn up_with_another_program_than_the_one_that_runs_is_refused_and_changes_nothing() {
    let stage = Stage::up(1, QUIET, "10m");
    let before = stage.program("agent1");
    let (exit, line) = stage.refused(&["up", "2", "--", "/bin/sh", "-c", "exec sleep 5"]);
    assert!(exit == 4 && line.contains("agent0 and agent1 live with another program"), "{exit} {line}");
    assert_eq!(stage.program("agent1"), before);
    assert!(stage.agent("agent2").is_null(), "nothing was changed");
}

#[test]
fn up_corrects_what_a_restart_has_just_started_and_proved_nothing() {
    let silent = "[ $NETSKY_GENERATION = 2 ] || netsky session up; exec sleep 100000";
    let stage = Stage::up(0, silent, "300ms");
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until("a new agent0", |stage| (stage.status()["restart"]["phase"] == "spawned").then_some(()));
    let unproved = stage.program("agent0");
    let told = stage.ok(&["up", "0", "--", "/bin/sh", "-c", QUIET]);
    assert!(told.contains("agent0 session 3 starting at "), "{told}");
    assert!(!is_alive(&unproved), "one agent0, with the program that was asked for");
}

#[test]
fn up_while_a_restart_starts_agent0_corrects_what_it_starts() {
    let silent = "[ $NETSKY_GENERATION = 2 ] || netsky session up; exec sleep 100000";
    let stage = Stage::up(0, silent, "300ms");
    // It has read what agent0 is, and starts that.
    let child = stage.stopped_child_at("watchdog.child.wished");
    let mut up = stage.command(&["up", "0", "--", "/bin/sh", "-c", QUIET]);
    let up = up.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let lock = stage.home().join("state/tick/watchdog.lock");
    stage.until("its lock", |_| Lock::is_held(&lock).expect("looked").then_some(()));
    // Long enough to write another program, were nothing in its way.
    clock::pause(Duration::from_secs(1));
    stage.signal(&child, Signal::CONT);
    stage.signal(&stage.program("netsky-ticker"), Signal::CONT);
    let told = up.expect("starts").wait_with_output().expect("ends");
    let (text, err) = (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert!(told.status.success() && text.contains("agent0 session 3 starting at "), "{text}{err}");
}

#[test]
fn up_under_a_restart_leaves_a_clone_alone_that_never_said_that_it_is_up() {
    let silent = "[ $NETSKY_AGENT != agent0 ] || netsky session up; exec sleep 100000";
    let stage = Stage::up(1, silent, "10m");
    let clone = stage.program("agent1");
    stage.stopped_child();
    let (exit, line) = stage.refused(&["up", "1", "--", "/bin/sh", "-c", QUIET]);
    assert!(exit == 4 && line.contains("agent1 lives with another program"), "{exit} {line}");
    assert!(is_alive(&clone), "the restart is none of its business");
}

#[test]
fn up_keeps_more_clones_and_the_interval_of_the_ticker_and_says_so() {
    let stage = Stage::up(2, QUIET, "7s");
    let (clone, ticker) = (stage.program("agent2"), stage.program("netsky-ticker"));
    let told = stage.ok(&["up", "1"]);
    assert!(told.contains("also wanted: agent2 (`up` only adds, `netsky down` first for fewer)"), "{told}");
    assert_eq!((stage.program("agent2"), stage.program("netsky-ticker")), (clone, ticker));
    stage.until("the ticker's word", |stage| (stage.status()["interval_ms"] == 7_000).then_some(()));
    assert!(stage.ok(&["status"]).contains(", every 7"));
}

#[test]
fn up_that_cannot_be_met_makes_no_home() {
    let stage = Stage::new();
    let (exit, line) = stage.refused(&["up", "1"]);
    assert!(exit == 2 && line.contains("no program to run"), "{line}");
    assert!(!stage.home().exists());
    stage.ok(&["init"]);
    std::fs::remove_file(stage.home().join("home.json")).expect("removed");
    assert_eq!(stage.refused(&["up", "1"]).0, 2);
    assert!(!stage.home().join("home.json").exists());
}

#[test]
fn a_restart_that_nobody_would_serve_is_begun_by_who_asks() {
    let stage = Stage::up(0, QUIET, "300ms");
    stage.hold_triggers();
    let anchor = stage.anchor();
    let (ticker, infinity) = (stage.program("netsky-ticker"), stage.program("agentinfinity"));
    stage.signal(&anchor, Signal::KILL);
    for process in [ticker, infinity] {
        stage.signal(&process, Signal::KILL);
    }
    let told = String::from_utf8(stage.ends_nothing(&["restart"]).stdout).expect("text");
    assert!(told.contains("nobody serves here; this call ran a tick"), "{told}");
    // No tick but this call's has a child that stops.
    stage.signal(&stage.stopped(), Signal::CONT);
    stage.until_verified(2);
}

#[test]
fn a_restart_that_was_asked_for_is_seen_from_then_on() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    stage.ok(&["restart"]);
    assert!(stage.ok(&["status"]).contains("restart: queued"));
    // A tick that died between its claim and the restart.
    let state = stage.home().join("state");
    std::fs::rename(state.join("restart-request"), state.join("restart-request.processing"))
        .expect("claimed");
    assert!(stage.ok(&["status"]).contains("restart: queued"));
}

#[test]
fn status_calls_nobody_active_whose_program_is_gone() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    let (anchor, worker, root) = (stage.anchor(), stage.worker("agent0"), stage.program("agent0"));
    stage.signal(&worker, Signal::STOP);
    stage.signal(&root, Signal::KILL);
    stage.until("the end of agent0", |stage| (stage.agent("agent0")["state"] == "gone").then_some(()));
    assert!(stage.agent("agent0")["pid"].is_null());
    stage.signal(&worker, Signal::CONT);
    assert_eq!(stage.anchor(), anchor);
}

#[test]
fn status_of_the_constellation_and_of_its_kernel_say_the_same_while_no_anchor_runs() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.hold_triggers();
    let worker = stage.worker("agent1");
    for process in [stage.anchor(), stage.program("netsky-ticker"), stage.program("agentinfinity"), worker] {
        stage.signal(&process, Signal::KILL);
    }
    let of_the_kernel = |stage: &Stage| {
        let mut ostk = Command::new(env!("CARGO_BIN_EXE_ostk"));
        ostk.env_clear().arg("--root").arg(stage.home().join(".ostk")).args(["status", "--json"]);
        let said: Value = serde_json::from_slice(&ostk.output().expect("it starts").stdout).expect("JSON");
        said
    };
    stage.until("nobody serves", |stage| (of_the_kernel(stage)["serving"] == false).then_some(()));
    let kernel = of_the_kernel(&stage);
    for (name, state) in [("agent0", "active"), ("agent1", "orphaned")] {
        let sessions = kernel["sessions"].as_array().expect("a list");
        let session = sessions.iter().find(|session| session["name"] == name).expect("listed");
        assert_eq!(
            (&session["state"], &stage.agent(name)["state"]),
            (&state.into(), &state.into()),
            "{name}"
        );
    }
}

#[test]
fn the_demo_refuses_to_kill_everybody_who_could_notice() {
    let stage = Stage::new();
    let all = ["anchor", "ticker", "agentinfinity"];
    let args: Vec<&str> =
        ["demo"].into_iter().chain(all.into_iter().flat_map(|who| ["--kill", who])).collect();
    let (exit, line) = stage.refused(&args);
    assert!(exit == 2 && line.contains("nobody is left who notices"), "{exit} {line}");
}

#[test]
fn a_constellation_whose_home_was_removed_ends_itself() {
    let stage = Stage::new();
    let mut up = stage.command(&["up", "1", "--tick", "10m", "--", "/bin/sh", "-c", QUIET]);
    let output = up.env("OSTK_HEARTBEAT_MS", "100").output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut all = vec![stage.anchor()];
    for id in ["agent0", "agent1", "agentinfinity", "netsky-ticker"] {
        all.extend([stage.program(id), stage.worker(id)]);
    }
    let all: Vec<PidFd> = all.iter().filter_map(|id| PidFd::open(id).expect("looked at")).collect();
    assert_eq!(all.len(), 9);
    stage.remove_home();
    assert!(
        all.iter().all(|held| held.wait(Duration::from_secs(60)).expect("waited")),
        "somebody is still there"
    );
    assert!(!stage.home().exists(), "a ghost of the removed home: {:?}", std::fs::read_dir(stage.home()));
}

#[test]
fn status_says_that_the_last_tick_failed_and_why_until_one_does_not() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    let let_in = |mode| {
        let folder = stage.home().join("state/tick");
        std::fs::set_permissions(folder, Permissions::from_mode(mode)).expect("ours");
    };
    let_in(0o755);
    assert_eq!(stage.refused(&["watchdog", "tick"]).0, 4);
    let told = stage.ok(&["status"]);
    assert!(told.contains("last tick FAILED ") && told.contains("lets others in"), "{told}");
    let_in(0o700);
    stage.ok(&["watchdog", "tick"]);
    assert!(stage.status()["failed_tick"].is_null());
}
