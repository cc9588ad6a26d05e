//! `consume`: when it ends.

use std::time::Duration;

use netsky_bus::{Put, Terms};
use netsky_disk::clock;
use netsky_disk::wake::Stop;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;
use netsky_model::witness::Nobody;
use rustix::process::{Signal, getpid, kill_process};

use crate::home::{Home, OUTSIDE, draft};

#[test]
fn what_waits_for_a_generation_to_come_is_read_once() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let mut early = draft("later");
    early.for_generation = Some(Generation(9));
    bus.send(early).expect("sent");
    let folder = home.layout.folder(&AgentId::root(), State::Written);
    let waits = folder.join(home.names(State::Written).remove(0));
    bus.send(draft("now")).expect("sent");
    let mut shown = 0;
    let put = |_: &netsky_bus::Claim| {
        shown += 1;
        if shown == 1 {
            // Whoever reads it again finds what is no envelope, and puts it aside.
            std::fs::write(&waits, "{").expect("ours");
            home.bus(&Nobody).send(draft("then")).expect("sent");
        }
        Put::Taken
    };
    let terms = Terms { generation: Generation(1), max: Some(2), replace: false };
    bus.consume(&AgentId::root(), &terms, &Stop::hear().expect("heard"), |_| {}, put).expect("it ends");
    assert_eq!(home.counts(), [1, 0, 2, 0, 0]);
}

#[test]
fn who_was_asked_to_end_while_its_reader_failed_waits_for_nothing() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.send(draft("x")).expect("sent");
    let stop = Stop::hear().expect("heard");
    let mut asked = None;
    let put = |claim: &netsky_bus::Claim| {
        if claim.attempt() == 3 {
            kill_process(getpid(), Signal::HUP).expect("ourselves");
            // As whoever watched the reader would have.
            while !stop.came() {}
            asked = Some(clock::boot());
        }
        Put::Refused("exited 1".to_owned())
    };
    let terms = Terms { generation: OUTSIDE, max: None, replace: false };
    bus.consume(&AgentId::root(), &terms, &stop, |_| {}, put).expect("it ends");
    let waited = clock::boot() - asked.expect("the third attempt came");
    assert!(waited < Duration::from_secs(4), "it went on for {waited:?}, which is the whole pause");
    assert_eq!(home.counts(), [1, 0, 0, 0, 0]);
}
