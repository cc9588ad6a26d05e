//! `docs/benchmarks.md` and `reports/bench.json`.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::asked;
use super::pairs::{Pair, Spread};
use super::terminals::Idle;
use crate::tree;

const PAGE: &str = "docs/benchmarks.md";
const DATA: &str = "reports/bench.json";

/// The table of ratios.
pub(crate) fn ratios(pairs: &[Pair]) -> String {
    let mut text = String::from(
        "| what | floor | floor, median | ours, median | ratio | ours, p99 | rounds |
| --- | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for pair in pairs {
        let Pair { name, floor_name, rounds, floor, ours } = pair;
        let (floor, median, p99, ratio) =
            (shown(floor.median), shown(ours.median), shown(ours.p99), pair.ratio());
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {name} | {floor_name} | {floor} | {median} | **{ratio:.2}** | {p99} | {rounds} |"
        );
    }
    text
}

/// The whole page.
pub(crate) fn whole(ratios: &str, terminals: &str, record: &str, asked: &str, sizes: &str) -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!(
        "# Benchmarks

Written by `cargo xtask bench`; do not edit. Every row is measured turn by turn with its floor, in the same run, on
the same disk; medians are compared, so read the ratio and not the milliseconds: those are the machine's.
Release build, {cores} cores.

## What was asked

{asked}
Medians, unless it says otherwise. What stands beside Redis Streams below is reported as it is; nothing was asked of it.

## Ratios to a floor

{ratios}
A floor is what nobody can leave out, by bare system calls. What ours adds: parsing and rendering, the order of the
home, identity and locks, the record; for a session also a worker process, three durable writes (the reserved
generation, the meta of what runs, the journal) and the wait until the program runs.

## Terminals, beside tmux

tmux takes the place of the floor: it holds all terminals in one process and writes nothing durably, where each of ours
is a process of its own that outlives the anchor, and whose start is on disk before it is answered.

{terminals}
## The record

On a memory file system: making a million envelopes on a disk would measure the disk.

{record}
## Sizes

{sizes}"
    )
}

/// Writes the page and the figures.
pub(crate) fn write(page: &str, pairs: &[Pair], idle: Option<&Idle>) -> Result<()> {
    put(PAGE, page)?;
    put(DATA, &figures(pairs, idle)?)
}

fn figures(pairs: &[Pair], idle: Option<&Idle>) -> Result<String> {
    let micros = |spread: &Spread| serde_json::json!({ "median_us": spread.median.as_micros() as u64, "p90_us": spread.p90.as_micros() as u64, "p99_us": spread.p99.as_micros() as u64 });
    let row = |pair: &Pair| {
        serde_json::json!({
            "name": pair.name, "floor": micros(&pair.floor), "ours": micros(&pair.ours),
            "ratio": (pair.ratio() * 100.0).round() / 100.0, "rounds": pair.rounds,
        })
    };
    let rows: Vec<serde_json::Value> = pairs.iter().map(row).collect();
    Ok(serde_json::to_string_pretty(
        &serde_json::json!({ "v": 1, "asked": asked::data(pairs, idle), "pairs": rows }),
    )? + "\n")
}

fn put(path: &str, text: &str) -> Result<()> {
    let whole = tree::root().join(path);
    std::fs::create_dir_all(whole.parent().unwrap_or(Path::new(".")))?;
    std::fs::write(&whole, text).with_context(|| format!("write {path}"))
}

fn shown(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    if micros < 1000.0 { format!("{micros:.0} µs") } else { format!("{:.2} ms", micros / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_both_medians_and_their_ratio() {
        let spread = |micros| {
            let (median, p99) = (Duration::from_micros(micros), Duration::from_millis(9));
            Spread { median, p90: median, p99 }
        };
        let pair = Pair { name: "a", floor_name: "b", rounds: 7, floor: spread(500), ours: spread(1250) };
        assert!(ratios(&[pair]).ends_with("| a | b | 500 µs | 1.25 ms | **2.50** | 9.00 ms | 7 |\n"));
    }
}
