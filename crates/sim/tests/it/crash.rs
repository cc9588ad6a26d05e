//! Every short sequence of the bus's operations, cut everywhere, on a machine in memory.

use std::collections::HashSet;
use std::path::Path;

use netsky_sim::campaign::Share;
use netsky_sim::crash::{Plan, Report, explore};

/// Decides what is sampled.
const SEED: u64 = 1;

fn shown(report: &Report) {
    println!("{report}");
    assert!(report.failures.is_empty(), "{}", report.failures.join("\n"));
}

#[test]
fn i1_i2_each_operation_alone_survives_every_cut() {
    let plan = Plan { seed: SEED, states: usize::MAX, longest: 1, again: 0, from: 0 };
    shown(&explore(plan, HashSet::new()));
}

#[test]
fn t3_each_operation_that_was_killed_and_is_done_again_survives_every_cut() {
    let plan = Plan { seed: SEED, states: usize::MAX, longest: 1, again: 1, from: 0 };
    shown(&explore(plan, HashSet::new()));
}

#[test]
fn must_show_1_a_hundred_thousand_crash_states() {
    const WANTED: usize = 100_000;
    let plan = Plan { seed: SEED, states: WANTED, longest: 3, again: 1, from: 0 };
    let report = explore(plan, HashSet::new());
    shown(&report);
    assert!(report.states >= WANTED, "only {} states were found", report.states);
    assert_eq!(report.untaken(), [""; 0], "what no recovery did is not shown to work");
}

/// A batch of `cargo xtask campaign crash-states`: longer and longer sequences, each state counted once over all batches.
#[test]
#[ignore = "a batch of a campaign, which says how much"]
fn campaign_a_share_of_the_crash_states() {
    let memory = std::env::var_os("CAMPAIGN_MEMORY");
    let memory = memory.as_deref().map(Path::new);
    let before = memory.and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
    let seen = before.chunks_exact(8).map(|state| u64::from_le_bytes(state.try_into().expect("8 bytes")));
    let share = Share::asked();
    let plan = Plan {
        seed: share.seed,
        states: share.wanted as usize,
        longest: 10,
        again: 1,
        from: share.from as usize,
    };
    let report = explore(plan, seen.collect());
    if let Some(path) = memory {
        let seen: Vec<u8> = report.seen.iter().flat_map(|state| state.to_le_bytes()).collect();
        std::fs::write(path, seen).expect("the memory of the campaign is written");
    }
    let Report { states, next, failures, .. } = &report;
    share.answer(*states as u64, *next as u64, failures);
}
