//! `cargo xtask bench`: what our promises cost, as ratios to a floor measured in the same run.
//!
//! A figure without its floor says more about the disk than about the program. Each row therefore does the same
//! with nothing but the system calls that nobody can leave out, turn by turn with ours, and compares medians.
//! Only release builds are reported; `--here` prints what the present build gives, without the rows of the record (a
//! million envelopes) and of terminals, `--terminals` these alone of the last release build; both write nothing.

mod asked;
mod bus;
mod floor;
mod mail;
mod pairs;
mod record;
mod redis;
mod report;
mod sessions;
mod sizes;
mod terminals;
mod viewer;
mod wake;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::tree;
use pairs::Pair;
use terminals::Idle;

/// Where throwaway homes are made: on the disk of the tree, since a memory file system has no durable write.
const SCRATCH: &str = "target/bench";

/// The programs under test.
pub(crate) struct Programs {
    pub(crate) netsky: PathBuf,
    pub(crate) ostk: PathBuf,
}

impl Programs {
    /// `netsky` on a home, silent and with nothing of our environment.
    pub(crate) fn on(&self, home: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(&self.netsky);
        command.args(args).env_clear().env("NETSKY_HOME", home).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Runs it to its good end.
    pub(crate) fn run(&self, home: &Path, args: &[&str]) -> Result<()> {
        let status = self.on(home, args).status();
        let status = status.with_context(|| format!("run {}", self.netsky.display()))?;
        ensure!(status.success(), "netsky {}: {status}", args.join(" "));
        Ok(())
    }
}

/// Runs the verb.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--terminals"] => {
            let folder = tree::root().join("target/release");
            let (pairs, idle) = beside_tmux(&folder)?;
            println!("{}", of_terminals(&pairs, idle.as_ref()));
        }
        ["--here"] => {
            let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
            let (_, text) = measure(&tree::root().join("target").join(profile))?;
            println!("{text}");
        }
        ["--measured"] => {
            let folder = tree::root().join("target/release");
            let (mut pairs, text) = measure(&folder)?;
            let record = record_rows(&folder)?;
            let (terminals, idle) = beside_tmux(&folder)?;
            let terminals_text = of_terminals(&terminals, idle.as_ref());
            let record_text = report::ratios(&record);
            pairs.extend(terminals);
            pairs.extend(record);
            let asked = asked::table(&pairs, idle.as_ref());
            let whole = report::whole(&text, &terminals_text, &record_text, &asked, &sizes::table()?);
            report::write(&whole, &pairs, idle.as_ref())?;
            println!("{whole}");
        }
        [] | ["--builds"] => {
            // The floor must be compiled like the program, and fault points must be gone.
            cargo(&[
                "build",
                "--quiet",
                "--locked",
                "--release",
                "--package",
                "netsky",
                "--package",
                "xtask",
            ])?;
            if words == ["--builds"] {
                sizes::time_clean_builds()?;
            }
            let status = Command::new(tree::root().join("target/release/xtask"))
                .args(["bench", "--measured"])
                .status()
                .context("run the release build of xtask")?;
            return Ok(status.success());
        }
        _ => bail!("usage: cargo xtask bench [--builds | --here | --terminals]"),
    }
    Ok(true)
}

fn measure(folder: &Path) -> Result<(Vec<Pair>, String)> {
    let programs = Programs { netsky: folder.join("netsky"), ostk: folder.join("ostk") };
    let scratch = scratch()?;
    let mut pairs = mail::measure(scratch.path(), &programs)?;
    pairs.extend(bus::measure(scratch.path(), &programs)?);
    pairs.extend(wake::measure(scratch.path(), &programs)?);
    pairs.extend(redis::measure(scratch.path())?);
    pairs.extend(sessions::measure(scratch.path(), &programs)?);
    let text = report::ratios(&pairs);
    Ok((pairs, text))
}

/// Terminals beside tmux, which take minutes and 100 MB of memory: not part of `--here`.
fn beside_tmux(folder: &Path) -> Result<(Vec<Pair>, Option<Idle>)> {
    let programs = Programs { netsky: folder.join("netsky"), ostk: folder.join("ostk") };
    let scratch = scratch()?;
    let measured = terminals::measure(scratch.path(), &programs)?;
    Ok(measured.map_or((Vec::new(), None), |(pairs, idle)| (pairs, Some(idle))))
}

fn of_terminals(pairs: &[Pair], idle: Option<&Idle>) -> String {
    match idle {
        Some(idle) => format!("{}\n{}", report::ratios(pairs), idle.text),
        None => "Not measured: this machine has no tmux.\n".to_owned(),
    }
}

/// A throwaway folder on the disk that holds the tree.
fn scratch() -> Result<tempfile::TempDir> {
    let scratch = tree::root().join(SCRATCH);
    std::fs::create_dir_all(&scratch)?;
    tempfile::tempdir_in(&scratch).context("make a throwaway folder")
}

/// The rows of the record, which need a gigabyte of memory: not part of `--here`.
fn record_rows(folder: &Path) -> Result<Vec<Pair>> {
    let programs = Programs { netsky: folder.join("netsky"), ostk: folder.join("ostk") };
    let scratch = tempfile::tempdir_in(record::MEMORY).context("make a throwaway folder in memory")?;
    record::measure(scratch.path(), &programs)
}

/// Runs cargo in the tree.
fn cargo(arguments: &[&str]) -> Result<()> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(program).args(arguments).current_dir(tree::root()).status()?;
    ensure!(status.success(), "cargo {} failed", arguments.join(" "));
    Ok(())
}
