//! T5: names rise, whatever the wall clock does, and whatever becomes of the clock word across a reboot.
//!
//! Eight processes send; they are this test program again, told by their environment what to be. The seams of `disk`
//! shift their wall clock while they run and say which boot they are on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_bus::{Bus, Draft};
use netsky_disk::clock;
use netsky_disk::layout::Layout;
use netsky_model::hlc::Hlc;
use netsky_model::id::AgentId;
use netsky_model::life::State;
use netsky_model::name::Name;
use netsky_model::quota::Limits;
use netsky_model::witness::Nobody;
use netsky_sim::history::{self, Message, What};

use crate::home::{Home, OUTSIDE, agent};
use crate::others::{HOME, Notes, Other, ROLE, all_notes, end_well};

const SENDERS: u32 = 8;
const CONSUMERS: u32 = 3;
/// Plain sends of each, all to agent0.
const EACH: u32 = 1_150;
/// Sends along a chain through all senders: each is made by who has seen the one before.
const HOPS: u32 = 800;
/// Plain sends of each on either side of a reboot.
const A_HALF: u32 = 20;

/// What each process runs; its role is `sender` or `consumer`, its number, how many plain sends, how many hops in all.
const PROCESS: &str = "clocks::a_process_of_another_time";

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;
const YEAR: i64 = 365 * DAY;

fn ring(sender: u32) -> AgentId {
    agent(&format!("agent{}", 10 + sender % SENDERS))
}

/// Sends what is its own to agent0, and hands the chain on whenever it is here.
fn send(bus: &Bus<'_>, sender: u32, each: u32, hops: u32, notes: &mut Notes) {
    let me = ring(sender);
    let mut hops_left = hops / SENDERS;
    let mut number = 0;
    while number < each || hops_left > 0 {
        if number < each {
            number += 1;
            let message = Message { sender, number };
            notes.note(What::Invoked(message));
            bus.send(Draft::new(me.clone().into(), AgentId::root(), format!("{sender} {number}")))
                .expect("sent");
            notes.note(What::Sent(message));
        } else {
            bus.wait(&me, OUTSIDE, None).expect("waited");
        }
        let mut seen: Option<u32> = None;
        if hops_left > 0 {
            let see = |claim: &netsky_bus::Claim| {
                seen = Some(claim.envelope().text.parse().expect("a hop"));
                Ok(())
            };
            bus.drain(&me, 1, OUTSIDE, see).expect("a drain that works");
        }
        if let Some(hop) = seen {
            let next = Draft::new(me.clone().into(), ring(sender + 1), (hop + 1).to_string());
            bus.send(next).expect("sent");
            hops_left -= 1;
        }
    }
}

/// Drains agent0 until the senders are done and nothing is left.
fn consume(bus: &Bus<'_>, done: &Path, notes: &mut Notes) {
    loop {
        // Asked first: what was sent before the answer is seen by the drain after it.
        let last = done.exists();
        let count = notes.drain(bus, 32);
        if last && count == 0 {
            return;
        } else if count == 0 {
            bus.wait(&AgentId::root(), OUTSIDE, Some(Duration::from_millis(10))).expect("waited");
        }
    }
}

/// Not a test of its own: what the tests below start.
#[test]
fn a_process_of_another_time() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let place = PathBuf::from(std::env::var_os(HOME).expect("the home of the test"));
    let words: Vec<&str> = role.split(' ').collect();
    let [number, each, hops] = [1, 2, 3].map(|at| words[at].parse::<u32>().expect("a number"));
    let process = if words[0] == "sender" { number } else { SENDERS + number };
    let mut notes = Notes::new(process);
    let layout = Layout::new(place.join("home"));
    // However late the consumers are.
    let roomy = Limits { inbox_envelopes: 1 << 20, ..Limits::default() };
    let bus = Bus::open(&layout, &Nobody).with_limits(roomy);
    match words[0] {
        "sender" => send(&bus, number, each, hops, &mut notes),
        _ => consume(&bus, &place.join("done"), &mut notes),
    }
    notes.write_out(&place);
}

/// A home, and the wall clock and the boot of those that use it.
struct World {
    home: Home,
    place: PathBuf,
    boot: &'static str,
}

impl World {
    fn new() -> World {
        let home = Home::new();
        let place = home.layout.home().parent().expect("the folder of the test").to_owned();
        for agent in (0..SENDERS).map(ring).chain([AgentId::root()]) {
            home.bus(&Nobody).create(&agent).expect("a channel");
        }
        // Asked for while it was made: it is of the true time.
        let _ = std::fs::remove_file(home.layout.state().join("clock"));
        let world = World { home, place, boot: "0000000a" };
        world.step(0);
        world
    }

    /// Shifts the wall clock of everybody in this world, in one instant.
    fn step(&self, millis: i64) {
        std::fs::write(self.place.join("offset.new"), millis.to_string()).expect("written");
        std::fs::rename(self.place.join("offset.new"), self.place.join("offset")).expect("renamed");
    }

    fn start(&self, role: &str, number: u32, each: u32, hops: u32) -> Other {
        let role = format!("{role} {number} {each} {hops}");
        let offset = self.place.join("offset").to_str().expect("a plain path").to_owned();
        let time = [("NETSKY_WALL_OFFSET", offset), ("NETSKY_BOOT_ID", self.boot.to_owned())];
        Other::start(PROCESS, &self.place, &role, time)
    }

    fn senders(&self, senders: u32, each: u32, hops: u32) -> Vec<Other> {
        (0..senders).map(|number| self.start("sender", number, each, hops)).collect()
    }

    /// The names in a folder, each with the text of its file.
    fn files(&self, agent: &AgentId, state: State) -> Vec<(Hlc, String)> {
        let listed = self.home.bus(&Nobody).list(agent, Some(state)).expect("listed");
        let told = |entry: netsky_bus::Entry| Some((entry.name?.key.hlc, entry.envelope?.text));
        listed.into_iter().map(|entry| told(entry).expect("one of the bus")).collect()
    }

    fn clock(&self) -> PathBuf {
        self.home.layout.state().join("clock")
    }
}

fn now_ms() -> i64 {
    clock::wall().as_millisecond()
}

#[test]
fn must_show_t5_steps_of_the_wall_clock_during_10_000_sends_of_8_processes_reorder_nothing() {
    let world = World::new();
    let first = Draft::new(agent("agent1").into(), ring(1), "0");
    world.home.bus(&Nobody).send(first).expect("sent");
    let consumers: Vec<_> = (0..CONSUMERS).map(|number| world.start("consumer", number, 0, 0)).collect();
    let mut senders = world.senders(SENDERS, EACH, HOPS);
    // Back and forth by more and more: minutes, hours, days.
    let mut steps: i64 = 0;
    while senders.iter_mut().any(Other::is_running) {
        steps += 1;
        let by = steps * steps * MINUTE;
        world.step(if steps % 2 == 0 { by } else { -by });
        clock::pause(Duration::from_millis(2));
    }
    end_well(senders);
    std::fs::write(world.place.join("done"), "").expect("written");
    end_well(consumers);
    let account = history::check(all_notes(&world.place, SENDERS + CONSUMERS), 0)
        .unwrap_or_else(|broken| panic!("{broken}"));
    let plain = (EACH * SENDERS) as usize;
    assert_eq!((account.sent, account.surfaced, account.repeats), (plain, plain, 0));

    // The chain: whoever sent had seen the hop before, so its name is above that one's.
    let chain = |state| (0..SENDERS).flat_map(|n| world.files(&ring(n), state)).collect::<Vec<_>>();
    let mut hops: Vec<(u32, Hlc)> = [chain(State::Delivered), chain(State::Written)]
        .concat()
        .into_iter()
        .map(|(hlc, text)| (text.parse().expect("a hop"), hlc))
        .collect();
    hops.sort_unstable();
    assert!(hops.iter().map(|(hop, _)| *hop).eq(0..=HOPS), "every hop, once");
    let broken = hops.windows(2).find(|pair| pair[0].1 >= pair[1].1);
    assert_eq!(broken, None, "a cause stands above what it caused");

    let highest = hops.last().expect("hops").1.millis();
    println!(
        "clock steps: {steps}, the last by {} days; {account:?}, {HOPS} hops",
        steps * steps * MINUTE / DAY
    );
    assert!(steps > 40 && highest > (now_ms() + DAY) as u64, "the steps were not felt: {steps} {highest}");
}

/// What a reboot may leave of the clock's file; `before` is a copy from before the first sends.
type Damage = fn(clock: &Path, before: &Path);

fn overwritten(clock: &Path, at: usize, bytes: &[u8]) {
    let mut all = std::fs::read(clock).expect("there");
    all[at..at + bytes.len()].copy_from_slice(bytes);
    std::fs::write(clock, all).expect("written");
}

fn cut(clock: &Path, len: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(clock).expect("there");
    file.set_len(len).expect("cut");
}

const DAMAGE: [(&str, Damage); 11] = [
    ("kept", |_, _| ()),
    ("lost", |clock, _| std::fs::remove_file(clock).expect("there")),
    ("zeroed", |clock, _| std::fs::write(clock, [0; 4096]).expect("written")),
    ("its word zeroed", |clock, _| overwritten(clock, 32, &[0; 8])),
    ("its word all ones", |clock, _| overwritten(clock, 32, &[0xff; 8])),
    ("all ones", |clock, _| std::fs::write(clock, [0xff; 4096]).expect("written")),
    ("empty", |clock, _| cut(clock, 0)),
    ("half there", |clock, _| cut(clock, 2048)),
    ("torn in its head", |clock, _| cut(clock, 20)),
    ("half its head rewritten", |clock, before| {
        overwritten(clock, 0, &std::fs::read(before).expect("a copy")[..16]);
        overwritten(clock, 32, &[0; 8]);
    }),
    ("of the past", |clock, before| {
        std::fs::copy(before, clock).expect("copied");
    }),
];

/// Sends of `senders` on one side of a reboot; answers the names that came of it.
fn a_half(world: &World, senders: u32, offset: i64) -> Vec<Hlc> {
    let had = world.files(&AgentId::root(), State::Written).len();
    world.step(offset);
    end_well(world.senders(senders, A_HALF, 0));
    let names: Vec<Hlc> =
        world.files(&AgentId::root(), State::Written).iter().skip(had).map(|(hlc, _)| *hlc).collect();
    assert_eq!(names.len(), (senders * A_HALF) as usize);
    names
}

/// The wall was days ahead before the reboot and is right, or behind, after it: only the ceiling and the names know.
fn names_rise_over((what, damage): (&str, Damage), senders: u32, next_boot: &'static str) {
    let mut world = World::new();
    a_half(&world, 1, 0);
    let before = world.place.join("clock-before");
    std::fs::copy(world.clock(), &before).expect("copied");
    let first = a_half(&world, senders, 9 * DAY);
    assert!(first[0].millis() > (now_ms() + 8 * DAY) as u64, "the step was not felt");
    damage(&world.clock(), &before);
    world.boot = next_boot;
    let second = a_half(&world, senders, -2 * DAY);
    let (last, next) = (first.iter().max(), second.iter().min());
    assert!(next > last, "a clock that is {what}: {next:?} after {last:?}");
    let files = world.files(&AgentId::root(), State::Written);
    for sender in 0..senders {
        let own = format!("{sender} ");
        let numbers: Vec<u32> =
            files.iter().filter_map(|(_, text)| text.strip_prefix(&own)?.parse().ok()).collect();
        let halves = if sender == 0 { 3 } else { 2 };
        let all: Vec<u32> = (0..halves).flat_map(|_| 1..=A_HALF).collect();
        assert_eq!(numbers, all, "a clock that is {what}: sender {sender}");
    }
}

#[test]
fn must_show_t5_a_reboot_that_harms_the_clock_word_lets_no_name_fall() {
    for damage in DAMAGE {
        names_rise_over(damage, SENDERS, "0000000b");
    }
}

#[test]
fn t5_a_clock_that_is_harmed_between_two_sends_lets_no_name_fall() {
    for damage in DAMAGE.into_iter().filter(|(what, _)| *what != "of the past") {
        names_rise_over(damage, 2, "0000000a");
    }
}

#[test]
fn t5_a_clock_from_the_far_future_is_followed_and_goes_on() {
    let (ahead, world) = (World::new(), World::new());
    a_half(&ahead, 1, 20 * YEAR);
    let first = a_half(&world, 2, 0);
    std::fs::copy(ahead.clock(), world.clock()).expect("copied");
    let second = a_half(&world, 2, 0);
    assert!(second.iter().min() > first.iter().max());
    assert!(second[0].millis() > (now_ms() + 19 * YEAR) as u64, "its ceiling holds");
    std::fs::remove_file(world.clock()).expect("there");
    let third = a_half(&world, 2, 0);
    assert!(third.iter().min() > second.iter().max(), "the names hold what the clock forgot");
}

#[test]
fn t5_a_sender_that_runs_on_leaves_a_clock_that_was_taken_away() {
    let world = World::new();
    let bus = world.home.bus(&Nobody);
    let send =
        |bus: &Bus<'_>| bus.send(Draft::new(agent("agent1").into(), AgentId::root(), "x")).expect("sent");
    send(&bus);
    for harm in [
        |clock: &Path| std::fs::remove_file(clock).expect("there"),
        |clock: &Path| {
            std::fs::write(clock, [0; 4096]).expect("written");
        },
    ] {
        harm(&world.clock());
        // Another process begins with the new clock while the wall is ahead.
        world.step(DAY);
        end_well(world.senders(1, 1, 0));
        let others = world.home.names(State::Written).last().expect("sent").clone();
        let mine = send(&bus).hlc.expect("placed");
        assert!(Name::parse(&others).expect("ours").key.hlc < mine, "{others} {mine}");
    }
}
