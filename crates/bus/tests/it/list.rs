//! `list`: what waits is seen first, and looking changes nothing.

use netsky_bus::Entry;
use netsky_model::id::AgentId;
use netsky_model::life::State;
use netsky_model::witness::Nobody;

use crate::home::{Home, draft, drain};

#[test]
fn a_bounded_list_leaves_out_the_oldest_that_are_finished() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    for n in 0..6 {
        let mut draft = draft("x");
        draft.id = Some(format!("m{n}").parse().expect("valid"));
        bus.send(draft).expect("sent");
        if n < 5 {
            drain(&bus);
        }
        if n < 4 {
            bus.ack(&AgentId::root(), &format!("m{n}")).expect("there");
        }
    }
    let before = home.counts();
    let listing = bus.listing(&AgentId::root(), None, 3).expect("listed");
    let entries: Vec<Entry> = listing.entries().collect();
    let seen: Vec<(State, &str)> = entries
        .iter()
        .map(|entry| (entry.state, entry.name.as_ref().expect("a name").key.id.as_str()))
        .collect();
    assert_eq!(seen, [(State::Written, "m5"), (State::Delivered, "m4"), (State::Acked, "m3")]);
    assert_eq!((listing.left_out(), home.counts()), (3, before));
    assert_eq!(bus.list(&AgentId::root(), Some(State::Acked)).expect("listed").len(), 4);
}

#[test]
fn who_looks_makes_nothing() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    assert!(bus.list(&AgentId::root(), None).expect("nothing is there").is_empty());
    assert_eq!(bus.count(&AgentId::root(), State::Written).expect("nothing is there"), 0);
    assert!(bus.show(&AgentId::root(), "x").is_err());
    assert!(!home.layout.channel(&AgentId::root()).exists(), "no folder was made");
}
