//! The views of what the owner sees, says and pays for, beside the facts and envelopes that they are of.

use netsky_model::feed::{Event, KINDS, Seen};
use serde_json::json;

use crate::house::House;

#[test]
fn must_show_7_owner_events_are_what_the_feed_makes_of_the_same_facts() {
    let house = House::new();
    for (kind, _) in KINDS.into_iter().chain([("turn.finished", KINDS[0].1), ("task.created", KINDS[0].1)]) {
        for (key, data) in [
            ("a/1", json!({ "task": "12", "agent": "agent7" })),
            ("a/2", json!({ "task": { "id": "13" }, "unread": "x", "condition": "hang.agent7" })),
            ("a/1", json!({ "task": "12", "why": "once more" })),
        ] {
            house.facts.append(kind, key, data).expect("recorded");
        }
    }
    house.ingest();
    let mut seen = Seen::default();
    let facts = netsky_ledger::facts(&house.layout).expect("they read");
    let events = facts
        .iter()
        .filter_map(|fact| Event::of((fact.seq, fact.ts), &fact.kind, &fact.key, &fact.data))
        .filter(|event| seen.is_new(event));
    let made: Vec<Vec<String>> = events
        .map(|event| vec![event.seq.to_string(), event.kind, event.key, event.level.word().to_owned()])
        .collect();
    assert_eq!(house.ask("SELECT seq, kind, key, level FROM owner_events ORDER BY seq"), made);
    let tasks = house.ask("SELECT DISTINCT task FROM owner_events ORDER BY task");
    assert_eq!(tasks, [["12"], ["13"]]);
}

#[test]
fn what_the_owner_sent_and_what_a_turn_took_are_rows() {
    let house = House::new();
    house.send(7, 1, "owner", false);
    house.send(7, 2, "agent0", false);
    let usage = json!({ "input": 900, "output": 36, "cache_read": 100, "cache_write": 0 });
    let turn = json!({
        "agent": "agent7", "lineage": "agent7-00000001", "generation": 2, "runtime": "claude", "model": "m",
        "turn": "t", "outcome": { "how": "done" }, "usage": usage,
    });
    house.facts.append("turn.finished", "agent7-00000001.g2.5", turn).expect("recorded");
    house.ingest();
    let sent = house.ask("SELECT id, to_agent, state, body FROM owner_directives");
    assert_eq!(sent, [["note-1", "agent7", "written", "text 1"]]);
    let took = house
        .ask("SELECT agent, generation, outcome, input, output, cache_read, cost_micros FROM token_usage");
    assert_eq!(took, [["agent7", "2", "done", "900", "36", "100", "NULL"]]);
}
