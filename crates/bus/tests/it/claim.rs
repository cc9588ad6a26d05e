//! `claim` and `surface`: one reader each, and a failed reader costs an attempt, not a message.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;

use netsky_bus::{Claim, Draft, Error, PassedBy, Put};
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::{MAX_ATTEMPTS, State};
use netsky_model::name::{Name, Stage};
use netsky_model::witness::Nobody;

use crate::home::{Home, Memory, OUTSIDE, agent, draft, drain};

#[test]
fn a_drained_envelope_is_in_delivered_with_attempt_and_generation() {
    let home = Home::new();
    let memory = Memory::default();
    let bus = home.bus(&memory);
    bus.send(draft("x")).expect("sent");
    bus.drain(&AgentId::root(), 1, Generation(3), |_| Ok(())).expect("drained");
    let name = Name::parse(&home.names(State::Delivered)[0]).expect("a name");
    assert_eq!((name.attempt, name.stage), (1, Stage::Taken(Generation(3))));
    assert_eq!(*memory.0.borrow(), ["written 1", "claimed 1", "surfaced 1", "delivered 1"]);
}

#[test]
fn fm_claim_two_racers_never_hold_the_same_envelope() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let count = 400;
    for n in 0..count {
        bus.send(draft(&n.to_string())).expect("sent");
    }
    let seen: Mutex<HashMap<String, usize>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for (text, attempt) in drain(&home.bus(&Nobody)) {
                    assert_eq!(attempt, 1);
                    *seen.lock().expect("no panic").entry(text).or_default() += 1;
                }
            });
        }
    });
    let seen = seen.into_inner().expect("no panic");
    assert_eq!(seen.len(), count);
    assert!(seen.values().all(|times| *times == 1));
    assert_eq!(home.counts(), [0, 0, count, 0, 0]);
}

#[test]
fn d1_a_reader_that_cannot_be_given_the_text_costs_one_attempt() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.send(draft("x")).expect("sent");
    let failed = bus.drain(&AgentId::root(), 1, OUTSIDE, |_| Err(io::Error::other("pipe closed")));
    assert!(matches!(failed, Err(Error::Surface { .. })));
    assert_eq!(home.counts(), [1, 0, 0, 0, 0]);
    assert_eq!(drain(&bus), [("x".to_owned(), 2)]);
}

#[test]
fn t2_five_surfacings_in_vain_make_a_dead_letter_and_the_neighbours_are_untouched() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.send(draft("kills its reader")).expect("sent");
    bus.send(draft("neighbour")).expect("sent");
    for attempt in 1..=5 {
        let mut seen = 0;
        let failed = bus.drain(&AgentId::root(), 1, OUTSIDE, |claim| {
            seen = claim.attempt();
            Err(io::Error::other("gone"))
        });
        assert!(failed.is_err());
        assert_eq!(seen, attempt);
    }
    assert_eq!(home.counts(), [1, 0, 0, 0, 1]);
    assert!(home.reason(&home.names(State::Poisoned)[0]).contains("surfaced 5 times in vain"));
    assert_eq!(drain(&bus), [("neighbour".to_owned(), 1)]);
}

#[test]
fn a_claim_that_was_put_back_keeps_its_attempt() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.send(draft("x")).expect("sent");
    let claim = bus.claim(&AgentId::root(), 1, OUTSIDE).expect("claimed").claims.remove(0);
    assert_eq!(home.counts(), [0, 1, 0, 0, 0]);
    bus.put_back(claim).expect("back");
    assert_eq!(drain(&bus), [("x".to_owned(), 1)]);
}

#[test]
fn what_may_go_first_goes_past_others_and_past_nothing_of_its_own_sender() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let send = |from: &str, text: &str, kind: Option<&str>| {
        let draft =
            Draft { kind: kind.map(str::to_owned), ..Draft::new(agent(from).into(), AgentId::root(), text) };
        bus.send(draft).expect("sent");
    };
    let mut passed_by = PassedBy::default();
    let mut urgent = || {
        let fits = |envelope: &Envelope| envelope.kind.as_deref() == Some("now");
        let claim = bus.claim_first(&AgentId::root(), OUTSIDE, &mut passed_by, fits);
        claim.expect("looked").map(|claim| claim.envelope().text.clone())
    };
    assert_eq!(urgent(), None);
    send("agent1", "waits", None);
    send("agent1", "behind", Some("now"));
    send("agent2", "first", Some("now"));
    send("agent2", "second", Some("now"));
    assert_eq!([urgent(), urgent(), urgent()], [Some("first".to_owned()), Some("second".to_owned()), None]);
    assert_eq!(home.counts(), [2, 2, 0, 0, 0], "the others wait as they did");
}

#[test]
fn max_bounds_what_is_taken() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    for n in 0..5 {
        bus.send(draft(&n.to_string())).expect("sent");
    }
    let batch = bus.claim(&AgentId::root(), 2, OUTSIDE).expect("claimed");
    let texts: Vec<&str> = batch.claims.iter().map(|claim| claim.envelope().text.as_str()).collect();
    assert_eq!(texts, ["0", "1"]);
    assert_eq!(home.counts(), [3, 2, 0, 0, 0]);
}

#[test]
fn a_copy_made_by_hand_is_surfaced_once_more_at_most_and_never_for_ever() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let sent = bus.send(draft("x")).expect("sent");
    let name = home.names(State::Written).remove(0);
    let copy = std::fs::read(sent.path.expect("placed")).expect("there");
    drain(&bus);
    std::fs::write(home.folder(State::Written).join(&name), copy).expect("written");
    assert_eq!(drain(&bus).len(), 1);
    assert_eq!(drain(&bus), []);
    assert_eq!(home.counts(), [0, 0, 1, 0, 1]);
}

#[test]
fn what_was_meant_for_one_generation_reaches_no_later_one_and_waits_for_a_later_one() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let me = AgentId::root();
    for meant in [3, 4, 5] {
        let mut told = draft(&format!("for {meant}"));
        told.for_generation = Some(Generation(meant));
        bus.send(told).expect("sent");
    }
    let batch = bus.claim(&me, 9, Generation(4)).expect("claimed");
    let seen: Vec<&str> = batch.claims.iter().map(|claim| claim.envelope().text.as_str()).collect();
    assert_eq!(seen, ["for 4"]);
    assert!(batch.aside.quarantined.is_empty(), "nothing is damaged");
    assert_eq!(home.counts(), [1, 1, 0, 0, 1]);
    let dead = bus.list(&me, Some(State::Poisoned)).expect("listed");
    assert_eq!(dead[0].problem.as_deref(), Some("meant for a generation before 4"));
    let short = Some(std::time::Duration::from_millis(20));
    assert!(!bus.wait(&me, Generation(4), short).expect("waited"), "what waits is for generation 5");
    assert!(bus.wait(&me, Generation(5), None).expect("waited"));
}

#[test]
fn t2_a_reader_that_outlives_its_grace_makes_no_dead_letter_and_the_next_failure_does() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.send(draft("long")).expect("sent");
    let attempt = |then: fn() -> Put| {
        let mut seen = 0;
        let put = |claim: &Claim| {
            seen = claim.attempt();
            then()
        };
        bus.drain(&AgentId::root(), 1, OUTSIDE, put).expect("nothing is broken");
        seen
    };
    for n in 1..=MAX_ATTEMPTS {
        assert_eq!(attempt(|| Put::Stopped), n);
        assert_eq!(home.counts(), [1, 0, 0, 0, 0], "it waits after attempt {n}");
    }
    assert_eq!(attempt(|| Put::Refused("exited 1".to_owned())), MAX_ATTEMPTS + 1);
    assert_eq!(home.counts(), [0, 0, 0, 0, 1]);
}

#[test]
fn a1_a_key_that_did_not_read_once_is_read_for_the_next_message() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    for text in ["1", "2"] {
        bus.send(netsky_bus::Draft { vouched: true, ..draft(text) }).expect("sent");
    }
    let (key, away) = (home.layout.key(), home.layout.key().with_extension("away"));
    std::fs::rename(&key, &away).expect("away");
    std::fs::create_dir(&key).expect("what does not read");
    let mut vouched = Vec::new();
    bus.drain(&AgentId::root(), 9, OUTSIDE, |claim| {
        vouched.push(claim.is_vouched());
        if vouched.len() == 1 {
            std::fs::remove_dir(&key).expect("removed");
            std::fs::rename(&away, &key).expect("back");
        }
        Ok(())
    })
    .expect("drained");
    assert_eq!(vouched, [false, true]);
}
