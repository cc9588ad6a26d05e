//! `docs/benchmarks.md` and `reports/bench.json`: all that was measured last, part by part.
//!
//! Promise: a run of some parts replaces these and leaves the others as they were measured.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::asked;
use super::pairs::Pair;
use crate::tree;

const PAGE: &str = "docs/benchmarks.md";
const DATA: &str = "reports/bench.json";

/// Version of the file of figures.
const VERSION: u64 = 2;

/// What one part measured.
#[derive(Serialize, Deserialize, Default)]
pub(crate) struct Measured {
    pub(crate) pairs: Vec<Pair>,
    /// A table or a word beside the rows.
    #[serde(default)]
    pub(crate) text: String,
    /// What is no row, by name.
    #[serde(default)]
    pub(crate) figures: BTreeMap<String, f64>,
}

impl Measured {
    /// Nothing, and why.
    pub(crate) fn nothing(why: &str) -> Measured {
        Measured { text: format!("{why}\n"), ..Measured::default() }
    }

    /// Its table and what stands beside it.
    pub(crate) fn shown(&self) -> String {
        let table = if self.pairs.is_empty() { String::new() } else { ratios(self.pairs.iter()) };
        let gap = if table.is_empty() || self.text.is_empty() { "" } else { "\n" };
        format!("{table}{gap}{}", self.text)
    }
}

impl From<Vec<Pair>> for Measured {
    fn from(pairs: Vec<Pair>) -> Measured {
        Measured { pairs, ..Measured::default() }
    }
}

/// Everything that was measured, by the name of its part.
#[derive(Serialize, Deserialize, Default)]
pub(crate) struct Figures {
    v: u64,
    /// Derived from the rest, for whoever reads no more than that.
    #[serde(default)]
    asked: Vec<serde_json::Value>,
    parts: BTreeMap<String, Measured>,
}

impl Figures {
    /// What was measured before.
    pub(crate) fn read() -> Result<Figures> {
        let bytes = match std::fs::read(tree::root().join(DATA)) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Figures::default()),
            read => read.with_context(|| format!("read {DATA}"))?,
        };
        let figures: Figures =
            serde_json::from_slice(&bytes).with_context(|| format!("understand {DATA}"))?;
        ensure!(figures.v <= VERSION, "{DATA} is of format {}, this program knows {VERSION}", figures.v);
        Ok(figures)
    }

    pub(crate) fn put(&mut self, part: &str, measured: Measured) {
        self.parts.insert(part.to_owned(), measured);
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = &Pair> {
        self.parts.values().flat_map(|part| &part.pairs)
    }

    /// A figure beside the rows.
    pub(crate) fn beside(&self, name: &str) -> Option<f64> {
        self.parts.values().find_map(|part| part.figures.get(name).copied())
    }

    /// The rows of these parts, with what stands beside them.
    fn of(&self, parts: &[&str]) -> String {
        let mut all = Measured::default();
        let there: Vec<&Measured> = parts.iter().filter_map(|part| self.parts.get(*part)).collect();
        there.iter().for_each(|part| all.text.push_str(&part.text));
        let pairs: Vec<&Pair> = there.iter().flat_map(|part| &part.pairs).collect();
        if there.is_empty() {
            return "Not measured yet.\n".to_owned();
        }
        let table = if pairs.is_empty() { String::new() } else { ratios(pairs.into_iter()) };
        let gap = if table.is_empty() || all.text.is_empty() { "" } else { "\n" };
        format!("{table}{gap}{}", all.text)
    }

    /// Writes the page and the figures.
    pub(crate) fn write(mut self, sizes: &str) -> Result<String> {
        (self.v, self.asked) = (VERSION, asked::data(&self));
        let page = self.page(sizes);
        put(PAGE, &page)?;
        put(DATA, &(serde_json::to_string_pretty(&self)? + "\n"))?;
        Ok(page)
    }

    fn page(&self, sizes: &str) -> String {
        let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        let asked = asked::table(self);
        let ratios = self.of(&["mail", "bus", "wake", "redis", "sessions"]);
        let (agents, restarts) = (self.of(&["agents"]), self.of(&["restarts"]));
        let (loops, landing) = (self.of(&["loops"]), self.of(&["landing"]));
        let (terminals, record) = (self.of(&["terminals"]), self.of(&["record"]));
        format!(
            "# Benchmarks

Written by `cargo xtask bench`; do not edit. Every row is measured turn by turn with its floor, in the same run, on
the same disk; medians are compared, so read the ratio and not the milliseconds: those are the machine's.
`cargo xtask bench PART…` measures some parts anew and leaves the others. Release build, {cores} cores.

## What was asked

{asked}
Medians, unless it says otherwise. What stands beside Redis Streams below is reported as it is; nothing was asked of it.

## Ratios to a floor

{ratios}
A floor is what nobody can leave out, by bare system calls. What ours adds: parsing and rendering, the order of the
home, identity and locks, the record; for a session also a worker process, three durable writes (the reserved
generation, the meta of what runs, the journal) and the wait until the program runs.

## Driven programs

The message goes to a program without a model that speaks as Claude Code does: what the real one does with a message is
its own, and the same on both sides. Two syncs of the disk are in a delivery, which take what the disk's other users leave:
the row beside its parts says what of it is ours. The real programs are started and resumed where only loopback is to be
reached.

{agents}
## Restarts

agent0 is a program that proves that it is up and does nothing. Where agentinfinity is stopped, the ticker alone is left.

{restarts}
## Loops

A home of 100,000 loops. A tick is a process of its own; what is due is sent durably under an id of its own, and its loop saved.

{loops}
## Work that lands

Against plain git on the same repository: a clone, a commit, a gate that ends at once, a fetch and a cherry-pick, each synced.

{landing}
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
}

/// The table of ratios.
fn ratios<'a>(pairs: impl Iterator<Item = &'a Pair>) -> String {
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
    use super::super::pairs::Spread;
    use super::*;

    fn pair() -> Pair {
        let spread = |micros| {
            let (median, p99) = (Duration::from_micros(micros), Duration::from_millis(9));
            Spread { median, p90: median, p99 }
        };
        let (name, floor_name) = ("a".to_owned(), "b".to_owned());
        Pair { name, floor_name, rounds: 7, floor: spread(500), ours: spread(1250) }
    }

    #[test]
    fn a_row_shows_both_medians_and_their_ratio() {
        assert!(ratios([pair()].iter()).ends_with("| a | b | 500 µs | 1.25 ms | **2.50** | 9.00 ms | 7 |\n"));
    }

    #[test]
    fn what_a_run_did_not_measure_stays_as_it_was_kept() {
        let mut before = Figures::default();
        before.put("mail", vec![pair()].into());
        before.put("agents", Measured::nothing("Not measured: nobody was there."));
        let kept = serde_json::to_string(&before).expect("writes");
        let mut now: Figures = serde_json::from_str(&kept).expect("reads");
        now.put("agents", vec![pair()].into());
        assert_eq!(now.of(&["mail"]), before.of(&["mail"]));
        assert_eq!(now.of(&["agents"]), now.of(&["mail"]));
        assert_eq!(now.of(&["record"]), "Not measured yet.\n");
    }
}
