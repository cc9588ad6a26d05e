//! What is not a race: packages in the lock, sizes of the programs, clean build times.

use std::fmt::Write;
use std::time::Instant;

use anyhow::{Context, Result};

use super::cargo;
use crate::tree;

/// Where `--builds` leaves its times for the report, since they take minutes and most runs do without.
const TIMES: &str = "target/bench/builds.json";

/// Target folder of the clean builds.
const CLEAN: &str = "target/bench/clean";

/// The table of sizes, with build times if they were ever measured in this tree.
pub(crate) fn table() -> Result<String> {
    let lock = std::fs::read_to_string(tree::root().join("Cargo.lock")).context("read Cargo.lock")?;
    let packages = lock.lines().filter(|line| *line == "[[package]]").count();
    let mut text = String::from("| what | figure |\n| --- | ---: |\n");
    writeln!(text, "| locked packages, ours included | {packages} |")?;
    for program in ["netsky", "ostk"] {
        let bytes = tree::root().join("target/release").join(program).metadata()?.len();
        writeln!(text, "| `{program}`, release | {:.1} MiB |", bytes as f64 / (1024.0 * 1024.0))?;
    }
    let times = std::fs::read_to_string(tree::root().join(TIMES)).unwrap_or_default();
    let times: serde_json::Value = serde_json::from_str(&times).unwrap_or_default();
    let cores = std::thread::available_parallelism()?;
    for profile in ["dev", "release"] {
        if let Some(seconds) = times[profile].as_u64() {
            writeln!(text, "| clean build, {profile}, {cores} cores | {seconds} s |")?;
        }
    }
    Ok(text)
}

/// Builds both profiles from nothing and remembers how long it took.
pub(crate) fn time_clean_builds() -> Result<()> {
    let target = tree::root().join(CLEAN);
    let mut times = serde_json::Map::new();
    for (profile, flags) in [("dev", [].as_slice()), ("release", ["--release"].as_slice())] {
        if target.exists() {
            std::fs::remove_dir_all(&target).context("empty the target folder of clean builds")?;
        }
        let folder = target.to_string_lossy().into_owned();
        let began = Instant::now();
        let fixed = ["build", "--quiet", "--locked", "--package", "netsky", "--target-dir", &folder];
        cargo(&[&fixed, flags].concat())?;
        times.insert(profile.into(), began.elapsed().as_secs().into());
    }
    std::fs::remove_dir_all(&target)?;
    let text = serde_json::to_string_pretty(&times)? + "\n";
    std::fs::write(tree::root().join(TIMES), text).context("write the build times")
}
