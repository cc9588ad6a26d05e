//! `consume`: when it ends, and what it keeps meanwhile; what a drain passes by.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use netsky_bus::{Claim, Draft, Error, News, Owner, Put, Terms};
use netsky_disk::clock;
use netsky_disk::fs::Dir;
use netsky_disk::lock::{Hold, Seized};
use netsky_disk::wake::Stop;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;
use netsky_model::witness::{Nobody, Transition, Witness};
use rustix::process::{Signal, getpid, kill_process};

use crate::home::{Home, OUTSIDE, draft, drain};

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
    let put = |_: &Claim| {
        shown += 1;
        if shown == 1 {
            // Whoever reads it again finds what is no envelope, and puts it aside.
            std::fs::write(&waits, "{").expect("ours");
            home.bus(&Nobody).send(draft("then")).expect("sent");
        }
        Put::Taken
    };
    let terms = Terms { generation: Generation(1), max: Some(2), replace: false, acks: true };
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
    let put = |claim: &Claim| {
        if claim.attempt() == 3 {
            kill_process(getpid(), Signal::HUP).expect("ourselves");
            // As whoever watched the reader would have.
            while !stop.came() {}
            asked = Some(clock::boot());
        }
        Put::Refused("exited 1".to_owned())
    };
    let terms = Terms { generation: OUTSIDE, max: None, replace: false, acks: true };
    bus.consume(&AgentId::root(), &terms, &stop, |_| {}, put).expect("it ends");
    let waited = clock::boot() - asked.expect("the third attempt came");
    assert!(waited < Duration::from_secs(4), "it went on for {waited:?}, which is the whole pause");
    assert_eq!(home.counts(), [1, 0, 0, 0, 0]);
}

/// Reaches for each claim of the first few messages when it is made, as who releases it and then stops.
pub(crate) struct Releaser<'a> {
    home: &'a Home,
    left: Cell<usize>,
    pub(crate) has: RefCell<Vec<Hold>>,
}

impl<'a> Releaser<'a> {
    pub(crate) fn of(home: &'a Home, first: usize) -> Releaser<'a> {
        Releaser { home, left: Cell::new(first), has: RefCell::default() }
    }
}

impl Witness for Releaser<'_> {
    fn saw(&self, seen: &Transition) {
        if seen.to == State::Claimed && self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
            let claimed = Dir::open(self.home.folder(State::Claimed)).expect("there");
            for file in self.home.names(State::Claimed) {
                if let Seized::Held(hold) = Hold::take(&claimed, &file).expect("it opens") {
                    self.has.borrow_mut().push(hold);
                }
            }
        }
    }
}

/// Two of one sender, the first of which a releaser has, and one of another.
fn sent_by_two(bus: &netsky_bus::Bus<'_>) {
    for (from, text) in [("agent1", "a"), ("agent1", "b"), ("agent2", "c")] {
        bus.send(Draft { from: from.parse().expect("a sender"), ..draft(text) }).expect("sent");
    }
}

#[test]
fn t2_a_claim_whose_releaser_stops_before_its_move_is_shown_once_that_ends_and_before_the_later_ones() {
    let home = Home::new();
    let releaser = Releaser::of(&home, 1);
    let bus = home.bus(&releaser);
    sent_by_two(&bus);
    let (mut shown, mut kept) = (Vec::new(), Vec::new());
    let put = |claim: &Claim| {
        releaser.has.borrow_mut().clear();
        if shown.is_empty() {
            // Who forgot one of the others takes this one instead, and ends.
            bus.send(Draft { from: "agent2".parse().expect("a sender"), ..draft("d") }).expect("sent");
        }
        shown.push((claim.envelope().text.clone(), claim.attempt()));
        Put::Taken
    };
    let tell = |news: News<'_>| kept.push(format!("{news:?}"));
    let terms = Terms { generation: OUTSIDE, max: Some(3), replace: false, acks: true };
    bus.consume(&AgentId::root(), &terms, &Stop::hear().expect("heard"), tell, put).expect("it ends");
    let of = |text: &str| (text.to_owned(), 1);
    assert_eq!(shown, [of("c"), of("a"), of("b")], "no other sender waits, and its own keeps its order");
    assert!(matches!(&kept[..], [one] if one.starts_with("Kept")), "{kept:?}");
    assert_eq!(home.counts(), [1, 0, 3, 0, 0]);
}

#[test]
fn t2_a_drain_passes_by_what_is_in_other_hands_and_what_its_sender_sent_after_it() {
    let home = Home::new();
    let releaser = Releaser::of(&home, 1);
    let bus = home.bus(&releaser);
    sent_by_two(&bus);
    let mut shown = Vec::new();
    let drained = bus.drain(&AgentId::root(), 9, OUTSIDE, |claim| {
        shown.push(claim.envelope().text.clone());
        Ok(())
    });
    let busy = drained.expect("it drained").aside.busy;
    assert_eq!((shown, busy.count()), (vec!["c".to_owned()], 1));
    assert_eq!(home.counts(), [2, 0, 1, 0, 0]);
    drop(releaser.has.take());
    assert_eq!(drain(&bus), [("a".to_owned(), 1), ("b".to_owned(), 1)], "nobody has seen them");
}

/// Releases the first message as soon as it is claimed.
struct Taker<'a>(&'a Home, Cell<bool>);

impl Witness for Taker<'_> {
    fn saw(&self, seen: &Transition) {
        if seen.to == State::Claimed && !self.1.replace(true) {
            let bus = self.0.bus(&Nobody);
            bus.take_back(&seen.agent, seen.id.as_str(), Owner::Spared).expect("nobody shows it yet");
        }
    }
}

#[test]
fn t2_a_drain_goes_on_past_what_was_taken_from_it_and_tells_it() {
    let home = Home::new();
    let taker = Taker(&home, Cell::new(false));
    let bus = home.bus(&taker);
    sent_by_two(&bus);
    let mut shown = Vec::new();
    let put = |claim: &Claim| {
        shown.push(claim.envelope().text.clone());
        Ok(())
    };
    let aside = bus.drain(&AgentId::root(), 9, OUTSIDE, put).expect("it drained").aside;
    assert_eq!((shown, aside.busy.count(), aside.lost.count()), (vec!["c".to_owned()], 0, 1));
    assert_eq!(drain(&bus), [("a".to_owned(), 2), ("b".to_owned(), 1)], "in the order of their sender");
}

#[test]
fn a12_a_drain_holds_no_claim_that_is_in_other_hands() {
    let home = Home::new();
    let releaser = Releaser::of(&home, 2);
    let bus = home.bus(&releaser);
    for from in ["agent1", "agent2", "agent3"] {
        bus.send(Draft { from: from.parse().expect("a sender"), ..draft(from) }).expect("sent");
    }
    let mut held = 0;
    bus.drain(&AgentId::root(), 9, OUTSIDE, |_| {
        held = home.names(State::Claimed).len();
        Ok(())
    })
    .expect("it drained");
    assert_eq!((held, home.counts()), (1, [2, 0, 1, 0, 0]), "only what is shown");
}

#[test]
fn t2_a_claim_that_is_in_other_hands_to_the_end_waits_as_it_did() {
    let home = Home::new();
    let releaser = Releaser::of(&home, 1);
    let bus = home.bus(&releaser);
    sent_by_two(&bus);
    let terms = Terms { generation: OUTSIDE, max: Some(1), replace: false, acks: true };
    let stop = Stop::hear().expect("heard");
    bus.consume(&AgentId::root(), &terms, &stop, |_| {}, |_| Put::Taken).expect("it ends");
    assert_eq!(home.counts(), [2, 0, 1, 0, 0]);
    drop(releaser.has.take());
    assert_eq!(drain(&bus), [("a".to_owned(), 1), ("b".to_owned(), 1)], "nobody has seen them");
}

#[test]
fn t2_a_claim_that_is_in_other_hands_when_the_reader_breaks_waits_as_it_did() {
    let home = Home::new();
    let releaser = Releaser::of(&home, 1);
    let bus = home.bus(&releaser);
    for from in ["agent1", "agent2"] {
        bus.send(Draft { from: from.parse().expect("a sender"), ..draft(from) }).expect("sent");
    }
    let terms = Terms { generation: OUTSIDE, max: None, replace: false, acks: true };
    let stop = Stop::hear().expect("heard");
    let put = |_: &Claim| Put::Broken(std::io::Error::other("gone"));
    let broken = bus.consume(&AgentId::root(), &terms, &stop, |_| {}, put);
    assert!(matches!(broken, Err(Error::Surface { .. })), "{broken:?}");
    assert_eq!(home.counts(), [2, 0, 0, 0, 0]);
    drop(releaser.has.take());
    assert_eq!(drain(&bus), [("agent1".to_owned(), 1), ("agent2".to_owned(), 2)], "one was never shown");
}
