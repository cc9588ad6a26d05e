//! L6 and L8: sixteen consumers and eight senders, each a process of its own, on one inbox in memory.
//!
//! The processes are this test program again, told by their environment what to be; each writes down what it saw, and
//! the history checker reads all of it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use netsky_bus::{Bus, Draft};
use netsky_disk::layout::Layout;
use netsky_model::id::AgentId;
use netsky_model::quota::Limits;
use netsky_model::witness::Nobody;
use netsky_sim::campaign::Share;
use netsky_sim::history::{self, Message, What};

use crate::home::{Home, agent};
use crate::others::{HOME, Notes, Other, ROLE, all_notes, end_well};

const SENDERS: u32 = 8;
const CONSUMERS: u32 = 16;

/// Envelopes of one run of the test.
const ENVELOPES: u32 = 200_000;

/// What one drain takes at most: small, so that many of them meet.
const BATCH: usize = 32;

/// A sender waits while more than this is waiting: the test is about racing, not about a long queue.
const BACKLOG: usize = 500;

fn waiting(layout: &Layout) -> usize {
    let inbox = layout.folder(&AgentId::root(), netsky_model::life::State::Written);
    std::fs::read_dir(inbox).expect("an inbox").count()
}

fn send(layout: &Layout, sender: u32, each: u32, notes: &mut Notes) {
    // The test is about racing: no machine is too fast for it.
    let unpaced = Limits { burst: u64::from(each), ..Limits::default() };
    let bus = Bus::open(layout, &Nobody).with_limits(unpaced);
    for number in 1..=each {
        while number.is_multiple_of(32) && waiting(layout) > BACKLOG {
            std::thread::yield_now();
        }
        let message = Message { sender, number };
        notes.note(What::Invoked(message));
        let text = format!("{sender} {number}");
        let from = agent(&format!("agent{}", 10 + sender)).into();
        bus.send(Draft::new(from, AgentId::root(), text)).expect("sent");
        notes.note(What::Sent(message));
    }
}

/// Drains until the senders are done and nothing is left.
fn consume(layout: &Layout, done: &Path, notes: &mut Notes) {
    let bus = Bus::open(layout, &Nobody);
    loop {
        // Asked first: what was sent before the answer is seen by the drain after it.
        let last = done.exists();
        let count = notes.drain(&bus, BATCH);
        if last && count == 0 {
            return;
        }
    }
}

/// What each process of the race runs; its role is `sender` or `consumer`, its number, and how many a sender sends.
const PROCESS: &str = "contended::a_process_of_the_race";

/// Not a test of its own: what [`l6_l8_sixteen_consumers_claim_nothing_twice_and_lose_nothing`] starts.
#[test]
fn a_process_of_the_race() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let place = PathBuf::from(std::env::var_os(HOME).expect("the home of the race"));
    let words: Vec<&str> = role.split(' ').collect();
    let [number, each] = [1, 2].map(|at| words[at].parse::<u32>().expect("a number"));
    let layout = Layout::new(place.join("home"));
    let process = if words[0] == "sender" { number } else { SENDERS + number };
    let mut notes = Notes::new(process);
    match words[0] {
        "sender" => send(&layout, number, each, &mut notes),
        _ => consume(&layout, &place.join("done"), &mut notes),
    }
    notes.write_out(&place);
}

#[test]
fn l6_l8_sixteen_consumers_claim_nothing_twice_and_lose_nothing() {
    race();
}

/// A batch of `cargo xtask campaign contended-envelopes`.
#[test]
#[ignore = "a batch of a campaign, which says how much"]
fn campaign_a_share_of_the_contended_envelopes() {
    Share::asked().run(|_| {
        race();
        ENVELOPES.into()
    });
}

fn race() {
    let each = ENVELOPES / SENDERS;
    let home = Home::new();
    home.bus(&Nobody).create(&AgentId::root()).expect("a channel");
    let place = home.layout.home().parent().expect("the folder of the test").to_owned();
    let began = Instant::now();
    let start = |role: &str, count: u32| -> Vec<Other> {
        let role = |number| format!("{role} {number} {each}");
        (0..count).map(|number| Other::start(PROCESS, &place, &role(number), [])).collect()
    };
    let (consumers, senders) = (start("consumer", CONSUMERS), start("sender", SENDERS));
    end_well(senders);
    std::fs::write(place.join("done"), "").expect("written");
    end_well(consumers);
    let took = began.elapsed();
    let account =
        history::check(all_notes(&place, SENDERS + CONSUMERS), 0).unwrap_or_else(|broken| panic!("{broken}"));
    println!("contended: {account:?} by {CONSUMERS} consumers and {SENDERS} senders in {took:.1?}");
    let all = (each * SENDERS) as usize;
    assert_eq!((account.sent, account.surfaced, account.repeats), (all, all, 0));
    assert_eq!(home.counts(), [0, 0, all, 0, 0]);
}
