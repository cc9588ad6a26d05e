//! Hangs as a constellation sees them: who has mail and does nothing, what that brings about, and how it ends.

use serde_json::Value;

use crate::stage::{QUIET, Stage};

/// Bounds that a test can wait for.
const SOON: &str = "[hang]\nafter = \"1s\"\nnudge = \"1s\"\n";

fn up(settings: &str, script: &str) -> Stage {
    let stage = Stage::new();
    stage.ok(&["init"]);
    std::fs::write(stage.home().join("config.toml"), settings).expect("written");
    stage.ok(&["up", "1", "--tick", "200ms", "--", "/bin/sh", "-c", script]);
    stage
}

fn pages(stage: &Stage) -> Vec<Value> {
    let sql = "SELECT data FROM facts WHERE kind = 'page' AND key LIKE 'hang.%' ORDER BY seq";
    let rows: Value = serde_json::from_str(&stage.ok(&["query", sql, "--json"])).expect("one JSON object");
    let rows = rows["rows"].as_array().expect("rows").clone();
    rows.iter().map(|row| serde_json::from_str(row["data"].as_str().expect("text")).expect("JSON")).collect()
}

fn inbox(stage: &Stage, agent: &str) -> String {
    stage.ok(&["channel", "list", agent, "--json"])
}

fn is_suspected(stage: &Stage, agent: &str) -> bool {
    stage.names("state").contains(&format!("{agent}-hang-suspected"))
}

#[test]
fn who_has_mail_and_stands_still_is_suspected_nudged_and_paged_for_once() {
    let stage = up(SOON, &format!("echo last words; {QUIET}"));
    stage.ok(&["channel", "send", "agent1", "do something", "--from", "owner"]);
    stage.until("a page", |stage| (!pages(stage).is_empty()).then_some(()));
    assert!(is_suspected(&stage, "agent1") && stage.names("state").contains(&"agent1-pane-hash".to_owned()));
    assert_eq!(inbox(&stage, "agent1").matches("\"nudge\"").count(), 1, "{}", inbox(&stage, "agent1"));
    let status = stage.ok(&["status"]);
    assert!(status.contains("problem: agent1: hangs (silent) for "), "{status}");
    let page = &pages(&stage)[0];
    assert!(
        page["reason"].as_str().expect("why").starts_with("agent1 hangs (silent): it has mail"),
        "{page}"
    );
    assert!(page["evidence"]["screen"].as_str().expect("a screen").contains("last words"), "{page}");
    // agent0 has no mail: nothing is done about it, nor written at each look. Nothing is ended.
    assert!(
        !is_suspected(&stage, "agent0") && !stage.names("state").contains(&"agent0-pane-hash".to_owned())
    );
    let generation = stage.agent("agent1")["generation"].clone();
    ticks(&stage, 5);
    assert_eq!((pages(&stage).len(), stage.agent("agent1")["generation"].clone()), (1, generation));
    // It has nothing to do any more.
    stage.ok(&["channel", "drain", "agent1"]);
    for id in ids(&stage, "agent1") {
        stage.ok(&["channel", "ack", "agent1", &id]);
    }
    stage.until("the end of it", |stage| (!is_suspected(stage, "agent1")).then_some(()));
    assert!(!stage.ok(&["status"]).contains("hangs ("));
}

/// So many ticks come to their end.
fn ticks(stage: &Stage, count: usize) {
    // There is none before the first.
    let last = |stage: &Stage| std::fs::read(stage.home().join("state/tick/watchdog.json")).ok();
    for _ in 0..count {
        let before = last(stage);
        stage.until("a tick", |stage| (last(stage) != before).then_some(()));
    }
}

fn ids(stage: &Stage, agent: &str) -> Vec<String> {
    let listed: Value = serde_json::from_str(&inbox(stage, agent)).expect("one JSON object");
    let all = listed["envelopes"].as_array().expect("a list").clone();
    let open = all.into_iter().filter(|one| one["state"] == "delivered");
    open.map(|one| one["id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn a_quiet_window_and_a_phase_with_a_time_excuse_it() {
    let script = "netsky session up; [ $NETSKY_AGENT = agent0 ] || ostk report phase building --for 1h; exec sleep 100000";
    let stage = up(SOON, script);
    stage.ok(&["quiet", "1h", "I look at it", "--agent", "0"]);
    for agent in ["agent0", "agent1"] {
        stage.ok(&["channel", "send", agent, "do something", "--from", "owner"]);
    }
    ticks(&stage, 15);
    assert!(!is_suspected(&stage, "agent0") && !is_suspected(&stage, "agent1"));
    let status = stage.ok(&["status"]);
    assert!(
        status.contains("agent1: building for 59m ") && status.contains("s yet, as it said\n"),
        "{status}"
    );
    stage.ok(&["quiet", "--end"]);
    stage.until("a page", |stage| (!pages(stage).is_empty()).then_some(()));
    assert!(is_suspected(&stage, "agent0") && !is_suspected(&stage, "agent1"));
}

#[test]
fn only_where_the_owner_wants_it_a_hang_ends_in_a_restart() {
    let stage = up(&format!("{SOON}restart = true\n"), QUIET);
    stage.ok(&["channel", "send", "agent1", "do something", "--from", "owner"]);
    stage.until("another incarnation", |stage| (stage.agent("agent1")["generation"] == 2).then_some(()));
    assert_eq!(pages(&stage).len(), 1, "it is paged for before");
}

#[test]
fn what_fails_for_one_is_its_own_problem_and_a_restart_of_agent0_ends_no_hang_of_a_clone() {
    let stage = up(SOON, QUIET);
    // Its screen cannot be kept.
    let hash = stage.home().join("state/agent0-pane-hash");
    stage.until("something in its way", |_| {
        let _ = std::fs::remove_file(&hash);
        std::fs::create_dir_all(hash.join("x")).ok()
    });
    stage.ok(&["channel", "send", "agent1", "do something", "--from", "owner"]);
    stage.until("a page", |stage| (!pages(stage).is_empty()).then_some(()));
    assert!(stage.ok(&["status"]).contains("the screen of agent0: "));
    stage.signal(&stage.program("agent0"), netsky_disk::process::Signal::KILL);
    stage.until_verified(2);
    // Long enough for another page, if this were another hang.
    ticks(&stage, 20);
    // The new agent0 has a handoff, and does not read it either.
    assert_eq!(pages(&stage).iter().filter(|page| page["agent"] == "agent1").count(), 1);
    assert!(is_suspected(&stage, "agent1"));
}

#[test]
fn what_is_suspected_of_who_is_stopped_ends() {
    let stage = up(SOON, QUIET);
    stage.ok(&["channel", "send", "agent1", "do something", "--from", "owner"]);
    stage.until("a suspicion", |stage| is_suspected(stage, "agent1").then_some(()));
    std::fs::write(stage.home().join("state/agent1-crashloop-suspected"), "{}").expect("written");
    stage.ok(&["agent", "stop", "1"]);
    stage.until("nothing of it", |stage| {
        (!stage.names("state").iter().any(|name| name.starts_with("agent1-"))).then_some(())
    });
}
