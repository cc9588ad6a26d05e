//! Programs that ignore everything, talk nonsense, or flood: their slot stays bounded and says so, and others are served.

use super::{Driven, FAKE_CODEX, executable};

const QUICK: &str = "[drivers]\nsilence = \"2s\"\nprobe = \"500ms\"\nanswer = \"1s\"\n";

/// Most memory that netsky-drivers may have taken, of 200 MB that went through it: a line's share for each agent, and its own.
const MOST_KIB: u64 = 64 << 10;

/// The most memory that a process has taken, in KiB.
fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("counted");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}

#[test]
fn who_tells_of_turns_and_never_greets_is_unheard_and_has_no_turns() {
    let folder = tempfile::tempdir().expect("made");
    let program = folder.path().join("half");
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"","uuid":"r","modelUsage":{"m":{"inputTokens":1,"contextWindow":200}}}"#;
    let state = r#"{"type":"system","subtype":"session_state_changed","state":"running"}"#;
    let init = r#"{"type":"system","subtype":"init","session_id":"stolen","model":"m"}"#;
    let compacted = r#"{"type":"system","subtype":"compact_boundary"}"#;
    let said = r#"{"type":"assistant","message":{"model":"m","content":[],"usage":{"input_tokens":170}}}"#;
    let lines = [init, state, compacted, said, result].map(|line| format!("echo '{line}'; ")).concat();
    let script = format!("#!/bin/sh\nwhile :; do {lines}sleep 0.1; done\n");
    executable(&program, &script);
    let driven = Driven::many(1, &format!("{QUICK}[agents.agent1]\nargv = [{program:?}]\n"));
    let doing = driven.stage.until("it is told by its name", |stage| {
        let doing = stage.agent("agent1")["driven"]["doing"].clone();
        (doing["is"] == "wedged").then_some(doing)
    });
    assert_eq!(doing["how"], "unheard");
    let shown: serde_json::Value =
        serde_json::from_str(&driven.stage.ok(&["agent", "show", "1", "--json"])).expect("JSON");
    assert_eq!(shown["turns"], 0, "{shown}");
    assert!(shown["conversation"]["id"] != "stolen" && shown["context_pct"].is_null(), "{shown}");
    assert_eq!(shown["lifecycle"], "healthy", "{shown}");
}

#[test]
fn must_show_6_who_ignores_everything_talks_nonsense_or_floods_is_bounded_said_so_and_harms_nobody() {
    let programs = [
        ("agent1", ":"),
        ("agent2", "head -c 100000000 /dev/urandom"),
        ("agent3", "head -c 100000000 /dev/zero | tr '\\0' x"),
        // As many values as a line has bytes, and more requests than anybody answers.
        (
            "agent4",
            "n=0; while [ $((n += 1)) -le 8 ]; do echo \"[$(yes 0, | head -n 3900000 | tr -d '\\n')0]\"; done",
        ),
        ("agent5", "yes '{\"id\":1,\"method\":\"x\"}' | head -c 100000000"),
    ];
    let folder = tempfile::tempdir().expect("made");
    let settings = programs.map(|(agent, script)| {
        let program = folder.path().join(agent);
        let said = folder.path().join(format!("{agent}.said"));
        let script = format!("#!/bin/sh\n{script}\n: >{said:?}\nexec cat >/dev/null\n");
        executable(&program, &script);
        let runtime = if agent == "agent5" { "codex" } else { "claude" };
        format!("[agents.{agent}]\nruntime = \"{runtime}\"\nargv = [{program:?}]\n")
    });
    let driven = Driven::many(5, &format!("{QUICK}{}", settings.concat()));
    for (agent, _) in programs {
        let doing = driven.stage.until(&format!("{agent} is told by its name"), |stage| {
            let doing = stage.agent(agent)["driven"]["doing"].clone();
            (doing["is"] == "wedged").then_some(doing)
        });
        // It has said nothing that means anything, and reads nothing: whichever is seen first.
        let is_named = doing["how"] == "unheard" || agent == "agent5" && doing["how"] == "deaf";
        assert!(is_named, "{agent}: {doing}");
        let said = folder.path().join(format!("{agent}.said"));
        driven.stage.until(&format!("all that {agent} says"), |_| said.exists().then_some(()));
    }
    let id = driven.send("and you");
    assert_eq!(driven.until_state(&id, "acked"), 1);
    for (agent, _) in programs {
        let out = std::fs::metadata(driven.stage.home().join(format!(".ostk/agents/{agent}.out")));
        assert!(out.expect("there").len() <= 64 << 20, "{agent}: what it printed is kept within bounds");
    }
    // Whatever waits for a program that flooded, its successor is met.
    executable(&folder.path().join("agent5"), FAKE_CODEX);
    driven.stage.ok(&["agent", "stop", "5"]);
    driven.stage.ok(&["agent", "5"]);
    let id = driven.sent_to("agent5", &["and you, now"]);
    driven.stage.until("it is read", |_| (driven.envelope_of("agent5", &id).0 == "acked").then_some(()));
    let drivers = driven.stage.program("netsky-drivers");
    let peak = peak_kib(drivers.pid);
    assert!(peak < MOST_KIB, "{peak} KiB");
}
