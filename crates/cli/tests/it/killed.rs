//! `ostk kernel kill` and `shutdown` on the kernel of a constellation: what is ended stays down, and who may end it.

use std::process::Command;

use crate::stage::{QUIET, Stage};

/// `ostk` on the kernel of a home.
fn ostk(stage: &Stage, args: &[&str]) -> std::process::Output {
    let mut ostk = Command::new(env!("CARGO_BIN_EXE_ostk"));
    ostk.args(args).arg("--root").arg(stage.home().join(".ostk"));
    crate::screen::refusal(ostk)
}

#[test]
fn who_is_killed_by_the_kernels_own_verb_stays_down_and_who_cannot_be_spared_is_said_to_come_again() {
    let stage = Stage::up(2, QUIET, "200ms");
    let killed = ostk(&stage, &["kernel", "kill", "agent1"]);
    assert_eq!(String::from_utf8_lossy(&killed.stdout), "agent1 is down: killed on request\n");
    let other = ostk(&stage, &["kernel", "kill", "agent2", "--if-generation", "7"]);
    assert_eq!(other.status.code(), Some(1), "{other:?}");
    for _ in 0..3 {
        stage.run(&["watchdog", "tick"]);
    }
    assert!(stage.agent("agent1")["pid"].is_null() && stage.agent("agent1")["want"] == "stopped");
    assert_eq!(stage.agent("agent2")["want"], "up");
    let killed = ostk(&stage, &["kernel", "kill", "agent0"]);
    let told = String::from_utf8_lossy(&killed.stdout).into_owned();
    assert!(told.ends_with("; netsky starts it again, and `netsky down` ends all\n"), "{told}");
    stage.until_verified(2);
}

#[test]
fn i7_a_kill_that_is_repeated_does_nothing_again_and_a_wish_that_does_not_read_refuses_none() {
    let stage = Stage::up(2, QUIET, "10m");
    let kill = || ostk(&stage, &["kernel", "kill", "agent1", "--request-id", "r1"]);
    assert!(kill().status.success());
    assert!(stage.agent("agent1")["pid"].is_null() && stage.agent("agent1")["want"] == "stopped");
    stage.ok(&["agent", "1"]);
    let again = kill();
    assert_eq!(String::from_utf8_lossy(&again.stdout), "agent1 is down: killed on request\n");
    assert!(!stage.agent("agent1")["pid"].is_null() && stage.agent("agent1")["want"] == "up");
    std::fs::write(stage.home().join("state/desired/agent2.json"), "{").expect("written");
    let killed = ostk(&stage, &["kernel", "kill", "agent2"]);
    let told = String::from_utf8_lossy(&killed.stdout).into_owned();
    assert!(killed.status.success() && told.contains("; whether it is wanted is not known: "), "{killed:?}");
}

#[test]
fn i7_a_kill_that_died_before_it_took_the_wish_back_takes_it_back_when_it_is_repeated() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.hold_triggers();
    let kill = || ostk(&stage, &["kernel", "kill", "agent1", "--request-id", "r1"]);
    // As far as one comes that dies between the two: the session is ended under its id, and its wish stands.
    let wish = stage.home().join("state/desired/agent1.json");
    let before = std::fs::read(&wish).expect("there");
    assert!(kill().status.success());
    std::fs::write(&wish, before).expect("written");
    stage.ok(&["watchdog", "tick"]);
    assert!(!stage.agent("agent1")["pid"].is_null(), "a tick starts who is wanted");
    let again = kill();
    assert_eq!(String::from_utf8_lossy(&again.stdout), "agent1 is down: killed on request\n");
    assert!(stage.agent("agent1")["pid"].is_null() && stage.agent("agent1")["want"] == "stopped");
}

#[test]
fn i7_a_grace_of_one_slot_that_would_hold_up_all_others_is_refused() {
    let stage = Stage::up(1, QUIET, "10m");
    let refused = ostk(&stage, &["kernel", "kill", "agent1", "--grace", "5m"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("at most 30 s"), "{refused:?}");
    assert!(!stage.agent("agent1")["pid"].is_null() && stage.agent("agent1")["want"] == "up");
    assert!(ostk(&stage, &["kernel", "kill", "agent1", "--grace", "30s"]).status.success());
}

#[test]
fn nobody_below_a_session_ends_another_or_its_watchdog_or_the_anchor() {
    let stage = Stage::new();
    let answers = stage.outside("answers");
    let ostk = env!("CARGO_BIN_EXE_ostk");
    let script = format!(
        "netsky session up; root=$NETSKY_HOME/.ostk; unset NETSKY_HOME NETSKY_AGENT NETSKY_GENERATION OSTK_ROOT
         for what in 'kill agent2' 'kill agentinfinity' 'kill netsky-ticker' shutdown 'shutdown --all'; do
           env -i PATH=\"$PATH\" {ostk:?} kernel $what --root $root; echo \"$what $?\" >>{answers:?}
         done; exec sleep 100000"
    );
    stage.ok(&["init"]);
    stage.ok(&["up", "2", "--tick", "10m", "--", "/bin/sh", "-c", &script]);
    let all = stage.until("answers of three", |_| {
        let all = std::fs::read_to_string(&answers).unwrap_or_default();
        (all.lines().count() == 15).then_some(all)
    });
    assert!(all.lines().all(|line| line.ends_with(" 4")), "{all}");
}

#[test]
fn nobody_below_a_session_ends_or_stops_another_by_a_call_of_its_own_either() {
    let stage = Stage::new();
    let (answers, ostk) = (stage.outside("answers"), env!("CARGO_BIN_EXE_ostk"));
    let script = format!(
        r#"netsky session up; test "$NETSKY_AGENT" = agent1 || exec sleep 100000
         call() {{ {ostk:?} --root "$NETSKY_HOME/.ostk" rpc call "$@"; echo "$1 $2 $?"; }}
         all() {{
           for one in agent0 agentinfinity netsky-ticker; do
             call session/kill "{{\"session\":\"$one\",\"request_id\":\"$one\"}}"
             call session/signal "{{\"session\":\"$one\",\"signal\":19}}"
             call session/input "{{\"session\":\"$one\",\"text\":\"\\u0013\"}}"
             call session/prompt "{{\"session\":\"$one\",\"text\":\"exit\"}}"
             call client/attach "{{\"session\":\"$one\",\"mode\":\"terminal\"}}"
             call session/resize "{{\"session\":\"$one\",\"cols\":1,\"rows\":1}}"
             timeout 20 {ostk:?} --root "$NETSKY_HOME/.ostk" attach "$one" </dev/null; echo "attach $one $?"
           done
           call kernel/shutdown '{{"all":true}}'; call kernel/shutdown
         }}
         all >{answers:?} 2>&1
         call session/signal '{{"session":"agent1","signal":18}}' >>{answers:?} 2>&1
         exec sleep 100000"#
    );
    stage.ok(&["init"]);
    stage.ok(&["up", "1", "--tick", "10m", "--", "/bin/sh", "-c", &script]);
    let anchor = stage.anchor();
    let all = stage.until("answers", |_| {
        let all = std::fs::read_to_string(&answers).unwrap_or_default();
        all.contains("\"signal\":18} 0").then_some(all)
    });
    let refused = all.lines().filter(|line| line.ends_with(" 4")).count();
    assert_eq!(refused, 23, "{all}");
    let told = "ostk: the end of agentinfinity is for the owner, outside every session";
    assert!(all.lines().any(|line| line.starts_with(told)), "{all}");
    assert_eq!(stage.anchor(), anchor);
    for lives in ["agent0", "agentinfinity", "netsky-ticker"] {
        assert!(!netsky_disk::process::is_stopped(&stage.program(lives)), "{lives}");
    }
    // Nor is the owner answered what was refused to it under that name.
    let by_owner = r#"{"session":"agentinfinity","request_id":"agentinfinity"}"#;
    let killed = ostk_call(&stage, "session/kill", by_owner);
    assert!(killed.status.success() && stage.agent("agentinfinity")["pid"].is_null(), "{killed:?}");
}

/// A call by the owner.
fn ostk_call(stage: &Stage, method: &str, params: &str) -> std::process::Output {
    ostk(stage, &["rpc", "call", method, params])
}

#[test]
fn the_child_of_a_restart_that_agent0_began_itself_ends_whom_it_brings_back() {
    let stage = Stage::new();
    let go = stage.outside("go");
    let script = format!(
        r#"netsky session up; test "$NETSKY_AGENT$NETSKY_GENERATION" = agent01 || exec sleep 100000
         until test -e {go:?}; do sleep 0.05; done; netsky restart; exec sleep 100000"#
    );
    stage.ok(&["init"]);
    stage.ok(&["up", "1", "--tick", "10m", "--", "/bin/sh", "-c", &script]);
    stage.until_verified(1);
    stage.hold_triggers();
    stage.kill_anchor();
    std::fs::write(&go, "").expect("written");
    let anew = |id: &str| stage.agent(id)["generation"] == 2 && stage.agent(id)["up"] == true;
    stage.until("both anew", |_| (anew("agent0") && anew("agent1")).then_some(()));
}

#[test]
fn whom_a_kill_says_to_be_started_again_is_also_where_nobody_is_left_who_would() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.until_verified(1);
    let pids = || ["agentinfinity", "netsky-ticker", "agent0"].map(|id| stage.agent(id)["pid"].clone());
    let before = pids();
    for killed in ["agentinfinity", "netsky-ticker", "agent0"] {
        let killed = ostk(&stage, &["kernel", "kill", killed]);
        let told = String::from_utf8_lossy(&killed.stdout).into_owned();
        assert!(told.ends_with("; netsky starts it again, and `netsky down` ends all\n"), "{killed:?}");
    }
    stage.until("all three again", |_| {
        let now = pids();
        now.iter().zip(&before).all(|(now, before)| !now.is_null() && now != before).then_some(())
    });
}

#[test]
fn a_shutdown_of_everything_says_what_brings_a_constellation_back() {
    let stage = Stage::up(1, QUIET, "1s");
    stage.until_verified(1);
    let stopped = ostk(&stage, &["kernel", "shutdown", "--all"]);
    let told = String::from_utf8_lossy(&stopped.stdout).into_owned();
    assert!(
        told.ends_with(" sessions ended, 0 live on; `netsky up` brings back who is wanted\n"),
        "{stopped:?}"
    );
    stage.ok(&["up"]);
    stage.until_verified(2);
    stage.until("agent1 again", |stage| (!stage.agent("agent1")["pid"].is_null()).then_some(()));
    stage.ok(&["down"]);
    let stopped = ostk(&stage, &["kernel", "shutdown", "--all"]);
    assert!(!String::from_utf8_lossy(&stopped.stdout).contains("netsky up"), "nobody is wanted: {stopped:?}");
}

#[test]
fn i10_a_key_that_stops_output_stops_no_keeper() {
    let stage = Stage::up(0, QUIET, "200ms");
    stage.until_verified(1);
    for keeper in ["agentinfinity", "netsky-ticker"] {
        let typed = ostk(&stage, &["kernel", "input", keeper, "\u{13}"]);
        assert!(typed.status.success(), "{typed:?}");
    }
    let beat = || stage.json("state/tick/ticker.json")["at"]["boot_ms"].as_u64();
    for _ in 0..3 {
        let before = beat();
        stage.until("a beat behind it", |_| (beat() > before).then_some(()));
    }
    let program = stage.program("agent0");
    stage.signal(&program, netsky_disk::process::Signal::KILL);
    stage.until("agent0 again", |stage| (stage.agent("agent0")["generation"] == 2).then_some(()));
}
