//! `cargo xtask bench`: what our promises cost, as ratios to a floor measured in the same run.
//!
//! A figure without its floor says more about the disk than about the program. Each row therefore does the same
//! with nothing but the system calls that nobody can leave out, turn by turn with ours, and compares medians.
//! Only release builds are reported. `PART…` measures these alone, and the page keeps the others as they were; `--here`
//! prints what the present build gives and writes nothing, and of no part that takes minutes unless that is named.

mod agents;
mod asked;
mod bus;
mod constellation;
mod cpu;
mod floor;
mod landing;
mod loops;
mod mail;
mod pairs;
#[path = "../../../crates/cli/tests/it/real/model.rs"]
#[expect(dead_code, reason = "the tests of the real programs ask it more than we do")]
mod provider;
mod record;
mod redis;
mod report;
mod restarts;
mod sessions;
mod sizes;
mod speaker;
mod terminals;
mod viewer;
mod wake;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::{real, tree};
use report::Measured;

pub(crate) use speaker::{SPEAKER, speak};

/// Where throwaway homes are made: on the disk of the tree, since a memory file system has no durable write.
const SCRATCH: &str = "target/bench";

/// The programs under test.
pub(crate) struct Programs {
    pub(crate) netsky: PathBuf,
    pub(crate) ostk: PathBuf,
}

impl Programs {
    /// Those of a build.
    fn of(profile: &str) -> Programs {
        let folder = tree::root().join("target").join(profile);
        Programs { netsky: folder.join("netsky"), ostk: folder.join("ostk") }
    }

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

/// What can be measured by itself.
struct Part {
    word: &'static str,
    measure: fn(&Path, &Programs) -> Result<Measured>,
    /// Its place is in memory, not on the disk of the tree.
    in_memory: bool,
    /// It takes minutes.
    is_long: bool,
}

/// In the order in which they are measured.
const PARTS: [Part; 11] = [
    part("mail", |at, programs| mail::measure(at, programs).map(Measured::from)),
    part("bus", |at, programs| bus::measure(at, programs).map(Measured::from)),
    part("wake", |at, programs| wake::measure(at, programs).map(Measured::from)),
    part("redis", |at, _| redis::measure(at).map(Measured::from)),
    part("sessions", |at, programs| sessions::measure(at, programs).map(Measured::from)),
    Part { is_long: true, ..part("loops", |at, programs| loops::measure(at, programs).map(Measured::from)) },
    Part { is_long: true, ..part("agents", agents::measure) },
    Part { is_long: true, ..part("restarts", restarts::measure) },
    // A million envelopes need a gigabyte of memory.
    Part {
        in_memory: true,
        is_long: true,
        ..part("record", |at, programs| record::measure(at, programs).map(Measured::from))
    },
    Part { is_long: true, ..part("terminals", terminals::measure) },
    Part { is_long: true, ..part("landing", landing::measure) },
];

const fn part(word: &'static str, measure: fn(&Path, &Programs) -> Result<Measured>) -> Part {
    Part { word, measure, in_memory: false, is_long: false }
}

impl Part {
    fn run(&self, programs: &Programs) -> Result<Measured> {
        let scratch = if self.in_memory { record::MEMORY.into() } else { tree::root().join(SCRATCH) };
        std::fs::create_dir_all(&scratch)?;
        let scratch = tempfile::tempdir_in(&scratch).context("make a throwaway folder")?;
        (self.measure)(scratch.path(), programs)
    }
}

/// Runs the verb.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (options, named): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with("--"));
    if let Some(other) = named.iter().find(|word| PARTS.iter().all(|part| part.word != **word)) {
        let all = PARTS.map(|part| part.word).join(", ");
        bail!("no part is called {other}; there are {all}");
    }
    let is_meant = |part: &&Part| named.is_empty() || named.contains(&part.word);
    match options.as_slice() {
        ["--here"] => {
            let programs = Programs::of(if cfg!(debug_assertions) { "debug" } else { "release" });
            for part in PARTS.iter().filter(is_meant).filter(|part| !part.is_long || !named.is_empty()) {
                println!("{}", part.run(&programs)?.shown());
            }
        }
        ["--measured"] => {
            let mut figures = report::Figures::read()?;
            for part in PARTS.iter().filter(is_meant) {
                let measured = part.run(&Programs::of("release"))?;
                eprintln!("{}", measured.shown());
                figures.put(part.word, measured);
            }
            println!("{}", figures.write(&sizes::table()?)?);
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
            if options == ["--builds"] {
                sizes::time_clean_builds()?;
            }
            let xtask = tree::root().join("target/release/xtask");
            // All of it needs no more than loopback, and the real programs are to reach no more.
            let mut command = real::apart(&xtask).unwrap_or_else(|| Command::new(&xtask));
            let status = command.args(["bench", "--measured"]).args(&named).status();
            return Ok(status.context("run the release build of xtask")?.success());
        }
        _ => bail!("usage: cargo xtask bench [--builds | --here] [PART…]"),
    }
    Ok(true)
}

/// Runs cargo in the tree.
fn cargo(arguments: &[&str]) -> Result<()> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(program).args(arguments).current_dir(tree::root()).status()?;
    ensure!(status.success(), "cargo {} failed", arguments.join(" "));
    Ok(())
}
