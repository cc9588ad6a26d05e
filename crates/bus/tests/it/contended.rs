//! L6 and L8: sixteen consumers and eight senders, each a process of its own, on one inbox in memory.
//!
//! The processes are this test program again, told by their environment what to be; each writes down what it saw, and
//! the history checker reads all of it. `NETSKY_ENVELOPES` asks for more than `./check` wants.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use netsky_bus::{Bus, Draft};
use netsky_disk::clock;
use netsky_disk::layout::Layout;
use netsky_model::id::AgentId;
use netsky_model::witness::Nobody;
use netsky_sim::history::{self, Event, Message, What};

use crate::home::{Home, OUTSIDE, agent};

const SENDERS: u32 = 8;
const CONSUMERS: u32 = 16;

/// Envelopes of one run of the test.
const ENVELOPES: u32 = 200_000;

/// What one drain takes at most: small, so that many of them meet.
const BATCH: usize = 32;

/// A sender waits while more than this is waiting: the test is about racing, not about a long queue.
const BACKLOG: usize = 500;

/// `sender <n>` or `consumer <n>`.
const ROLE: &str = "NETSKY_TEST_ROLE";
const HOME: &str = "NETSKY_TEST_HOME";
const EACH: &str = "NETSKY_TEST_EACH";

/// What one process saw; written out when it is over.
struct Notes {
    process: u32,
    text: String,
    file: PathBuf,
}

impl Notes {
    fn note(&mut self, what: What) {
        let at = u64::try_from(clock::boot().as_nanos()).expect("within centuries of the boot");
        writeln!(self.text, "{}", Event { at, process: self.process, what }).expect("a string grows");
    }

    fn write_out(self) {
        let mut file = std::fs::File::create(&self.file).expect("a file of notes");
        file.write_all(self.text.as_bytes()).expect("written");
    }
}

fn waiting(layout: &Layout) -> usize {
    let inbox = layout.folder(&AgentId::root(), netsky_model::life::State::Written);
    std::fs::read_dir(inbox).expect("an inbox").count()
}

fn send(layout: &Layout, sender: u32, each: u32, notes: &mut Notes) {
    let bus = Bus::open(layout, &Nobody);
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
        notes.note(What::DrainBegan);
        let mut count = 0;
        bus.drain(&AgentId::root(), BATCH, OUTSIDE, |claim| {
            let (sender, number) = claim.envelope().text.split_once(' ').expect("two numbers");
            let message =
                Message { sender: sender.parse().expect("one"), number: number.parse().expect("one") };
            notes.note(What::Surfaced(message, claim.attempt()));
            count += 1;
            Ok(())
        })
        .expect("a drain that works");
        notes.note(What::DrainEnded);
        if last && count == 0 {
            return;
        }
    }
}

/// Not a test of its own: what [`l6_l8_sixteen_consumers_claim_nothing_twice_and_lose_nothing`] starts.
#[test]
fn a_process_of_the_race() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let place = PathBuf::from(std::env::var_os(HOME).expect("the home of the race"));
    let each = std::env::var(EACH).expect("how many").parse().expect("a number");
    let (role, number) = role.split_once(' ').expect("a role and a number");
    let number: u32 = number.parse().expect("a number");
    let layout = Layout::new(place.join("home"));
    let process = if role == "sender" { number } else { SENDERS + number };
    let mut notes = Notes { process, text: String::new(), file: place.join(format!("notes-{process}")) };
    match role {
        "sender" => send(&layout, number, each, &mut notes),
        _ => consume(&layout, &place.join("done"), &mut notes),
    }
    notes.write_out();
}

/// A process of the race; ended when the test is left early.
struct Racer(Child);

impl Racer {
    fn start(place: &Path, role: &str, number: u32, each: u32) -> Racer {
        let this = std::env::current_exe().expect("this program");
        let mut command = Command::new(this);
        command.args(["--exact", "contended::a_process_of_the_race", "--test-threads", "1"]);
        command.env(ROLE, format!("{role} {number}")).env(HOME, place).env(EACH, each.to_string());
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
        Racer(quiet.spawn().expect("this program starts"))
    }

    fn ends_well(mut self) {
        let status = self.0.wait().expect("a child of ours");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Racer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn all_notes(place: &Path) -> Vec<Event> {
    let files = (0..SENDERS + CONSUMERS).map(|process| place.join(format!("notes-{process}")));
    let texts = files.map(|file| std::fs::read_to_string(file).expect("notes of each"));
    texts
        .flat_map(|text| text.lines().map(|line| line.parse().expect("a note")).collect::<Vec<_>>())
        .collect()
}

#[test]
fn l6_l8_sixteen_consumers_claim_nothing_twice_and_lose_nothing() {
    let asked = std::env::var("NETSKY_ENVELOPES").map(|text| text.parse::<u32>().expect("a number"));
    let each = asked.unwrap_or(ENVELOPES) / SENDERS;
    let home = Home::new();
    home.bus(&Nobody).create(&AgentId::root()).expect("a channel");
    let place = home.layout.home().parent().expect("the folder of the test").to_owned();
    let began = Instant::now();
    let consumers: Vec<_> =
        (0..CONSUMERS).map(|number| Racer::start(&place, "consumer", number, each)).collect();
    let senders: Vec<_> = (0..SENDERS).map(|number| Racer::start(&place, "sender", number, each)).collect();
    senders.into_iter().for_each(Racer::ends_well);
    std::fs::write(place.join("done"), "").expect("written");
    consumers.into_iter().for_each(Racer::ends_well);
    let took = began.elapsed();
    let account = history::check(all_notes(&place), 0).unwrap_or_else(|broken| panic!("{broken}"));
    println!("contended: {account:?} by {CONSUMERS} consumers and {SENDERS} senders in {took:.1?}");
    let all = (each * SENDERS) as usize;
    assert_eq!((account.sent, account.surfaced, account.repeats), (all, all, 0));
    assert_eq!(home.counts(), [0, 0, all, 0, 0]);
}
