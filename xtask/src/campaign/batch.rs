//! One batch: an ignored test in a process of its own.
//!
//! It is told `CAMPAIGN_SEED`, `CAMPAIGN_WANTED` (how many), `CAMPAIGN_FROM` (the `next` of the batch before, 0 at first)
//! and `CAMPAIGN_MEMORY` (a file for what it must know of the batches before; missing at first). It prints one line,
//! `campaign: {"count": N, "next": N, "failures": ["…"]}`, and passes when it could do its share, whatever it found.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Error, Result, bail, ensure};
use serde::Deserialize;

use super::Level;
use crate::{real, tree};

/// What the line begins with.
const MARK: &str = "campaign: ";

/// What a batch is asked for.
pub(crate) struct Share {
    pub(crate) seed: u64,
    pub(crate) wanted: u64,
    pub(crate) from: u64,
}

/// What a batch did.
#[derive(Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) count: u64,
    pub(crate) next: u64,
    pub(crate) failures: Vec<String>,
}

/// Runs it.
pub(crate) fn run(level: &Level, memory: &Path, share: Share) -> Result<Done> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = if level.real {
        // What is to be fetched or built for it is before nothing can be fetched any more.
        let built = Command::new(&program)
            .args(["test", "--quiet", "--locked", "--no-run"])
            .args(level.target)
            .current_dir(tree::root())
            .status();
        ensure!(built.context("run cargo test")?.success(), "the batch was not built");
        let mut command = real::apart(&program)
            .context("make a place with only loopback: it needs `unshare`, `ip` and the right to use them")?;
        command.envs(real::both().map_err(Error::msg)?);
        command
    } else {
        Command::new(&program)
    };
    let output = command
        .args(["test", "--quiet", "--locked"])
        .args(level.target)
        .args(["--", "--exact", "--ignored", "--nocapture", level.test])
        .env("CAMPAIGN_SEED", share.seed.to_string())
        .env("CAMPAIGN_WANTED", share.wanted.to_string())
        .env("CAMPAIGN_FROM", share.from.to_string())
        .env("CAMPAIGN_MEMORY", memory)
        .current_dir(tree::root())
        .output()
        .context("run cargo test")?;
    let text = String::from_utf8_lossy(&output.stdout);
    match done(&text) {
        Some(done) if output.status.success() => done,
        _ => bail!("the batch failed:\n{text}\n{}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// What the batch's line says; it may stand behind what the test runner prints.
fn done(text: &str) -> Option<Result<Done>> {
    let line = text.lines().find_map(|line| line.split_once(MARK).map(|(_, line)| line))?;
    Some(serde_json::from_str(line).with_context(|| format!("understand {line}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found_behind_what_the_runner_prints() {
        let text =
            "running 1 test\ntest it ... campaign: {\"count\":2,\"next\":5,\"failures\":[\"x\"]}\nok\n";
        let found = done(text).expect("a line").expect("reads");
        assert_eq!(found, Done { count: 2, next: 5, failures: vec!["x".to_owned()] });
        assert!(done("running 0 tests\n").is_none());
        assert!(done("campaign: {").expect("a line").is_err());
    }
}
