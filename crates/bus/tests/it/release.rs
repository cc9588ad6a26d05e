//! `release`: what is given back by hand waits again, and who had it shows nothing of it afterwards.

use std::cell::Cell;
use std::sync::mpsc;
use std::time::Duration;

use netsky_bus::{Bus, Error, Owner, Put};
use netsky_disk::clock;
use netsky_disk::fs::Dir;
use netsky_disk::lock::{Hold, Seized};
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;
use netsky_model::name::{Name, Stage};
use netsky_model::process::ProcessId;
use netsky_model::witness::Nobody;

use crate::home::{Home, Memory, OUTSIDE, agent, draft, drain};

fn me() -> AgentId {
    AgentId::root()
}

#[test]
fn what_is_claimed_or_delivered_comes_back_with_one_attempt_more() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let id = bus.send(draft("x")).expect("sent").id;
    let waits = bus.take_back(&me(), id.as_str(), Owner::Spared).expect("it waits");
    assert!(waits.already && waits.attempt == 1);
    let _claim = bus.claim(&me(), 1, OUTSIDE).expect("claimed").claims.remove(0);
    let claimed = bus.take_back(&me(), id.as_str(), Owner::Spared).expect("not shown yet");
    assert_eq!((claimed.state, claimed.attempt, claimed.already), (State::Written, 2, false));
    assert_eq!(drain(&bus), [("x".to_owned(), 2)]);
    let delivered = bus.take_back(&me(), id.as_str(), Owner::Spared).expect("delivered");
    assert_eq!((delivered.state, delivered.attempt), (State::Written, 3));
    assert_eq!(home.counts(), [1, 0, 0, 0, 0]);
}

#[test]
fn what_is_finished_is_not_released() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let id = bus.send(draft("x")).expect("sent").id;
    bus.ack(&me(), id.as_str()).expect("acked");
    assert!(matches!(bus.take_back(&me(), id.as_str(), Owner::Spared), Err(Error::Illegal(_))));
    assert_eq!(home.counts(), [0, 0, 0, 1, 0]);
}

#[test]
fn the_fifth_release_makes_a_dead_letter() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let id = bus.send(draft("x")).expect("sent").id;
    for attempt in 1..=5 {
        bus.drain(&me(), 1, Generation(1), |_| Ok(())).expect("drained");
        let released = bus.take_back(&me(), id.as_str(), Owner::Spared).expect("released");
        let state = if attempt == 5 { State::Poisoned } else { State::Written };
        assert_eq!(released.state, state, "attempt {attempt}");
    }
    assert!(home.reason(&home.names(State::Poisoned)[0]).contains("it was released by hand"));
}

#[test]
fn fence_a_claim_that_was_taken_away_is_neither_shown_nor_recorded() {
    let home = Home::new();
    let memory = Memory::default();
    let bus = home.bus(&memory);
    let id = bus.send(draft("x")).expect("sent").id;
    let claim = bus.claim(&me(), 1, OUTSIDE).expect("claimed").claims.remove(0);
    bus.take_back(&me(), id.as_str(), Owner::Spared).expect("released");
    let before = memory.0.borrow().clone();
    let shown = Cell::new(false);
    let late = bus.surface(claim, OUTSIDE, |_| {
        shown.set(true);
        Ok(())
    });
    assert!(matches!(late, Err(Error::Fenced(lost)) if lost == id));
    assert!(!shown.get(), "shown by who had lost it");
    assert_eq!(*memory.0.borrow(), before, "nothing happened");
    assert_eq!(home.counts(), [1, 0, 0, 0, 0]);
}

#[test]
fn fence_a_claim_that_is_being_shown_is_not_taken_away() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let id = bus.send(draft("x")).expect("sent").id;
    let refused = Cell::new(false);
    bus.drain(&me(), 1, OUTSIDE, |_| {
        let released = home.bus(&Nobody).take_back(&me(), id.as_str(), Owner::Spared);
        refused.set(matches!(released, Err(Error::Held { may_end: true, .. })));
        Ok(())
    })
    .expect("drained");
    assert!(refused.get());
    assert_eq!(home.counts(), [0, 0, 1, 0, 0]);
}

/// Takes hold of the one claim there is as another process would, and releases it with a kill meanwhile.
fn release_beside_another_hold(home: &Home, id: &str) -> Result<netsky_bus::Released, Error> {
    let claimed = Dir::open(home.folder(State::Claimed)).expect("there");
    let file = home.names(State::Claimed).remove(0);
    let Ok(Seized::Held(_other)) = Hold::take(&claimed, &file) else { panic!("nobody has it") };
    let (tells, told) = mpsc::channel();
    let (layout, id) = (home.layout.clone(), id.to_owned());
    // Left alone where it does not come back: the test must end.
    std::thread::spawn(move || {
        let _ = tells.send(Bus::open(&layout, &Nobody).take_back(&me(), &id, Owner::Killed));
    });
    told.recv_timeout(Duration::from_secs(60)).expect("it answers")
}

#[test]
fn t2_a_release_that_kills_ends_where_another_than_the_owner_has_the_claim() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let id = bus.send(draft("x")).expect("sent").id;
    let claim = bus.claim(&me(), 1, OUTSIDE).expect("claimed").claims.remove(0);
    // Neither ourselves nor the first process of a container is killed.
    let ours = release_beside_another_hold(&home, id.as_str());
    let us = std::process::id();
    assert!(matches!(ours, Err(Error::Held { pid, may_end: false, .. }) if pid == us), "{ours:?}");
    let name = Name::parse(&claim.mark()).expect("a claim's");
    let Stage::Claimed(owner) = &name.stage else { panic!("{name}") };
    for (pid, start_time) in [(u32::MAX >> 2, 1), (owner.pid, owner.start_time + 1)] {
        let gone = ProcessId { pid, start_time, ..owner.clone() };
        let was = home.names(State::Claimed).remove(0);
        let dead = name.to(Stage::Claimed(gone)).to_string();
        home.forge((State::Claimed, &was), (State::Claimed, &dead));
        let busy = release_beside_another_hold(&home, id.as_str());
        assert!(matches!(busy, Err(Error::Busy { .. })), "{busy:?}");
    }
    assert_eq!(home.counts(), [0, 1, 0, 0, 0]);
    bus.take_back(&me(), id.as_str(), Owner::Killed).expect("nobody has it any more");
    assert_eq!(home.counts(), [1, 0, 0, 0, 0]);
}

#[test]
fn a5_what_is_claimed_and_has_no_claimant_is_released_and_not_forwarded() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.create(&agent("agent2")).expect("made");
    let id = bus.send(draft("x")).expect("sent").id;
    bus.claim(&me(), 1, OUTSIDE).expect("claimed");
    let was = home.names(State::Claimed).remove(0);
    let unowned = Name::parse(&was).expect("a claim's").to(Stage::Waiting).to_string();
    home.forge((State::Claimed, &was), (State::Claimed, &unowned));
    let (tells, told) = mpsc::channel();
    let (layout, to) = (home.layout.clone(), id.clone());
    std::thread::spawn(move || {
        let bus = Bus::open(&layout, &Nobody);
        let _ = tells.send(bus.forward(&me(), to.as_str(), &agent("agent2"), &me().into()));
    });
    let forwarded = told.recv_timeout(Duration::from_secs(60)).expect("it answers");
    assert!(matches!(forwarded, Err(Error::Unowned { .. })), "{forwarded:?}");
    let busy = release_beside_another_hold(&home, id.as_str());
    assert!(matches!(busy, Err(Error::Busy { .. })), "{busy:?}");
    bus.take_back(&me(), id.as_str(), Owner::Spared).expect("released");
    assert_eq!(drain(&bus), [("x".to_owned(), 2)]);
}

#[test]
fn fence_of_several_claims_one_that_was_lost_keeps_all_from_being_shown() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let id = bus.send(draft("0")).expect("sent").id;
    bus.send(draft("1")).expect("sent");
    let claims = bus.claim(&me(), 2, OUTSIDE).expect("claimed").claims;
    bus.take_back(&me(), id.as_str(), Owner::Spared).expect("released");
    let shown = bus.surface_all(&me(), claims, OUTSIDE, || unreachable!("one of them was lost"));
    assert!(matches!(shown, Err(Error::Fenced(_))));
    assert_eq!(drain(&bus), [("0".to_owned(), 2), ("1".to_owned(), 1)]);
}

#[test]
fn t2_of_several_claims_one_that_was_lost_while_they_were_shown_keeps_none_from_being_recorded() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    for text in ["0", "1", "2"] {
        bus.send(draft(text)).expect("sent");
    }
    let claims = bus.claim(&me(), 3, OUTSIDE).expect("claimed").claims;
    let shown = bus.surface_all(&me(), claims, OUTSIDE, || {
        let first = home.folder(State::Claimed).join(&home.names(State::Claimed)[0]);
        std::fs::remove_file(first).expect("there");
        Put::Taken
    });
    assert!(matches!(shown, Err(Error::ClaimLost(_))), "{shown:?}");
    assert_eq!(home.counts(), [0, 0, 2, 0, 0]);
}

#[test]
fn fence_a_claim_whose_releaser_ended_before_its_move_is_shown_by_who_has_it() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.send(draft("x")).expect("sent");
    let claim = bus.claim(&me(), 1, OUTSIDE).expect("claimed").claims.remove(0);
    let claimed = Dir::open(home.folder(State::Claimed)).expect("there");
    let Ok(Seized::Held(reached)) = Hold::take(&claimed, &claim.mark()) else { panic!("nobody has it") };
    std::thread::scope(|scope| {
        let (begins, begun) = mpsc::channel();
        scope.spawn(move || {
            begun.recv().expect("it is about to be shown");
            // Long enough for the claimant to meet it; a slow one finds it free, which is no failure.
            clock::pause(Duration::from_millis(100));
            drop(reached);
        });
        begins.send(()).expect("heard");
        bus.surface(claim, OUTSIDE, |_| Ok(())).expect("it is still ours");
    });
    assert_eq!(home.counts(), [0, 0, 1, 0, 0]);
}
