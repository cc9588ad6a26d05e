//! Two homes of one user, side by side.

use netsky_disk::process::{Signal, is_alive};

use crate::stage::{QUIET, Stage};

const EVERYBODY: [&str; 4] = ["agent0", "agent1", "agentinfinity", "netsky-ticker"];

#[test]
fn must_show_two_constellations_side_by_side_touch_nothing_of_each_other() {
    let (one, other) = (Stage::up(1, QUIET, "500ms"), Stage::up(1, QUIET, "500ms"));
    let (theirs, anchor) = (EVERYBODY.map(|id| other.program(id)), other.anchor());
    let untouched = |when: &str| {
        assert_eq!(EVERYBODY.map(|id| other.program(id)), theirs, "{when}");
        assert_eq!(other.anchor(), anchor, "{when}");
        assert_eq!(other.living_roots(), ["1"], "{when}");
        assert!(is_alive(&anchor) && other.status()["restart"].is_null(), "{when}");
        other.ok(&["check"]);
    };

    // Deaths, a planned restart that ends every numbered session, and sweeps by mark.
    one.signal(&one.program("agent0"), Signal::KILL);
    one.until_verified(2);
    untouched("the root of one was killed");
    one.ok(&["check"]);
    one.ok(&["restart"]);
    one.until_verified(3);
    untouched("one was restarted");
    one.signal(&one.worker("agent1"), Signal::KILL);
    one.until("the death of agent1", |stage| (stage.agent("agent1")["generation"] != 2).then_some(()));
    untouched("a worker of one was killed");

    // Mail has one home.
    one.ok(&["channel", "send", "agent1", "for one", "--from", "agent0"]);
    assert_eq!(other.ok(&["channel", "drain", "agent1"]), "");
    let told = other.ok(&["status", "--json"]) + &other.ok(&["check", "--json"]);
    assert!(!told.contains(one.home().to_str().expect("text")), "{told}");

    one.ok(&["down"]);
    untouched("one is down");
    assert!(one.living_roots().is_empty());
    one.ok(&["check"]);
}
