//! 100,000 envelopes in one inbox: what a look, a claim and a drain cost then, in memory and in work.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};

use netsky_model::envelope::Envelope;
use netsky_model::id::AgentId;

use crate::bus_home::Home;
use crate::cost::{Cost, cost};
use crate::screen::netsky;

/// What a process may hold at its peak; of very many names above what it takes without them.
const MEMORY: u64 = 64 * 1024;

/// An inbox of agent7 with so many envelopes, put there by hand: to send them all would take longer than the test.
fn home_with(count: usize) -> Home {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent7", "x", "--from", "owner", "--create"]).works();
    netsky(&home, &["channel", "drain", "agent7"]).works();
    let inbox = home.channel("agent7", "inbox");
    let ts = "2026-04-19T19:25:00Z".parse().expect("valid");
    for n in 0..count {
        let id = format!("0196e5a0-0000-7000-8000-{n:012}");
        let from = AgentId::root().into();
        let to = "agent7".parse().expect("valid");
        let envelope = Envelope::new(id.parse().expect("valid"), from, to, format!("number {n}"), ts);
        // In no order of the folder: the names' order must be made, not met.
        let hlc = (n as u64 * 7_919) % count as u64 + 1;
        fs::write(inbox.join(format!("{hlc:020}-{id}.json")), envelope.to_bytes().expect("small"))
            .expect("written");
    }
    home
}

/// A verb may work so many times as much for an inbox of ten times as many, and as much again for what else runs on the
/// machine.
fn is_bounded(what: &str, times: u64, small: Cost, large: Cost) {
    println!("large inbox: {what}: of 10,000 {small:?}, of 100,000 {large:?}");
    assert!((1..MEMORY).contains(&large.memory), "{what}: {} KiB", large.memory);
    let bound = (small.work + 2) * times * 2;
    assert!(large.work <= bound, "{what}: {} ticks of 100,000 after {} of 10,000", large.work, small.work);
}

#[test]
fn must_show_a_hundred_thousand_envelopes_are_listed_claimed_and_drained_in_proportion() {
    let (small, large) = (home_with(10_000), home_with(100_000));
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("out");
    let both = |what: &str, times: u64, args: &[&str]| {
        let cost = |home: &Home| {
            let (cost, ended) = cost(home, args, &output);
            assert!(ended.success(), "{args:?}: {ended}");
            cost
        };
        is_bounded(what, times, cost(&small), cost(&large));
    };
    both("list", 10, &["channel", "list", "agent7"]);
    both("claim of 100", 10, &["channel", "drain", "agent7", "--json"]);
    // In a folder of ten times as many names each rename costs more, but not ten times.
    both("drain of 9,900", 2, &["channel", "drain", "agent7", "--max", "9900"]);
    let shown = BufReader::new(File::open(&output).expect("there")).lines().count();
    assert_eq!(shown, 9_900);
    assert_eq!(large.files("agent7", "delivered").expect("there").len(), 10_001);
}

#[test]
fn a12_names_of_any_number_and_length_fit_into_the_same_memory() {
    let home = home_with(20);
    let folder = tempfile::tempdir().expect("a folder");
    let drained =
        || cost(&home, &["channel", "drain", "agent7", "--max", "10"], &folder.path().join("out")).0;
    // What the program itself takes, whatever waits.
    let base = drained();
    let inbox = home.channel("agent7", "inbox");
    // Small files that are no envelopes, under the longest names there can be.
    let tail = "x".repeat(230);
    for n in 0..300_000 {
        File::create(inbox.join(format!("9{n:010}-{tail}"))).expect("made");
    }
    let cost = drained();
    println!("large inbox: 300,000 long names: {cost:?}, none: {base:?}");
    assert!((1..MEMORY).contains(&(cost.memory - base.memory)), "{} KiB over {}", cost.memory, base.memory);
}
