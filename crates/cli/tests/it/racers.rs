//! L6: many real processes on one home at once; holders that stop or die with claims in their hands.
//!
//! What is held against the promise: nothing lost, nothing claimed twice, each sender's envelopes in order, and a claim
//! ends when its owner is dead, not when it is slow.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use netsky_disk::clock;
use netsky_sim::{Call, Ended, Moment, Paused, Point};

use crate::bus_home::{DRAIN, Deaths, Home, Surfacing, repeats_are_flagged, surfacings};

const SENDERS: usize = 8;
const DRAINERS: usize = 3;
/// What one drain surfaced, and when it ran.
struct Drained {
    started: Instant,
    ended: Instant,
    surfaced: Vec<Surfacing>,
}

/// Runs the program untraced, so that racers truly race.
fn netsky(home: &Home, args: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_netsky"))
        .args(args)
        .env_clear()
        .env("NETSKY_HOME", home.path())
        .env("HOME", home.path())
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    assert!(
        out.status.success(),
        "netsky {args:?}: {}: {}",
        out.status,
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).expect("text")
}

fn drain(home: &Home) -> Drained {
    let started = Instant::now();
    let surfaced = surfacings(&netsky(home, &DRAIN));
    Drained { started, ended: Instant::now(), surfaced }
}

/// `s<sender>-<number>`: a sender's envelopes are numbered in the order in which it sent them.
fn id(sender: usize, number: usize) -> String {
    format!("s{sender}-{number:04}")
}

fn parts(id: &str) -> (&str, u32) {
    let (sender, number) = id.split_once('-').expect("an id of ours");
    (sender, number.parse().expect("a number"))
}

/// All senders send `each`, drainers drain beside them until nothing is left; answers every drain.
///
/// `beside` runs on one more thread again and again, until the senders are done; they keep their last ones until it has
/// answered that it did enough.
fn race(home: &Home, each: usize, beside: impl Fn() -> bool + Sync) -> Vec<Drained> {
    let (sending, mut drains) = (AtomicUsize::new(SENDERS), Vec::new());
    let lacking = AtomicUsize::new(1);
    let done = || sending.load(Ordering::Acquire) == 0;
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (home, sending, lacking) = (&home, &sending, &lacking);
            scope.spawn(move || {
                // A guard, so that a sender that fails does not leave the others waiting for it.
                let _leaving = Leaving(sending);
                let from = format!("agent{}", 10 + sender);
                for number in 0..each {
                    while number + 1 == each && lacking.load(Ordering::Acquire) > 0 {
                        clock::pause(Duration::from_millis(5));
                    }
                    let id = id(sender, number);
                    netsky(home, &["channel", "send", "agent7", &id, "--from", &from, "--id", &id]);
                }
            });
        }
        let drainers: Vec<_> = (0..DRAINERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut drains = Vec::new();
                    loop {
                        // Asked first: what was sent before the answer is seen by the drain after it.
                        let last = done();
                        drains.push(drain(home));
                        if last && drains.last().is_some_and(|drained| drained.surfaced.is_empty()) {
                            return drains;
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let enough = Leaving(&lacking);
            while !beside() {}
            drop(enough);
            while !done() {
                beside();
            }
        });
        for drainer in drainers {
            drains.extend(drainer.join().expect("no drain fails"));
        }
    });
    drains
}

struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn home_of_agent7() -> Home {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent7", "hello", "--from", "agent0", "--create"]);
    netsky(&home, &DRAIN);
    home
}

/// Each sender's first surfacings rise within a drain and from one drain to any that began after it ended.
fn order_is_kept(drains: &[Drained]) {
    let mut spans: BTreeMap<&str, Vec<(Instant, Instant, u32, u32)>> = BTreeMap::new();
    for drained in drains {
        let mut numbers: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for one in drained.surfaced.iter().filter(|one| !one.redelivered) {
            let (sender, number) = parts(&one.id);
            numbers.entry(sender).or_default().push(number);
        }
        for (sender, numbers) in numbers {
            assert!(numbers.is_sorted(), "{sender} out of order within one drain: {numbers:?}");
            let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
            spans.entry(sender).or_default().push((drained.started, drained.ended, first, last));
        }
    }
    for (sender, spans) in &spans {
        for (_, ended, _, last) in spans {
            for (_, _, first, _) in spans.iter().filter(|(started, ..)| started > ended) {
                assert!(first > last, "{sender}: {first} surfaced after the drain of {last} had ended");
            }
        }
    }
}

fn all_ids(each: usize) -> BTreeSet<String> {
    (0..SENDERS).flat_map(|sender| (0..each).map(move |number| id(sender, number))).collect()
}

#[test]
fn l6_racers_lose_nothing_and_claim_nothing_twice() {
    const EACH: usize = 150;
    let (home, started) = (home_of_agent7(), Instant::now());
    let drains = race(&home, EACH, || {
        std::thread::yield_now();
        true
    });
    let surfaced: Vec<_> = drains.iter().flat_map(|drained| &drained.surfaced).collect();
    println!("racers: {} envelopes, {} drains in {:.1?}", surfaced.len(), drains.len(), started.elapsed());
    assert!(surfaced.iter().all(|one| one.attempt == 1 && !one.redelivered), "nobody died");
    let ids: BTreeSet<_> = surfaced.iter().map(|one| one.id.clone()).collect();
    assert_eq!(ids.len(), surfaced.len(), "one surfacing each");
    assert_eq!(ids, all_ids(EACH));
    order_is_kept(&drains);
    let audit = home.audit("agent7").expect("I1, I4");
    assert!(audit.found.values().all(|placed| placed.folder == "delivered"));
    assert_eq!(audit.found.len(), 1 + SENDERS * EACH);
}

#[test]
fn l6_racers_with_drainers_that_die_lose_nothing() {
    const EACH: usize = 60;
    let home = home_of_agent7();
    let (tries, kills) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let dead = std::sync::Mutex::new(Vec::new());
    let drains = race(&home, EACH, || {
        // Every third point, again and again: before claims, between claim and print, after it.
        let at = tries.fetch_add(1, Ordering::Relaxed) * 3 % 60;
        let outcome = home.stepper(DRAIN).kill_at(at).expect("a drainer");
        kills.fetch_add(usize::from(outcome.hit.is_some()), Ordering::Relaxed);
        dead.lock().expect("only here").extend(surfacings(&outcome.run.stdout));
        kills.load(Ordering::Relaxed) >= 10
    });
    let kills = kills.into_inner();
    println!("racers: {kills} drainers killed among them");
    let mut surfaced = dead.into_inner().expect("only there");
    surfaced.extend(drains.iter().flat_map(|drained| drained.surfaced.clone()));
    // Two threads saw them, so only the attempts tell the order.
    surfaced.sort_by_key(|one| one.attempt);
    repeats_are_flagged(&surfaced, Deaths::one_at_a_time(kills)).expect("I2");
    home.attempts_are_explained("agent7", Deaths::one_at_a_time(kills)).expect("I2");
    let mut ids: BTreeSet<_> = surfaced.iter().map(|one| one.id.clone()).collect();
    let audit = home.audit("agent7").expect("I1, I4");
    // One that five of the dead happened to hold, one after the other, is a dead letter and not lost.
    let poisoned = home.files("agent7", "poison").expect("poison");
    let is_dead = |id: &String| poisoned.iter().any(|file| file.contains(&format!("-{id}.")));
    ids.extend(all_ids(EACH).into_iter().filter(is_dead));
    assert_eq!(ids, all_ids(EACH));
    assert!(audit.found.values().all(|placed| placed.folder == "delivered"));
}

#[test]
fn l6_racers_with_one_id_place_one_envelope() {
    let home = home_of_agent7();
    for round in 0..10 {
        let id = id(0, round);
        let answers: Vec<String> = std::thread::scope(|scope| {
            let send =
                || netsky(&home, &["channel", "send", "agent7", &id, "--from", "agent10", "--id", &id]);
            let racers: Vec<_> = (0..SENDERS).map(|_| scope.spawn(send)).collect();
            racers.into_iter().map(|racer| racer.join().expect("exit 0")).collect()
        });
        let sent = answers.iter().filter(|answer| !answer.contains("duplicate")).count();
        assert_eq!(sent, 1, "{answers:?}");
        assert_eq!(told(&drain(&home).surfaced), [(&*id, 1, false)]);
    }
}

fn is(call: Call, folder: &str) -> impl Fn(&Point) -> bool {
    move |point| {
        let to = point.files.last().map(|file| file.to_string_lossy().into_owned());
        point.call == call && point.moment == Moment::Exit && to.is_some_and(|to| to.contains(folder))
    }
}

/// Two envelopes, and a drainer that stopped right after it claimed the first, before it printed anything.
pub(crate) fn stopped_with_a_claim(home: &Home) -> Paused {
    for id in ["s0-0001", "s0-0002"] {
        netsky(home, &["channel", "send", "agent7", id, "--from", "agent10", "--id", id]);
    }
    let paused =
        home.stepper(DRAIN).pause_when(is(Call::Rename, "/claimed/")).expect("a drainer").expect("a claim");
    assert_eq!(paused.stdout(), "", "the claim comes before the print");
    assert_eq!(home.audit("agent7").expect("I1, I4").folder_of("s0-0001"), Some("claimed"));
    paused
}

fn told(surfaced: &[Surfacing]) -> Vec<(&str, u32, bool)> {
    surfaced.iter().map(|one| (&*one.id, one.attempt, one.redelivered)).collect()
}

#[test]
fn l6_a_stopped_drainer_keeps_its_claims_and_finishes() {
    let home = home_of_agent7();
    let paused = stopped_with_a_claim(&home);
    assert_eq!(told(&drain(&home).surfaced), [("s0-0002", 1, false)], "a slow owner is not a dead one");
    let run = paused.resume().expect("it goes on");
    assert_eq!(run.ended, Ended::Exited(0), "{}", run.stderr);
    assert_eq!(told(&surfacings(&run.stdout)), [("s0-0001", 1, false)]);
    assert!(drain(&home).surfaced.is_empty());
}

#[test]
fn l6_a_drainer_killed_between_claim_and_print_gives_its_claims_back_flagged() {
    let home = home_of_agent7();
    let paused = stopped_with_a_claim(&home);
    assert_eq!(told(&drain(&home).surfaced), [("s0-0002", 1, false)], "it still lives");
    paused.kill().expect("it dies");
    assert_eq!(told(&drain(&home).surfaced), [("s0-0001", 2, true)]);
    assert!(drain(&home).surfaced.is_empty());
}

#[test]
fn l6_fm_deliver_kill_between_print_and_record_is_the_one_repeat() {
    let home = home_of_agent7();
    netsky(&home, &["channel", "send", "agent7", "s0-0001", "--from", "agent10", "--id", "s0-0001"]);
    let printed =
        |point: &Point| point.call == Call::Write && point.moment == Moment::Exit && is_output(point);
    let dead = home.stepper(DRAIN).kill_when(printed).expect("a drainer");
    assert_eq!(surfacings(&dead.run.stdout).len(), 1, "it was printed");
    let again = drain(&home).surfaced;
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].attempt, again[0].redelivered), (2, true));
    assert!(drain(&home).surfaced.is_empty());
}

/// The stepper keeps standard output in a file in memory.
pub(crate) fn is_output(point: &Point) -> bool {
    point.files.iter().any(|file| file.to_string_lossy().starts_with("/memfd:"))
}
