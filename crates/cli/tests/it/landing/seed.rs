//! The page "Where the bits flow" as far as it is of the landing edge and the owner's: its commands as written, what they print, and
//! the three changes that it asks for.

use netsky_model::life::State;
use serde_json::{Value, json};

use super::{Bench, commit};

fn query(bench: &Bench, sql: &str) -> Vec<Value> {
    bench.json(&["query", sql])["rows"].as_array().expect("rows").clone()
}

/// "Their work lives in fresh workspaces/<task>/repo clones on dedicated branches." "agent0 fetches the clone branch, cherry-picks
/// FETCH_HEAD, records landed_sha, and closes the task." "Harvest writes task state and prints harvested task {id} sha={sha} into
/// main." "Third, emit a harvest-complete bus event."
#[test]
fn must_show_1_a_harvest_as_written_lands_closes_and_says_so_on_the_bus() {
    let bench = Bench::new();
    let clone = bench.workspace("92");
    assert_eq!(clone, bench.home.path().join("workspaces/92/repo"));
    bench.claimed("92", "agent7");
    commit(&clone, "d", "new\n");
    bench.ready("92", "agent7");

    let sent = bench
        .inside("agent0", &["channel", "send", "agent7", "gate is green. harvest next.", "--from", "agent0"]);
    sent.works();
    let harvested = bench.inside("agent0", &["task", "harvest", "92"]);
    let sha = bench.main();
    assert!(
        harvested.works().starts_with(&format!("harvested task 92 sha={sha} into main")),
        "{harvested:?}"
    );
    let counted = query(&bench, "SELECT source, COUNT(*) AS n FROM messages GROUP BY source");
    assert_eq!(
        counted,
        [json!({ "source": "agent", "n": 3 })],
        "what agent0 said, and who is told of the landing"
    );

    let task = query(&bench, "SELECT id, state, how, landed_sha FROM tasks");
    assert_eq!(task, [json!({ "id": "92", "state": "closed", "how": "landed", "landed_sha": sha })]);
    let [told] = &bench.told("agent7", "harvest-landed")[..] else { panic!("one envelope") };
    assert!(told.thread.as_deref() == Some("92") && told.text.contains(&sha), "{}", told.text);
    // One row of its life each: the first change that is asked for.
    let lives = query(&bench, "SELECT to_agent, state FROM envelopes ORDER BY id");
    assert!(
        lives.contains(&json!({ "to_agent": "agent7", "state": State::Written.to_string() })),
        "{lives:?}"
    );
}

/// "The system should promote 'clone finished', 'harvest started', 'harvest landed', 'watchdog repaired root', and 'gate failed' into
/// owner-visible events. The edge should be driven by durable events, not by whether a pane happens to say the right thing."
#[test]
fn must_show_1_what_is_promised_to_be_seen_is_a_durable_event() {
    let bench = Bench::new();
    let clone = bench.workspace("92");
    bench.claimed("92", "agent7");
    commit(&clone, "d", "new\n");
    bench.config("[gate]\ncommand = [\"/bin/false\"]\n");
    bench.run(&["task", "harvest", "92"]).fails_with(1, &["the gate of task 92 ended with 1"]);
    bench.config("[gate]\ncommand = [\"/bin/true\"]\n");
    bench.run(&["task", "harvest", "92"]).works();
    let seen = bench.json(&["events"]);
    let kinds: Vec<&str> =
        seen["events"].as_array().expect("a list").iter().filter_map(|one| one["kind"].as_str()).collect();
    for kind in ["harvest.started", "gate.failed", "harvest.landed"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
}
