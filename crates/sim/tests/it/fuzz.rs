//! L9: the corpus of every fuzz target is replayed, and seeded mutations of it are tried.

use std::path::Path;

use netsky_sim::corpus::{self, Random};
use netsky_sim::fuzz::{TARGETS, Target};

/// Mutations of each target in one run of the tests; campaigns run the targets themselves.
const MUTATIONS: usize = 2_000;

fn replay((name, body): Target, mutations: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut seeds: Vec<Vec<u8>> =
        entries.map(|entry| std::fs::read(entry.expect("readable").path()).expect("a file")).collect();
    seeds.sort();
    assert!(seeds.len() >= 5, "{name} has a corpus");
    seeds.iter().for_each(|seed| body(seed));
    let mut random = Random::seeded(0xf022);
    for n in 0..mutations {
        let seed = match n % 8 {
            0 => corpus::text(&mut random).into_bytes(),
            _ => seeds[random.below(seeds.len())].clone(),
        };
        body(&random.mutated(&seed));
    }
}

fn target(name: &str) -> Target {
    TARGETS.into_iter().find(|(known, _)| *known == name).expect("a target")
}

#[test]
fn l9_envelope_rendering_name_and_frames_hold_for_mutations_of_their_corpus() {
    for name in ["envelope", "rendering", "name", "frames"] {
        replay(target(name), MUTATIONS);
    }
}

#[test]
fn l9_facts_hold_for_mutations_of_their_corpus() {
    replay(target("facts"), MUTATIONS / 4);
}

#[test]
fn l9_a15_two_thousand_mutated_questions_change_nothing() {
    replay(target("question"), MUTATIONS);
}
