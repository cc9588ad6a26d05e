//! Long runs of the proof tools, in batches that are recorded: `cargo xtask campaign LEVEL [--wanted N] [--seed S]`.
//!
//! Promise: `reports/reliability.json` says what was run on which commit, with which seeds, and every failure; a run that
//! was cut off goes on where its last batch ended. Leaves to others: what a batch does. It is an ignored test of some
//! crate, which is told its share in the environment and answers with one line (see [`batch`]).

mod batch;
mod report;

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::real;
use report::{Report, Row};

/// One kind of campaign.
struct Level {
    name: &'static str,
    /// What is counted.
    unit: &'static str,
    /// How many are wanted where nothing else is said.
    wanted: u64,
    /// How many in one batch: about a minute, since what a cut-off batch did is lost.
    batch: u64,
    /// Arguments of `cargo test` that choose the test's binary.
    target: &'static [&'static str],
    /// The ignored test that runs a batch.
    test: &'static str,
    /// Whether a batch must know what those before it have seen.
    remembers: bool,
    /// Whether the seed decides anything.
    seeded: bool,
    /// Whether it needs the real agent programs, and a place where nothing but loopback is to be reached.
    real: bool,
}

/// The tests of the program and of a crate.
const CLI: &[&str] = &["--profile", "campaign", "--package", "netsky", "--test", "it"];
const BUS: &[&str] = &["--profile", "campaign", "--package", "netsky-bus", "--test", "it"];

/// The program's tests where most of the time is others': no quicker in another profile.
const KILLS: &[&str] = &["--package", "netsky", "--test", "it"];

/// Processes are started and ended there, which is no quicker in another profile.
const KERNEL: &[&str] = &["--package", "netsky-kernel", "--test", "it"];

const LEVELS: &[Level] = &[
    Level {
        name: "crash-states",
        unit: "distinct crash states on a machine in memory",
        wanted: 1_000_000,
        batch: 50_000,
        target: &["--profile", "campaign", "--package", "netsky-sim", "--features", "memory", "--test", "it"],
        test: "crash::campaign_a_share_of_the_crash_states",
        remembers: true,
        seeded: true,
        real: false,
    },
    Level {
        name: "kill-points",
        unit: "kills of eight verbs of the real program, half of them of a repeat after a kill",
        wanted: 50_000,
        batch: 4_000,
        target: CLI,
        test: "cells::campaign_a_share_of_the_kill_points",
        remembers: false,
        seeded: false,
        real: false,
    },
    Level {
        name: "contended-envelopes",
        unit: "envelopes that 16 consumers and 8 senders contended for",
        wanted: 5_000_000,
        batch: 400_000,
        target: BUS,
        test: "contended::campaign_a_share_of_the_contended_envelopes",
        remembers: false,
        seeded: false,
        real: false,
    },
    Level {
        name: "harvest-kills",
        unit: "kills of `netsky task harvest` at a step of it or of its gits, of all or of the one alone, in six ways to land",
        wanted: 2_000,
        batch: 150,
        target: KILLS,
        test: "landing::points::campaign_a_share_of_the_harvest_kills",
        remembers: true,
        seeded: false,
        real: false,
    },
    Level {
        name: "harvest-races",
        unit: "rounds in which two harvests of one repository, and then eight, race",
        wanted: 500,
        batch: 20,
        target: KILLS,
        test: "landing::queue::campaign_a_share_of_the_harvest_races",
        remembers: false,
        seeded: false,
        real: false,
    },
    Level {
        name: "felled-trees",
        unit: "kills of process trees with escapers, one in ten without a cgroup",
        wanted: 10_000,
        batch: 800,
        target: KERNEL,
        test: "kill_trees::campaign_a_share_of_the_felled_trees",
        remembers: false,
        seeded: false,
        real: false,
    },
    Level {
        name: "kernel-steps",
        unit: "kills and refused calls of anchors and workers, each at a step of what was asked of them",
        wanted: 5_000,
        batch: 150,
        target: KERNEL,
        test: "steps::campaign_a_share_of_the_kernel_steps",
        remembers: false,
        seeded: false,
        real: false,
    },
    Level {
        name: "killed-anchors",
        unit: "kills of an anchor with 200 sessions and a follower, all adopted within 2 s by the next",
        wanted: 100,
        batch: 50,
        target: KERNEL,
        test: "must_shows::campaign_a_share_of_the_killed_anchors",
        remembers: false,
        seeded: false,
        real: false,
    },
    Level {
        name: "racing-anchors",
        unit: "races of two anchors for a root with a session in it",
        wanted: 1_000,
        batch: 500,
        target: KERNEL,
        test: "must_shows::campaign_a_share_of_the_racing_anchors",
        remembers: false,
        seeded: false,
        real: false,
    },
    Level {
        name: "power-cuts",
        unit: "power cuts, on ext4 and XFS in turn",
        wanted: 2_000,
        batch: 200,
        target: CLI,
        test: "power_cuts::campaign_a_share_of_the_power_cuts",
        remembers: false,
        seeded: true,
        real: false,
    },
    Level {
        name: "restarts",
        unit: "restarts of agent0, planned and not, with a child, agentinfinity, the ticker, the anchor or the new agent0 killed at a random moment",
        wanted: 1_000,
        batch: 60,
        target: KILLS,
        test: "drill::campaign_a_share_of_the_restarts",
        remembers: false,
        seeded: true,
        real: false,
    },
    Level {
        name: "real-kills",
        unit: "kills in a turn of Claude Code or Codex: of it, its worker, netsky-drivers, the anchor, or all at once",
        wanted: 500,
        batch: 20,
        target: KILLS,
        test: "real::kills::campaign_a_share_of_the_real_kills",
        remembers: false,
        seeded: true,
        real: true,
    },
    Level {
        name: "real-restarts",
        unit: "restarts of Claude Code or Codex with the other as its clone, planned and not, with somebody killed at a random moment",
        wanted: 50,
        batch: 10,
        target: KILLS,
        test: "real::drill::campaign_a_share_of_the_real_restarts",
        remembers: false,
        seeded: true,
        real: true,
    },
];

/// Runs a campaign to its end; true if nothing failed.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let Some((name, options)) = arguments.split_first() else {
        println!("levels:");
        LEVELS.iter().for_each(|level| println!("  {:<19}  {} {}", level.name, level.wanted, level.unit));
        return Ok(true);
    };
    let level = LEVELS
        .iter()
        .find(|level| level.name == name)
        .with_context(|| format!("no level is called {name}"))?;
    let (mut wanted, mut seed) = (level.wanted, 1);
    for option in options.chunks(2) {
        match option {
            [key, value] if key == "--wanted" || *key == level_option(level) => wanted = value.parse()?,
            [key, value] if key == "--seed" && level.seeded => seed = value.parse()?,
            other => bail!("what is {}? only --wanted N, and --seed S where chance decides", other.join(" ")),
        }
    }
    if level.real
        && let Err(missing) = real::both()
    {
        println!("{name}: nothing was run; {missing}");
        return Ok(false);
    }
    let mut report = Report::read()?;
    let row = report.row(level, seed)?;
    while report.rows[row].count < wanted && report.rows[row].failures.is_empty() {
        step(level, seed, wanted, &mut report.rows[row])?;
        report.write()?;
        let Row { count, seconds, commit, .. } = &report.rows[row];
        println!("{count} of {wanted} {}, {seconds:.0} s, commit {commit}", level.unit);
    }
    let Row { count, failures, .. } = &report.rows[row];
    failures.iter().for_each(|failure| println!("FAILED: {failure}"));
    ensure!(*count >= wanted || !failures.is_empty(), "the campaign ended with {count} of {wanted}");
    Ok(failures.is_empty())
}

/// `--states` for `crash-states`, as one would say it.
fn level_option(level: &Level) -> String {
    format!("--{}", level.name.rsplit('-').next().unwrap_or(level.name))
}

fn step(level: &Level, seed: u64, wanted: u64, row: &mut Row) -> Result<()> {
    let began = Instant::now();
    let share = batch::Share { seed, wanted: level.batch.min(wanted - row.count), from: row.next };
    let done = batch::run(level, &row.memory(), share)?;
    ensure!(done.count > 0 || !done.failures.is_empty(), "a batch did nothing");
    row.count += done.count;
    row.next = done.next;
    row.failures.extend(done.failures);
    row.seconds += began.elapsed().as_secs_f64();
    Ok(())
}
