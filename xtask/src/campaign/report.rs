//! `reports/reliability.json`: one row for each level, commit and seed, written whole after each batch.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::Level;
use crate::tree;

const REPORT: &str = "reports/reliability.json";

/// The file.
#[derive(Serialize, Deserialize)]
pub(crate) struct Report {
    v: u64,
    pub(crate) rows: Vec<Row>,
}

/// What was run on one commit with one seed.
#[derive(Serialize, Deserialize)]
pub(crate) struct Row {
    level: String,
    unit: String,
    pub(crate) count: u64,
    seed: u64,
    pub(crate) commit: String,
    pub(crate) failures: Vec<String>,
    pub(crate) seconds: f64,
    /// Where the next batch begins.
    pub(crate) next: u64,
}

impl Report {
    pub(crate) fn read() -> Result<Report> {
        match std::fs::read(tree::root().join(REPORT)) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| format!("understand {REPORT}")),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Report { v: 1, rows: Vec::new() }),
            Err(e) => Err(e).with_context(|| format!("read {REPORT}")),
        }
    }

    /// Replaces the file; a run that is cut off here leaves the old one.
    pub(crate) fn write(&self) -> Result<()> {
        let path = tree::root().join(REPORT);
        let new = path.with_extension("json.new");
        std::fs::write(&new, serde_json::to_string_pretty(self)? + "\n")
            .with_context(|| format!("write {REPORT}"))?;
        std::fs::rename(&new, &path).with_context(|| format!("replace {REPORT}"))
    }

    /// The row of this level, seed and tree, made if there is none.
    pub(crate) fn row(&mut self, level: &Level, seed: u64) -> Result<usize> {
        let commit = commit()?;
        let same = |row: &Row| row.level == level.name && row.seed == seed && row.commit == commit;
        if let Some(at) = self.rows.iter().position(same) {
            let row = &self.rows[at];
            let forgot = level.remembers && row.count > 0 && !row.memory().exists();
            ensure!(
                !forgot,
                "what {} had seen on this commit is gone from target/: take another --seed",
                level.name
            );
            return Ok(at);
        }
        self.rows.push(Row {
            level: level.name.to_owned(),
            unit: level.unit.to_owned(),
            count: 0,
            seed,
            commit,
            failures: Vec::new(),
            seconds: 0.0,
            next: 0,
        });
        let row = &self.rows[self.rows.len() - 1];
        // What an older run of another tree of this name remembered is no part of this one.
        let _ = std::fs::remove_file(row.memory());
        Ok(self.rows.len() - 1)
    }
}

impl Row {
    /// Where its batches keep what they must know of each other.
    pub(crate) fn memory(&self) -> PathBuf {
        tree::root().join(format!("target/campaign-{}-{}-{}", self.level, self.seed, self.commit))
    }
}

/// The commit of the tree, which nothing but a report may differ from: a row is of what others can check out.
fn commit() -> Result<String> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output =
            Command::new("git").args(arguments).current_dir(tree::root()).output().context("run git")?;
        ensure!(
            output.status.success(),
            "git {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = git(&["status", "--porcelain", "--", ".", ":!reports"])?;
    ensure!(changed.is_empty(), "commit first, a row names the commit it is of: {changed}");
    git(&["rev-parse", "--short=12", "HEAD"])
}
