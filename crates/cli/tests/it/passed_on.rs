//! What agentinfinity is asked goes on to agent0, once.

use serde_json::Value;

use crate::stage::{QUIET, Stage};

fn listed(stage: &Stage, agent: &str) -> Vec<Value> {
    let listed = stage.ok(&["channel", "list", agent, "--json"]);
    let listed: Value = serde_json::from_str(&listed).expect("one JSON object");
    listed["envelopes"].as_array().expect("a list").clone()
}

/// Texts of what waits for agent0, in its order.
fn asked(stage: &Stage) -> Vec<String> {
    let all = listed(stage, "agent0");
    let text = |one: &Value| one["envelope"]["text"].as_str().or(one["text"].as_str()).map(str::to_owned);
    all.iter().filter(|one| one["state"] == "written").filter_map(text).collect()
}

fn states(stage: &Stage) -> Vec<String> {
    listed(stage, "agentinfinity").iter().map(|one| one["state"].as_str().expect("text").to_owned()).collect()
}

fn send(stage: &Stage, more: &[&str]) {
    stage.ok(&[&["channel", "send", "agentinfinity", "--from", "owner"], more].concat());
}

#[test]
fn what_agentinfinity_is_asked_goes_on_to_agent0_and_the_rest_is_done_with() {
    let stage = Stage::up(0, QUIET, "10m");
    for more in [&["one"][..], &["two", "--kind", "prompt"], &["it is done", "--kind", "report"]] {
        send(&stage, more);
    }
    stage.until("all of it", |stage| {
        let mut states = states(stage);
        states.sort();
        (states == ["acked", "forwarded", "forwarded"]).then_some(())
    });
    assert_eq!(asked(&stage), ["one", "two"]);
    assert!(stage.run(&["check"]).status.success());
}

#[test]
fn where_agentinfinity_does_not_run_the_tick_passes_on_and_a_death_in_between_repeats_nothing() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    let mut texts = Vec::new();
    for point in ["bus.forward.copied", "bus.forward.renamed"] {
        texts.extend([format!("first {point}"), format!("second {point}")]);
        for text in &texts[texts.len() - 2..] {
            send(&stage, &[text]);
        }
        let killed =
            stage.command(&["watchdog", "tick"]).env("NETSKY_FAULT", format!("{point}=kill")).output();
        assert!(!killed.expect("it starts").status.success(), "{point}: it was met");
        for _ in 0..2 {
            stage.ok(&["watchdog", "tick"]);
            assert_eq!(asked(&stage), texts, "{point}");
        }
    }
    assert_eq!(states(&stage), ["forwarded"; 4]);
    assert!(stage.run(&["check"]).status.success());
}
