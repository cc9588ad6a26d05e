//! The way back: dead owners and dead generations give everything back, unknown owners nothing.

use netsky_bus::{Bus, Returned};
use netsky_disk::process;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::{MAX_HANDED_BACK, State};
use netsky_model::name::{Name, Stage};
use netsky_model::process::ProcessId;
use netsky_model::witness::Nobody;

use crate::home::{Home, OUTSIDE, draft, drain};

/// Puts the one waiting envelope into `claimed/` as if `owner` had claimed it.
fn claimed_by(home: &Home, owner: ProcessId) {
    let file = home.names(State::Written).remove(0);
    let name = Name::parse(&file).expect("a name").to(Stage::Claimed(owner));
    home.forge((State::Written, &file), (State::Claimed, &name.to_string()));
}

fn returned(bus: &Bus<'_>) -> (usize, usize) {
    went(bus.return_dead_claims(&AgentId::root()))
}

/// How many went to the inbox and to the dead letters; none of them could not go.
fn went(returned: netsky_bus::Result<Returned>) -> (usize, usize) {
    let Returned { inbox, poisoned, skipped } = returned.expect("returned");
    assert_eq!(skipped.count(), 0, "{skipped:?}");
    (inbox, poisoned)
}

#[test]
fn t7_t8_the_claim_of_a_dead_owner_comes_back_flagged_with_the_same_id() {
    let me = process::me();
    let dead = [
        ProcessId { start_time: me.start_time + 1, ..me.clone() },
        ProcessId { boot_id: "ffffffff".to_owned(), ..me.clone() },
        ProcessId { boot_id: "ffffffff".to_owned(), ns: me.ns + 1, ..me.clone() },
    ];
    for owner in dead {
        let home = Home::new();
        let bus = home.bus(&Nobody);
        let sent = bus.send(draft("x")).expect("sent");
        claimed_by(&home, owner.clone());
        let mut seen = Vec::new();
        bus.drain(&AgentId::root(), 9, OUTSIDE, |claim| {
            seen.push((claim.id().clone(), claim.attempt(), claim.rendered()));
            Ok(())
        })
        .expect("drained");
        let [(id, attempt, text)] = &seen[..] else { panic!("{owner:?}: {seen:?}") };
        assert_eq!((id, *attempt), (&sent.id, 2));
        assert!(text.contains(" redelivered=\"true\" attempt=\"2\""), "{text}");
    }
}

#[test]
fn t8_the_claims_of_the_living_and_of_the_unknown_stay() {
    let me = process::me();
    let foreign = ProcessId { ns: me.ns + 1, ..me.clone() };
    // Where every process is seen, that nobody is in such a namespace is seen too.
    for owner in std::iter::once(me).chain((!process::sees_all()).then_some(foreign)) {
        let home = Home::new();
        let bus = home.bus(&Nobody);
        bus.send(draft("x")).expect("sent");
        claimed_by(&home, owner);
        assert_eq!(returned(&bus), (0, 0));
        assert_eq!(drain(&bus), []);
        assert_eq!(home.counts(), [0, 1, 0, 0, 0]);
    }
}

#[test]
fn an_adopted_home_has_back_what_sessions_and_living_readers_of_the_original_have() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.send(draft("x")).expect("sent");
    bus.drain(&AgentId::root(), 1, Generation(3), |_| Ok(())).expect("drained");
    bus.send(draft("y")).expect("sent");
    claimed_by(&home, process::me());
    let back = went(bus.return_adopted(&AgentId::root()));
    assert_eq!(back, (2, 0));
    assert_eq!(drain(&bus), [("x".to_owned(), 2), ("y".to_owned(), 2)]);
}

#[test]
fn a_moved_home_keeps_the_claim_that_is_being_shown() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.send(draft("x")).expect("sent");
    let mut back = (0, 0);
    bus.drain(&AgentId::root(), 1, OUTSIDE, |_| {
        back = went(home.bus(&Nobody).return_adopted(&AgentId::root()));
        Ok(())
    })
    .expect("drained");
    assert_eq!(back, (0, 0));
    assert_eq!(home.counts(), [0, 0, 1, 0, 0]);
}

#[test]
fn t2_a_dead_owner_of_the_last_attempt_leaves_a_dead_letter() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.send(draft("x")).expect("sent");
    let me = process::me();
    let dead = ProcessId { start_time: me.start_time + 1, ..me };
    for attempt in 1..=5 {
        claimed_by(&home, dead.clone());
        let expected = match attempt {
            5 => (0, 1),
            _ => (1, 0),
        };
        assert_eq!(returned(&bus), expected, "attempt {attempt}");
    }
    assert_eq!(home.counts(), [0, 0, 0, 0, 1]);
}

#[test]
fn an_absurd_attempt_is_a_dead_letter_not_an_overflow() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.send(draft("x")).expect("sent");
    let me = process::me();
    let file = home.names(State::Written).remove(0);
    let dead = ProcessId { start_time: me.start_time + 1, ..me };
    let name = Name { attempt: u32::MAX, ..Name::parse(&file).expect("a name").to(Stage::Claimed(dead)) };
    home.forge((State::Written, &file), (State::Claimed, &name.to_string()));
    assert_eq!(returned(&bus), (0, 1));
}

#[test]
fn t7_many_who_find_the_same_dead_owner_give_back_once() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let me = process::me();
    let dead = ProcessId { start_time: me.start_time + 1, ..me };
    for n in 0..60 {
        bus.send(draft(&n.to_string())).expect("sent");
        claimed_by(&home, dead.clone());
    }
    let seen: Vec<(String, u32)> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..6).map(|_| scope.spawn(|| drain(&home.bus(&Nobody)))).collect();
        racers.into_iter().flat_map(|racer| racer.join().expect("no panic")).collect()
    });
    let texts: std::collections::BTreeSet<&str> = seen.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!((seen.len(), texts.len()), (60, 60));
    assert!(seen.iter().all(|(_, attempt)| *attempt == 2));
    assert_eq!(home.counts(), [0, 0, 60, 0, 0]);
}

#[test]
fn mail_of_a_dead_generation_comes_back_and_what_was_read_outside_stays() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let me = AgentId::root();
    for generation in [0, 1, 2] {
        bus.send(draft(&format!("for {generation}"))).expect("sent");
        bus.drain(&me, 9, Generation(generation), |_| Ok(())).expect("drained");
    }
    let back = went(bus.return_generations(&me, |generation| generation.0 <= 1));
    assert_eq!(back, (1, 0));
    assert_eq!(drain(&bus), [("for 1".to_owned(), 2)]);
    assert_eq!(went(bus.return_generations(&me, |_| false)), (0, 0));
}

#[test]
fn t2_mail_that_outlives_five_generations_is_a_dead_letter() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let me = AgentId::root();
    bus.send(draft("x")).expect("sent");
    for generation in 1..=5 {
        bus.drain(&me, 9, Generation(generation), |_| Ok(())).expect("drained");
        bus.return_generations(&me, |_| true).expect("returned");
    }
    assert_eq!(home.counts(), [0, 0, 0, 0, 1]);
    let reason = home.reason(&home.names(State::Poisoned)[0]);
    assert!(reason.contains("generation 5 ended without finishing it"), "{reason}");
}

#[test]
fn t2_a_claim_of_a_reader_that_was_ended_on_purpose_is_no_dead_letter() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.send(draft("x")).expect("sent");
    let gone = ProcessId { start_time: process::me().start_time + 1, ..process::me() };
    for _ in 1..=7 {
        claimed_by(&home, gone.clone());
        assert_eq!(went(bus.return_stopped_claims(&AgentId::root())), (1, 0));
    }
    claimed_by(&home, gone);
    assert_eq!(returned(&bus), (0, 1));
}

#[test]
fn t2_a_message_whose_readers_are_ended_on_purpose_for_ever_is_a_dead_letter_in_the_end() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.send(draft("kill 0")).expect("sent");
    let gone = ProcessId { start_time: process::me().start_time + 1, ..process::me() };
    let mut returns = 0;
    while home.counts()[0] == 1 {
        claimed_by(&home, gone.clone());
        bus.return_stopped_claims(&AgentId::root()).expect("returned");
        returns += 1;
        assert!(returns <= MAX_HANDED_BACK, "it goes on");
    }
    assert_eq!((returns, home.counts()), (MAX_HANDED_BACK, [0, 0, 0, 0, 1]));
    let reason = home.reason(&home.names(State::Poisoned)[0]);
    assert!(reason.contains("surfaced 50 times in vain"), "{reason}");
}

#[test]
fn t2_no_end_on_purpose_makes_a_dead_letter_and_the_next_death_does() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let me = AgentId::root();
    bus.send(draft("x")).expect("sent");
    for generation in 1..=7 {
        bus.drain(&me, 9, Generation(generation), |_| Ok(())).expect("drained");
        let back = went(bus.return_stopped(&me, Generation(generation)));
        assert_eq!(back, (1, 0));
    }
    let shown = bus.drain(&me, 9, Generation(8), |_| Ok(())).expect("drained");
    assert_eq!(shown.surfaced, 1);
    assert_eq!(went(bus.return_stopped(&me, Generation(7))), (0, 0));
    assert_eq!(went(bus.return_generations(&me, |_| true)), (0, 1));
    let reason = home.reason(&home.names(State::Poisoned)[0]);
    assert!(reason.contains("surfaced 8 times in vain; at last generation 8 ended"), "{reason}");
}

#[test]
fn what_is_no_name_in_claimed_and_delivered_is_left_and_listed() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.create(&AgentId::root()).expect("made");
    for state in [State::Claimed, State::Delivered, State::Acked] {
        std::fs::write(home.folder(state).join("notes.txt"), "mine").expect("written");
    }
    assert_eq!(returned(&bus), (0, 0));
    bus.return_generations(&AgentId::root(), |_| true).expect("returned");
    let listed = bus.list(&AgentId::root(), None).expect("listed");
    assert_eq!(listed.len(), 3);
    assert!(listed.iter().all(|entry| entry.name.is_none() && entry.problem.is_some()));
    assert_eq!(home.counts(), [0, 1, 1, 1, 0]);
}
