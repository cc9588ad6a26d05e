//! `forward`: one copy at the target, and the original finished only then.

use netsky_bus::{Bus, Draft, Error};
use netsky_disk::fs::Dir;
use netsky_disk::lock::{Hold, Seized};
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, EnvelopeId, Generation, Sender};
use netsky_model::life::State;
use netsky_model::provenance::{MAX_HOPS, Trust};
use netsky_model::quota::Limits;
use netsky_model::witness::{Nobody, Transition, Witness};

use crate::home::{Home, Memory, OUTSIDE, agent, draft, drain};

fn home_with_a_target() -> (Home, AgentId) {
    let home = Home::new();
    let target = agent("agent2");
    home.bus(&Nobody).create(&target).expect("made");
    (home, target)
}

fn by() -> Sender {
    AgentId::root().into()
}

fn waiting(bus: &Bus<'_>, agent: &AgentId) -> Vec<Envelope> {
    let entries = bus.list(agent, Some(State::Written)).expect("listed");
    entries.into_iter().filter_map(|entry| entry.envelope).collect()
}

const NEWER: &str = r#"{"v":2,"from":"a","text":"t","ts":"2026-04-19T17:22:57Z"}"#;

#[test]
fn fm_forward_what_waits_and_what_was_delivered_goes_on_once() {
    let (home, target) = home_with_a_target();
    let bus = home.bus(&Nobody);
    for delivered in [false, true] {
        let mut told = draft("please look");
        told.kind = Some("brief".to_owned());
        told.thread = Some("t-1".to_owned());
        let id = bus.send(told).expect("sent").id;
        if delivered {
            bus.drain(&AgentId::root(), 9, Generation(3), |_| Ok(())).expect("drained");
        }
        let first = bus.forward(&AgentId::root(), id.as_str(), &target, &by()).expect("forwarded");
        assert!(!first.already);
        let again = bus.forward(&AgentId::root(), id.as_str(), &target, &by()).expect("known");
        assert_eq!((again.already, &again.copy), (true, &first.copy));
        let copies = waiting(&bus, &target);
        let [copy] = &copies[..] else { panic!("{copies:?}") };
        assert_eq!((copy.id.as_ref(), copy.to.as_ref()), (Some(&first.copy), Some(&target)));
        assert_eq!(
            (copy.text.as_str(), copy.kind.as_deref(), copy.thread.as_deref()),
            ("please look", Some("brief"), Some("t-1"))
        );
        assert_eq!((copy.from.as_str(), copy.hops), ("agent0", Some(1)));
        assert_eq!(copy.origin.as_ref().map(Sender::as_str), Some("agent1"));
        bus.drain(&target, 9, OUTSIDE, |_| Ok(())).expect("drained");
    }
    assert_eq!(home.counts(), [0, 0, 0, 0, 0]);
    assert_eq!(home.names(State::Forwarded).len(), 2);
    assert!(home.names(State::Forwarded)[1].ends_with(".1.g3.json"));
}

/// Acks the original at the moment its copy is durable.
struct Hasty<'a>(&'a Home, EnvelopeId);

impl Witness for Hasty<'_> {
    fn saw(&self, seen: &Transition) {
        if seen.agent == agent("agent2") && seen.to == State::Written {
            self.0.bus(&Nobody).ack(&AgentId::root(), self.1.as_str()).expect("acked");
        }
    }
}

#[test]
fn fm_forward_what_is_acked_while_its_copy_goes_out_was_forwarded() {
    let (home, target) = home_with_a_target();
    let bus = home.bus(&Nobody);
    let id = bus.send(draft("x")).expect("sent").id;
    bus.drain(&AgentId::root(), 9, OUTSIDE, |_| Ok(())).expect("drained");
    let hasty = Hasty(&home, id.clone());
    let gone = home.bus(&hasty).forward(&AgentId::root(), id.as_str(), &target, &by()).expect("it went out");
    assert_eq!(waiting(&bus, &target)[0].id, Some(gone.copy));
    assert_eq!(home.counts(), [0, 0, 0, 1, 0]);
    // What is finished here and never went out is refused.
    let id = bus.send(draft("y")).expect("sent").id;
    bus.ack(&AgentId::root(), id.as_str()).expect("acked");
    let refused = bus.forward(&AgentId::root(), id.as_str(), &target, &by());
    assert!(matches!(refused, Err(Error::Illegal(_))), "{refused:?}");
}

#[test]
fn fm_forward_of_a_copy_of_what_was_forwarded_leaves_it_with_the_dead_letters() {
    let (home, target) = home_with_a_target();
    let bus = home.bus(&Nobody);
    let id = bus.send(draft("x")).expect("sent").id;
    bus.drain(&AgentId::root(), 9, OUTSIDE, |_| Ok(())).expect("drained");
    let file = home.names(State::Delivered).remove(0);
    let bytes =
        std::fs::read(home.layout.folder(&AgentId::root(), State::Delivered).join(&file)).expect("reads");
    std::fs::write(home.layout.folder(&AgentId::root(), State::Forwarded).join(&file), bytes)
        .expect("a copy");
    bus.forward(&AgentId::root(), id.as_str(), &target, &by()).expect("forwarded");
    assert_eq!((home.names(State::Delivered).len(), home.names(State::Forwarded).len()), (0, 1));
    assert_eq!((waiting(&bus, &target).len(), home.counts()[4]), (1, 1));
}

#[test]
fn a3_forwards_lower_trust_and_end_after_their_hops() {
    let (home, target) = home_with_a_target();
    let bus = home.bus(&Nobody);
    let mut told = draft("from the owner");
    told.from = Sender::owner();
    let mut id = bus.send(told).expect("sent").id;
    let (mut here, mut there) = (AgentId::root(), target);
    for hop in 1..=MAX_HOPS {
        let by = here.clone().into();
        id = bus.forward(&here, id.as_str(), &there, &by).expect("near enough").copy;
        let copy = waiting(&bus, &there).remove(0);
        assert_eq!(copy.hops, Some(hop));
        assert_eq!(netsky_model::provenance::Provenance::of(&copy).trust, Trust::Agent, "never the owner's");
        std::mem::swap(&mut here, &mut there);
    }
    let by = here.clone().into();
    let far = bus.forward(&here, id.as_str(), &there, &by);
    assert!(matches!(far, Err(Error::TooFar(_))), "{far:?}");
    assert_eq!(waiting(&bus, &here).len(), 1, "it stays, with its attempt: {:?}", waiting(&bus, &here));
}

#[test]
fn what_is_held_finished_or_for_nobody_is_not_forwarded() {
    let (home, target) = home_with_a_target();
    let bus = home.bus(&Nobody);
    let me = AgentId::root();
    let id = bus.send(draft("x")).expect("sent").id;
    let nobody = bus.forward(&me, id.as_str(), &agent("agent77"), &by());
    assert!(matches!(nobody, Err(Error::UnknownTarget(_))));
    let claim = bus.claim(&me, 1, OUTSIDE).expect("claimed").claims.remove(0);
    assert!(matches!(bus.forward(&me, id.as_str(), &target, &by()), Err(Error::Held { .. })));
    bus.put_back(claim).expect("back");
    assert_eq!(drain(&bus), [("x".to_owned(), 1)]);
    bus.ack(&me, id.as_str()).expect("acked");
    assert!(matches!(bus.forward(&me, id.as_str(), &target, &by()), Err(Error::Illegal(_))));
    assert!(waiting(&bus, &target).is_empty());
}

/// Limits under which an inbox holds one message of each sender.
fn one_each() -> Limits {
    Limits { inbox_envelopes: 4, share_percent: 25, ..Limits::default() }
}

/// `a` and `b` of one sender wait, and `a` is forwarded by `forward`, which refuses it. It stays where it is all the while:
/// a consumer that missed it there for a moment would show `b` before it.
fn stays_in_the_inbox(path: &str, forward: impl FnOnce(&Home, &Bus<'_>) -> Error) -> Error {
    let (home, _) = home_with_a_target();
    let memory = Memory::default();
    let bus = home.bus(&memory).with_limits(one_each());
    home.bus(&Nobody).create(&AgentId::root()).expect("made");
    for (at, id) in [(42, "a"), (43, "b")] {
        let text = format!(r#"{{"v":1,"from":"agent1","text":"{id}","ts":"2026-04-19T17:22:57Z"{path}}}"#);
        put(&home, State::Written, &format!("{at:020}-{id}.json"), &text);
    }
    let refused = forward(&home, &bus);
    assert!(memory.0.borrow().iter().all(|moved| !moved.starts_with("claimed")), "{:?}", memory.0);
    assert_eq!(drain(&bus), [("a".to_owned(), 1), ("b".to_owned(), 1)], "{refused}");
    refused
}

fn forward_a(bus: &Bus<'_>) -> Error {
    bus.forward(&AgentId::root(), "a", &agent("agent2"), &by()).expect_err("refused")
}

#[test]
fn t2_fm_forward_what_another_process_has_in_its_hands_never_leaves_the_inbox() {
    let refused = stays_in_the_inbox("", |home, bus| {
        let inbox = Dir::open(home.folder(State::Written)).expect("there");
        let seized = Hold::take(&inbox, &home.names(State::Written)[0]).expect("it opens");
        assert!(matches!(seized, Seized::Held(_)), "{seized:?}");
        forward_a(bus)
    });
    assert!(matches!(refused, Error::Busy { .. }), "{refused:?}");
}

#[test]
fn a24_fm_forward_what_its_target_has_no_room_for_never_leaves_the_inbox() {
    let refused = stays_in_the_inbox("", |_, bus| {
        bus.send(Draft { from: by(), to: agent("agent2"), ..draft("x") }).expect("room for one");
        forward_a(bus)
    });
    assert!(matches!(refused, Error::Full { .. }), "{refused:?}");
}

#[test]
fn a3_fm_forward_what_went_through_too_many_hands_never_leaves_the_inbox() {
    let path = format!(r#","origin":"agent3","hops":{MAX_HOPS}"#);
    let refused = stays_in_the_inbox(&path, |_, bus| forward_a(bus));
    assert!(matches!(refused, Error::TooFar(_)), "{refused:?}");
}

#[test]
fn d1_a_forward_that_died_before_it_finished_the_original_places_no_second_copy() {
    let (home, target) = home_with_a_target();
    let bus = home.bus(&Nobody);
    let me = AgentId::root();
    let id = bus.send(draft("x")).expect("sent").id;
    bus.forward(&me, id.as_str(), &target, &by()).expect("forwarded");
    // As it was before the last step.
    let done = home.names(State::Forwarded).remove(0);
    let before = done.replace(".1.g0.json", ".json");
    home.forge((State::Forwarded, &done), (State::Written, &before));
    // Its copy has its room already.
    let full = home.bus(&Nobody).with_limits(one_each());
    let again = full.forward(&me, id.as_str(), &target, &by()).expect("forwarded");
    assert!(!again.already);
    assert_eq!(waiting(&bus, &target).len(), 1);
    assert_eq!(home.names(State::Forwarded), [done]);
}

#[test]
fn eight_who_forward_the_same_envelope_place_one_copy() {
    let (home, target) = home_with_a_target();
    let id = home.bus(&Nobody).send(draft("x")).expect("sent").id;
    let done: usize = std::thread::scope(|scope| {
        let forward = || home.bus(&Nobody).forward(&AgentId::root(), id.as_str(), &target, &by());
        let racers: Vec<_> = (0..8).map(|_| scope.spawn(forward)).collect();
        let ended = racers.into_iter().map(|racer| racer.join().expect("no panic"));
        // Who meets it in another's hands is refused; that is no harm.
        ended.filter(|ended| ended.as_ref().is_ok_and(|forwarded| !forwarded.already)).count()
    });
    assert_eq!(done, 1);
    assert_eq!(waiting(&home.bus(&Nobody), &target).len(), 1);
    assert_eq!(home.names(State::Forwarded).len(), 1);
}

/// Puts a file of these bytes under a name of the bus in a folder of agent0.
fn put(home: &Home, state: State, file: &str, bytes: &str) {
    std::fs::write(home.folder(state).join(file), bytes).expect("written");
}

#[test]
fn fm_forward_corrupt_what_waits_goes_aside_and_what_was_taken_stays() {
    let (home, target) = home_with_a_target();
    let bus = home.bus(&Nobody);
    bus.create(&AgentId::root()).expect("made");
    put(&home, State::Written, "00000000000000000042-torn.json", "{");
    put(&home, State::Delivered, "00000000000000000043-read.1.g1.json", "{");
    let torn = bus.forward(&AgentId::root(), "torn", &target, &by());
    assert!(matches!(torn, Err(Error::Quarantined { .. })), "{torn:?}");
    assert_eq!(home.names(State::Poisoned), ["00000000000000000042-torn.json"]);
    assert!(home.reason("00000000000000000042-torn.json").contains("not an envelope"));
    let read = bus.forward(&AgentId::root(), "read", &target, &by());
    assert!(matches!(read, Err(Error::Damaged { state: State::Delivered, .. })), "{read:?}");
    assert_eq!(home.counts(), [0, 0, 1, 0, 1]);
    assert!(waiting(&bus, &target).is_empty());
}

#[test]
fn fm_forward_of_a_newer_format_is_refused_and_it_waits_on() {
    let (home, target) = home_with_a_target();
    let bus = home.bus(&Nobody);
    bus.create(&AgentId::root()).expect("made");
    put(&home, State::Written, "00000000000000000042-newer.json", NEWER);
    let newer = bus.forward(&AgentId::root(), "newer", &target, &by());
    assert!(matches!(newer, Err(Error::Newer { state: State::Written, .. })), "{newer:?}");
    assert_eq!(home.counts(), [1, 0, 0, 0, 0]);
}
