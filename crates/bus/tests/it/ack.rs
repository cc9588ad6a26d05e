//! `ack`: from every state, twice, shortened, unknown.

use netsky_bus::{Acked, Error, Put};
use netsky_disk::process;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;
use netsky_model::name::{Name, Stage};
use netsky_model::process::ProcessId;
use netsky_model::witness::Nobody;

use crate::home::{Home, Memory, OUTSIDE, draft};

fn me() -> AgentId {
    AgentId::root()
}

#[test]
fn fm_ack_two_racers_a_repeat_is_a_no_op() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let id = bus.send(draft("x")).expect("sent").id;
    bus.drain(&me(), 1, Generation(4), |_| Ok(())).expect("drained");
    let results: Vec<Acked> = std::thread::scope(|scope| {
        let ack = || home.bus(&Nobody).ack(&me(), id.as_str()).expect("there").1;
        let racers: Vec<_> = (0..4).map(|_| scope.spawn(ack)).collect();
        racers.into_iter().map(|racer| racer.join().expect("no panic")).collect()
    });
    assert_eq!(results.iter().filter(|acked| **acked == Acked::Now).count(), 1);
    let name = Name::parse(&home.names(State::Acked)[0]).expect("a name");
    assert_eq!(name.stage, Stage::Taken(Generation(4)));
    assert_eq!(home.counts(), [0, 0, 0, 1, 0]);
}

#[test]
fn what_nobody_has_seen_can_be_finished_too() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let id = bus.send(draft("x")).expect("sent").id;
    assert_eq!(bus.ack(&me(), id.as_str()).expect("there").1, Acked::Now);
    assert_eq!(home.counts(), [0, 0, 0, 1, 0]);
}

#[test]
fn a_shortened_id_is_enough_where_it_is_one() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    for id in ["alpha-1", "alpha-2", "beta", "beta-long"] {
        let mut draft = draft(id);
        draft.id = Some(id.parse().expect("valid"));
        bus.send(draft).expect("sent");
    }
    assert!(matches!(bus.ack(&me(), "alpha"), Err(Error::Ambiguous { count: 2, .. })));
    assert_eq!(bus.ack(&me(), "beta").expect("an exact id wins").0.as_str(), "beta");
    assert_eq!(bus.ack(&me(), "beta-l").expect("one").0.as_str(), "beta-long");
    assert!(matches!(bus.ack(&me(), "gamma"), Err(Error::NoEnvelope { .. })));
    assert!(matches!(bus.ack(&me(), ""), Err(Error::NoEnvelope { .. })));
}

#[test]
fn what_a_dead_reader_held_can_be_finished() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let id = bus.send(draft("x")).expect("sent").id;
    let file = home.names(State::Written).remove(0);
    let own = process::me();
    let dead = ProcessId { start_time: own.start_time + 1, ..own };
    let name = Name::parse(&file).expect("a name").to(Stage::Claimed(dead));
    home.forge((State::Written, &file), (State::Claimed, &name.to_string()));
    assert_eq!(bus.ack(&me(), id.as_str()).expect("there").1, Acked::Now);
    assert_eq!(home.counts(), [0, 0, 0, 1, 0]);
}

#[test]
fn an_ack_that_overtakes_the_reader_waits_for_its_record() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let id = bus.send(draft("x")).expect("sent").id;
    std::thread::scope(|scope| {
        let mut acking = None;
        bus.drain(&me(), 1, OUTSIDE, |_| {
            // The text is out: the agent acks at once, before its reader has recorded anything.
            acking = Some(scope.spawn(|| home.bus(&Nobody).ack(&me(), id.as_str())));
            Ok(())
        })
        .expect("drained");
        let acked = acking.expect("surfaced").join().expect("no panic");
        assert_eq!(acked.expect("recorded by now").1, Acked::Now);
    });
    assert_eq!(home.counts(), [0, 0, 0, 1, 0]);
}

#[test]
fn what_a_live_reader_keeps_is_busy_and_stays_its_own() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let id = bus.send(draft("x")).expect("sent").id;
    let claim = bus.claim(&me(), 1, OUTSIDE).expect("claimed").claims.remove(0);
    assert!(matches!(bus.ack(&me(), id.as_str()), Err(Error::Held { .. })));
    let asked = netsky_disk::clock::boot();
    assert!(matches!(bus.ack_at_once(&me(), id.as_str()), Err(Error::Held { .. })));
    assert!(netsky_disk::clock::boot() - asked < std::time::Duration::from_secs(2), "it is not waited for");
    bus.surface(claim, OUTSIDE, |_| Put::Taken).expect("still ours");
    assert_eq!(bus.ack(&me(), id.as_str()).expect("there").1, Acked::Now);
}

#[test]
fn a_late_ack_of_a_dead_letter_brings_it_back_to_life_but_damage_stays() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let id = bus.send(draft("x")).expect("sent").id;
    for _ in 0..5 {
        bus.drain(&me(), 1, OUTSIDE, |_| Err(std::io::Error::other("gone"))).expect_err("failed");
    }
    assert_eq!(home.counts(), [0, 0, 0, 0, 1]);
    assert_eq!(bus.ack(&me(), id.as_str()).expect("there").1, Acked::Now);
    assert_eq!(home.counts(), [0, 0, 0, 1, 0]);
    assert_eq!(
        std::fs::read_dir(home.folder(State::Poisoned)).expect("there").count(),
        0,
        "no reason without a letter"
    );

    std::fs::write(home.folder(State::Poisoned).join("00000000000000000042-bad.json"), "{").expect("written");
    assert!(matches!(bus.ack(&me(), "bad"), Err(Error::Damaged { .. })));
}

#[test]
fn fm_ack_corrupt_what_waits_and_is_no_message_goes_aside_and_what_was_taken_is_finished() {
    let home = Home::new();
    let memory = Memory::default();
    let bus = home.bus(&memory);
    bus.create(&me()).expect("made");
    let put = |state, file: &str| std::fs::write(home.folder(state).join(file), "{").expect("written");
    put(State::Written, "00000000000000000042-torn.json");
    put(State::Delivered, "00000000000000000043-read.1.g1.json");
    let torn = bus.ack(&me(), "torn");
    assert!(matches!(&torn, Err(Error::Quarantined { .. })), "{torn:?}");
    assert_eq!(home.names(State::Poisoned), ["00000000000000000042-torn.json"]);
    assert!(home.reason("00000000000000000042-torn.json").contains("not an envelope"));
    assert_eq!(*memory.0.borrow(), ["poisoned 1"], "so that its page is made");
    // It was before its agent: what became of its bytes since then is no matter.
    assert_eq!(bus.ack(&me(), "read").expect("there").1, Acked::Now);
    assert_eq!(home.counts(), [0, 0, 0, 1, 1]);
}
