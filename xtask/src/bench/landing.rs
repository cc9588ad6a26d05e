//! From a task to its commit on `main`, against plain git: a clone, a commit, a gate, a fetch and a cherry-pick.
//!
//! In the three repositories that `NETSKY_BENCH_REPOSITORIES` names (`name=path`, with spaces between), a small one first. Each is copied
//! twice, with its present branch checked out; what is plain lands in the one, what is ours in the other.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::pairs::{Pair, alternate_all, timed};
use super::report::Measured;
use super::{Programs, bus};

/// Names repositories to measure in.
const REPOSITORIES: &str = "NETSKY_BENCH_REPOSITORIES";
const ROUNDS: usize = 3;
/// What judges on both sides: it ends at once, so that only what is ours is measured.
const GATE: &str = "/bin/true";

/// The whole way, by the size of the repository.
pub(super) const WHOLE: [&str; 3] = [
    "brief, workspace, commit, gate, harvest in a small repository",
    "brief, workspace, commit, gate, harvest in one of middle size",
    "brief, workspace, commit, gate, harvest in a large repository",
];
/// Its parts, and what is done plainly instead.
const PARTS: [(&str, &str); 2] = [
    ("`netsky workspace create`, there", "`git clone --no-local`, a branch, sync"),
    (
        "`netsky task harvest` of one commit, there",
        "`git fetch`, a clone for the gate, `git cherry-pick`, sync",
    ),
];
const PLAINLY: &str = "clone, commit, gate, fetch, cherry-pick";

pub(super) fn measure(scratch: &Path, programs: &Programs) -> Result<Measured> {
    let named = std::env::var(REPOSITORIES).unwrap_or_default();
    let all: Vec<(&str, &str)> = named.split_whitespace().filter_map(|word| word.split_once('=')).collect();
    if all.len() != WHOLE.len() {
        return Ok(Measured::nothing(&format!("Not measured: {REPOSITORIES} names no three repositories.")));
    }
    let mut measured = Measured::default();
    for ((name, path), whole) in all.into_iter().zip(WHOLE) {
        let at = scratch.join(name);
        let place = Place::make(&at, name, Path::new(path))?;
        measured.text += &format!("- {}; {}\n", place.described()?, place.first(programs)?);
        measured.pairs.extend(place.measure(whole, programs)?);
        std::fs::remove_dir_all(at)?;
    }
    Ok(measured)
}

/// One repository, twice.
struct Place {
    name: String,
    /// Where what is plain lands, and where what is ours does.
    plain: PathBuf,
    ours: PathBuf,
    work: PathBuf,
    home: PathBuf,
}

impl Place {
    fn make(at: &Path, name: &str, source: &Path) -> Result<Place> {
        std::fs::create_dir_all(at)?;
        let place = Place {
            name: name.to_owned(),
            plain: at.join("plain"),
            ours: at.join("ours"),
            work: at.join("work"),
            home: at.join("home"),
        };
        for copy in [&place.plain, &place.ours] {
            let copy = copy.to_str().context("a path is text")?;
            git(
                at,
                &["clone", "--quiet", "--no-hardlinks", "--single-branch", &source.to_string_lossy(), copy],
            )?;
            git(Path::new(copy), &["checkout", "--quiet", "-B", "main"])?;
        }
        bus::home(&place.home)?;
        let settings = format!("[gate]\ncommand = [\"{GATE}\"]\n");
        std::fs::write(place.home.join("config.toml"), settings)?;
        Ok(place)
    }

    fn described(&self) -> Result<String> {
        let asked = |args: &[&str]| said(&self.ours, args);
        let commits = asked(&["rev-list", "--count", "HEAD"])?;
        let files = asked(&["ls-files"])?.lines().count();
        Ok(format!("{}: {commits} commits, {files} files", self.name))
    }

    /// What the first workspace of a repository costs, which makes its mirror: told beside the rows.
    fn first(&self, programs: &Programs) -> Result<String> {
        let (repo, plain) = (self.ours.to_string_lossy(), self.work.join("first"));
        let floor = timed(|| {
            git(
                &self.home,
                &["clone", "--quiet", "--no-local", "--single-branch", &repo, &plain.to_string_lossy()],
            )?;
            sync(&plain)
        })?;
        std::fs::remove_dir_all(plain)?;
        programs.run(&self.home, &["task", "create", "the first", "--id", "first", "--repo", &repo])?;
        let ours = timed(|| programs.run(&self.home, &["workspace", "create", "first"]))?;
        let ratio = ours.as_secs_f64() / floor.as_secs_f64();
        Ok(format!("its first workspace, with the mirror: {ours:.2?}, {ratio:.2} of a clone"))
    }

    fn measure(&self, whole: &str, programs: &Programs) -> Result<[Pair; 3]> {
        let [made, landed] = PARTS.map(|(ours, floor)| (format!("{ours}: {}", self.name), floor.to_owned()));
        alternate_all(
            [(whole.to_owned(), PLAINLY.to_owned()), made, landed],
            ROUNDS,
            |round| self.plainly(round),
            |round| self.by_netsky(round, programs),
        )
    }

    fn plainly(&self, round: usize) -> Result<[Duration; 3]> {
        let at = self.work.join(format!("plain-{round}"));
        let (clone, gate) = (at.join("clone"), at.join("gate"));
        std::fs::create_dir_all(&at)?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let branch = format!("task/{round}");
        let cloned = timed(|| {
            git(
                &at,
                &["clone", "--quiet", "--no-local", "--single-branch", &text(&self.plain), &text(&clone)],
            )?;
            git(&clone, &["checkout", "--quiet", "-b", &branch])?;
            sync(&clone)
        })?;
        let committed = timed(|| commit(&clone, round))?;
        let landed = timed(|| {
            git(&self.plain, &["fetch", "--quiet", &text(&clone), &branch])?;
            git(&at, &["clone", "--quiet", &text(&clone), &text(&gate)])?;
            ensure!(Command::new(GATE).current_dir(&gate).status()?.success(), "the gate failed");
            git(&self.plain, &["-c", "core.fsync=all", "cherry-pick", "FETCH_HEAD"])?;
            sync(&self.plain)
        })?;
        std::fs::remove_dir_all(&at)?;
        Ok([cloned + committed + landed, cloned, landed])
    }

    fn by_netsky(&self, round: usize, programs: &Programs) -> Result<[Duration; 3]> {
        let task = format!("b{round}");
        let repo = self.ours.to_string_lossy();
        let run = |args: &[&str]| programs.run(&self.home, args);
        let briefed = timed(|| run(&["task", "create", "a line more", "--id", &task, "--repo", &repo]))?;
        let made = timed(|| run(&["workspace", "create", &task]))?;
        let clone = self.home.join("workspaces").join(&task).join("repo");
        let committed = timed(|| commit(&clone, round))?;
        let landed = timed(|| run(&["task", "harvest", &task]))?;
        ensure!(self.ours.join(file(round)).exists(), "round {round} has not landed");
        run(&["workspace", "remove", &task])?;
        Ok([briefed + made + committed + landed, made, landed])
    }
}

fn file(round: usize) -> String {
    format!("bench-{round}.txt")
}

/// One file more, and one that is there changed.
fn commit(clone: &Path, round: usize) -> Result<()> {
    std::fs::write(clone.join(file(round)), "a line\n")?;
    git(clone, &["add", &file(round)])?;
    git(clone, &["commit", "--quiet", "--message", &format!("Round {round}")])
}

fn sync(at: &Path) -> Result<()> {
    let folder = rustix::fs::open(at, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())?;
    Ok(rustix::fs::syncfs(&folder)?)
}

/// A git that knows none of the user's settings.
fn command(at: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"]).args(args);
    command.current_dir(at).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command.stdin(Stdio::null());
    command
}

fn git(at: &Path, args: &[&str]) -> Result<()> {
    let status = command(at, args).stdout(Stdio::null()).status().context("run git")?;
    ensure!(status.success(), "git {}: {status}", args.join(" "));
    Ok(())
}

fn said(at: &Path, args: &[&str]) -> Result<String> {
    let output = command(at, args).output().context("run git")?;
    ensure!(output.status.success(), "git {}: {}", args.join(" "), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
