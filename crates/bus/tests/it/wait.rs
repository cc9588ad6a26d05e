//! `wait`: wakes for a send, for a dead owner's claim, and by its own limit.

use std::time::Duration;

use netsky_bus::Error;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;
use netsky_model::name::{Name, Stage};
use netsky_model::process::ProcessId;
use netsky_model::witness::Nobody;

use crate::home::{Home, OUTSIDE, agent, draft};

const LONG: Option<Duration> = Some(Duration::from_secs(90));

#[test]
fn a_send_wakes_who_waits() {
    let home = Home::new();
    home.bus(&Nobody).create(&AgentId::root()).expect("made");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| home.bus(&Nobody).wait(&AgentId::root(), OUTSIDE, LONG));
        home.bus(&Nobody).send(draft("x")).expect("sent");
        assert!(waiting.join().expect("no panic").expect("waited"));
    });
}

#[test]
fn who_waits_for_its_own_mail_is_known_to_as_long_as_it_does() {
    let home = Home::new();
    let (bus, root) = (home.bus(&Nobody), AgentId::root());
    bus.create(&root).expect("made");
    let is_awaited = |by| bus.is_awaited(&root, Generation(by)).expect("known");
    assert!(!is_awaited(2));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| home.bus(&Nobody).wait(&root, Generation(2), LONG));
        let began = std::time::Instant::now();
        while !is_awaited(2) {
            assert!(began.elapsed() < Duration::from_secs(60), "it is not known to wait");
            std::thread::yield_now();
        }
        assert!(!is_awaited(1), "of another incarnation it says nothing");
        bus.send(draft("x")).expect("sent");
        assert!(waiting.join().expect("no panic").expect("waited"));
    });
    assert!(!is_awaited(2), "it has come");
    assert!(bus.wait(&root, OUTSIDE, LONG).expect("waited"));
    assert!(!is_awaited(OUTSIDE.0), "who is no incarnation of it waits for himself");
}

#[test]
fn nothing_within_the_limit_is_false_and_no_channel_is_an_error() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    assert!(!bus.wait(&AgentId::root(), OUTSIDE, Some(Duration::from_millis(20))).expect("waited"));
    assert!(matches!(bus.wait(&agent("agent77"), OUTSIDE, LONG), Err(Error::NoChannel(_))));
}

#[test]
fn what_a_dead_owner_held_wakes_too() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.send(draft("x")).expect("sent");
    let file = home.names(State::Written).remove(0);
    let own = netsky_disk::process::me();
    let dead = ProcessId { start_time: own.start_time + 1, ..own };
    let name = Name::parse(&file).expect("a name").to(Stage::Claimed(dead));
    home.forge((State::Written, &file), (State::Claimed, &name.to_string()));
    assert!(bus.wait(&AgentId::root(), OUTSIDE, LONG).expect("waited"));
}

#[test]
fn t26_what_only_a_newer_program_can_take_does_not_end_a_wait() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.create(&AgentId::root()).expect("made");
    let newer = br#"{"v":2,"from":"a","text":"t","ts":"2026-04-19T17:22:57Z"}"#;
    std::fs::write(home.folder(State::Written).join("00000000000000000042-x.json"), newer).expect("written");
    let short = Some(Duration::from_millis(20));
    assert!(
        !bus.wait(&AgentId::root(), OUTSIDE, short).expect("waited"),
        "a loop of wait and drain would burn a core"
    );
    let drained = bus.drain(&AgentId::root(), 9, crate::home::OUTSIDE, |_| Ok(())).expect("drained");
    assert_eq!(drained.aside.newer[..], ["00000000000000000042-x.json"]);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| home.bus(&Nobody).wait(&AgentId::root(), OUTSIDE, LONG));
        home.bus(&Nobody).send(draft("x")).expect("sent");
        assert!(waiting.join().expect("no panic").expect("waited"), "a neighbour does");
    });
}

#[test]
fn q_what_will_be_put_aside_ends_a_wait() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.create(&AgentId::root()).expect("made");
    for (name, bytes) in [("junk", "{}"), ("00000000000000000042-x.json", r#"{"v":9}"#)] {
        std::fs::write(home.folder(State::Written).join(name), bytes).expect("written");
        assert!(bus.wait(&AgentId::root(), OUTSIDE, LONG).expect("waited"), "{name}");
        let drained = bus.drain(&AgentId::root(), 9, crate::home::OUTSIDE, |_| Ok(())).expect("drained");
        assert_eq!((drained.aside.quarantined.len(), drained.aside.newer.len()), (1, 0), "{name}");
    }
}
