//! The scratch copies, one a lane: the tree as git sees it, with a target folder of its own that is kept between runs.
//!
//! Files that did not change keep their times, so that a second run builds little.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use netsky_disk::lock::Lock;

use super::leftovers;
use super::progress::Progress;
use super::verdict::Ran;
use crate::tree;

/// A test that runs longer than this is hung: what it waits for will not come.
const SECONDS_PER_TEST: usize = 120;

/// How much of a run's output is shown when it needs to be looked at.
const TAIL_LINES: usize = 25;

/// How long a janitor of the run before may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// The folder of the copies and of all that belongs to them.
pub(super) fn base() -> PathBuf {
    tree::root().join("target/sabotage")
}

/// All copies of one run.
pub(crate) struct Scratches {
    pub(crate) lanes: Vec<Scratch>,
    /// Digest of the copied files, but for the reports.
    digest: String,
    /// Two runs in one copy would put back what the other has just taken out.
    _alone: Lock,
}

/// One copy, in which one safeguard at a time is taken out.
pub(crate) struct Scratch {
    tree: PathBuf,
    target: PathBuf,
    /// Where its tests put their homes, so that what they leave running can be told from everything else.
    tmp: PathBuf,
}

impl Scratches {
    /// Brings `lanes` copies up to date, and takes out what a former run may have left in them.
    pub(crate) fn prepare(lanes: usize) -> Result<Scratches> {
        let base = base();
        std::fs::create_dir_all(&base)?;
        let Some(alone) = Lock::take_within(base.join("lock"), PATIENCE)? else {
            bail!("another sabotage is at work in {}", base.display());
        };
        let tmp = base.join("tmp");
        leftovers::hire_janitor()?;
        leftovers::end(&tmp)?;
        if tmp.exists() {
            std::fs::remove_dir_all(&tmp).with_context(|| format!("remove {}", tmp.display()))?;
        }
        let wanted = tree::files()?;
        let mut digest = blake3::Hasher::new();
        for path in wanted.iter().filter(|path| !path.starts_with("reports/")) {
            let bytes = std::fs::read(tree::root().join(path)).with_context(|| format!("read {path}"))?;
            digest.update(format!("{path}\n{}\n", bytes.len()).as_bytes());
            digest.update(&bytes);
        }
        let copy = |lane: usize| {
            let (lane, tmp) = (base.join(format!("lane-{lane}")), tmp.join(lane.to_string()));
            std::fs::create_dir_all(&tmp)?;
            let scratch = Scratch { tree: lane.join("tree"), target: lane.join("target"), tmp };
            scratch.update(&wanted).map(|()| scratch)
        };
        let lanes = (0..lanes).map(copy).collect::<Result<_>>()?;
        Ok(Scratches { lanes, digest: digest.finalize().to_hex().to_string(), _alone: alone })
    }

    /// What is known of this tree from runs that were cut off.
    pub(crate) fn progress(&self) -> Progress {
        Progress::of(&self.digest, base().join("progress.json"))
    }
}

impl Scratch {
    /// Makes the copy the tree's, file by file.
    fn update(&self, wanted: &[String]) -> Result<()> {
        for path in self.present(&self.tree)? {
            if wanted.binary_search(&path).is_err() {
                std::fs::remove_file(self.tree.join(&path)).with_context(|| format!("remove {path}"))?;
            }
        }
        for path in wanted {
            let bytes = std::fs::read(tree::root().join(path)).with_context(|| format!("read {path}"))?;
            let copy = self.tree.join(path);
            if std::fs::read(&copy).is_ok_and(|present| present == bytes) {
                continue;
            }
            std::fs::create_dir_all(copy.parent().expect("a file stands in a folder"))?;
            std::fs::write(&copy, bytes).with_context(|| format!("write {}", copy.display()))?;
        }
        Ok(())
    }

    fn present(&self, folder: &Path) -> Result<Vec<String>> {
        let mut paths = Vec::new();
        let Ok(entries) = std::fs::read_dir(folder) else { return Ok(paths) };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                paths.extend(self.present(&entry.path())?);
                continue;
            }
            let path = entry.path();
            let inside = path.strip_prefix(&self.tree).expect("the walk began at the tree");
            paths.push(inside.to_string_lossy().into_owned());
        }
        Ok(paths)
    }

    pub(crate) fn read(&self, path: &str) -> Result<String> {
        std::fs::read_to_string(self.tree.join(path)).with_context(|| format!("read {path}"))
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> Result<()> {
        std::fs::write(self.tree.join(path), text).with_context(|| format!("write {path}"))
    }

    /// Builds a package's tests; what the compiler said if it refused.
    pub(crate) fn build(&self, package: &str, target: &[&str]) -> Result<Option<String>> {
        let output = self
            .cargo()
            .args(["test", "--quiet", "--locked", "--no-run", "--package", package])
            .args(target)
            .output()
            .context("run cargo test --no-run")?;
        let refused = (!output.status.success()).then(|| tail(&output));
        Ok(refused)
    }

    /// Runs exactly the named tests of a package.
    pub(crate) fn test(&self, package: &str, target: &[&str], names: &[&str]) -> Result<Ran> {
        let cargo = self.cargo();
        let mut command = Command::new("timeout");
        let seconds = (SECONDS_PER_TEST * names.len()).to_string();
        command.args(["--kill-after=5", &seconds]).arg(cargo.get_program());
        command.args(["test", "--locked", "--package", package]).args(target);
        command.args(["--", "--exact"]).args(names).env("TMPDIR", &self.tmp);
        self.place(&mut command);
        // What a test says of itself is what the tail has room for.
        command.env("RUST_BACKTRACE", "0");
        // A file and no pipe: what a test left running has the other end of that, and we would wait for it.
        let said = self.target.join("said.txt");
        let out = File::create(&said)?;
        command.stderr(out.try_clone()?).stdout(out);
        let status = command.status().context("run cargo test")?;
        leftovers::end(&self.tmp)?;
        let output = Output { status, stdout: std::fs::read(&said)?, stderr: Vec::new() };
        Ok(Ran::read(&output, tail(&output)))
    }

    fn cargo(&self) -> Command {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(program);
        self.place(&mut command);
        command
    }

    /// In the copy, for its own target folder. Nobody debugs a sabotaged test: without symbols it is built sooner.
    fn place(&self, command: &mut Command) {
        command.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        command.env("CARGO_PROFILE_DEV_DEBUG", "false");
    }
}

fn tail(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
