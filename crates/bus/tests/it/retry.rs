//! `poison retry` and the late ack: the two ways out of the dead letters.

use std::cell::RefCell;
use std::io;

use netsky_bus::{Bus, Draft, Error};
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::{Cause, State};
use netsky_model::name::Name;
use netsky_model::witness::{Nobody, Transition, Witness};

use crate::home::{Home, OUTSIDE, draft, drain};

/// A dead letter: five readers failed.
fn dead_letter(bus: &Bus<'_>) -> String {
    let id = bus.send(draft("x")).expect("sent").id.to_string();
    for _ in 1..=5 {
        let failed = bus.drain(&AgentId::root(), 1, OUTSIDE, |_| Err(io::Error::other("gone")));
        assert!(failed.is_err());
    }
    id
}

#[derive(Default)]
struct Reasons(RefCell<Vec<(Option<Cause>, String)>>);

impl Witness for Reasons {
    fn saw(&self, seen: &Transition) {
        self.0.borrow_mut().push((seen.cause, seen.reason.clone().unwrap_or_default()));
    }
}

const NEWER: &str = r#"{"v":2,"from":"a","text":"t","ts":"2026-04-19T17:22:57Z"}"#;

#[test]
fn a_letter_that_came_too_late_keeps_its_attempts_for_its_retry() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let sent = bus.send(Draft { for_generation: Some(Generation(2)), ..draft("x") }).expect("sent");
    bus.drain(&AgentId::root(), 9, Generation(2), |_| Ok(())).expect("drained");
    bus.return_generations(&AgentId::root(), |_| true).expect("returned");
    bus.drain(&AgentId::root(), 9, Generation(3), |_| Ok(())).expect("drained");
    assert_eq!(home.counts(), [0, 0, 0, 0, 1], "meant for a generation before");
    bus.retry(&AgentId::root(), sent.id.as_str()).expect("retried");
    let waits = Name::parse(&home.names(State::Written)[0]).expect("a name");
    assert_eq!(waits.attempt, 3, "attempt 2 was what came too late");
}

#[test]
fn a_retried_dead_letter_has_one_more_attempt_and_its_reason_in_the_record() {
    let home = Home::new();
    let reasons = Reasons::default();
    let bus = home.bus(&reasons);
    let id = dead_letter(&bus);
    bus.retry(&AgentId::root(), &id).expect("retried");
    let told = reasons.0.borrow().last().cloned().expect("told");
    assert_eq!(told.0, Some(Cause::Retried));
    assert!(told.1.contains("surfaced 5 times in vain"), "{}", told.1);
    assert_eq!(std::fs::read_dir(home.folder(State::Poisoned)).expect("there").count(), 0);
    assert_eq!(drain(&bus), [("x".to_owned(), 6)]);
    bus.take_back(&AgentId::root(), &id, netsky_bus::Owner::Spared).expect("released");
    assert_eq!(home.counts(), [0, 0, 0, 0, 1], "one more, and no more");
}

#[test]
fn what_is_no_dead_letter_or_no_envelope_is_not_retried() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let id = bus.send(draft("x")).expect("sent").id;
    let retried = bus.retry(&AgentId::root(), id.as_str()).expect("it waits");
    assert!(retried.already, "and nothing was done");
    let taken = bus.send(draft("y")).expect("sent").id;
    bus.ack(&AgentId::root(), taken.as_str()).expect("acked");
    assert!(matches!(bus.retry(&AgentId::root(), taken.as_str()), Err(Error::Illegal(_))));
    std::fs::write(home.folder(State::Poisoned).join("00000000000000000042-bad.json"), "{").expect("written");
    assert!(matches!(bus.retry(&AgentId::root(), "bad"), Err(Error::Damaged { .. })));
    assert_eq!(home.counts(), [1, 0, 0, 1, 1]);
}

#[test]
fn a5_a_dead_letter_is_no_message_for_an_ack_either_where_a_retry_refuses_it() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let id = dead_letter(&bus);
    let name = home.names(State::Poisoned).remove(0);
    let other = name.replace(&id, "other");
    home.forge((State::Poisoned, &name), (State::Poisoned, &other));
    std::fs::write(home.folder(State::Poisoned).join("00000000000000000042-newer.json"), NEWER)
        .expect("written");
    let me = AgentId::root();
    let tried = |id| [bus.ack(&me, id).map(drop), bus.retry(&me, id).map(drop)];
    for refused in tried("other") {
        assert!(matches!(refused, Err(Error::Damaged { state: State::Poisoned, .. })), "{refused:?}");
    }
    for refused in tried("newer") {
        assert!(matches!(refused, Err(Error::Newer { .. })), "{refused:?}");
    }
    assert_eq!(home.counts(), [0, 0, 0, 0, 2]);
}

#[test]
fn a_late_ack_of_a_dead_letter_ends_it_well() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let id = dead_letter(&bus);
    bus.ack(&AgentId::root(), &id).expect("acked");
    assert_eq!(home.counts(), [0, 0, 0, 1, 0]);
    assert_eq!(std::fs::read_dir(home.folder(State::Poisoned)).expect("there").count(), 0);
}
