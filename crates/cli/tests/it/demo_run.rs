//! Runs of the real `netsky demo`, each below a folder of its own, and what all of them must show.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

/// Demos at one time. Most of a demo is waiting: for a tick, for the pause before a second try.
const AT_ONCE: usize = 6;
static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// A turn to run a demo.
struct Turn;

impl Turn {
    fn take() -> Turn {
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |running: &mut usize| *running >= AT_ONCE;
        *ENDED.wait_while(running, full).unwrap_or_else(PoisonError::into_inner) += 1;
        Turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}

/// The program as it was built, with `ostk` beside it.
const NETSKY: &str = env!("CARGO_BIN_EXE_netsky");

/// The demo, ready to run in `folder` with nothing of the caller's environment.
pub(crate) fn command(folder: &Path, args: &[&str]) -> Command {
    command_of(Path::new(NETSKY), folder, args)
}

fn command_of(netsky: &Path, folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(netsky);
    command
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("TMPDIR", folder)
        // An agent of some other constellation may want to see it too.
        .env("NETSKY_AGENT", "agent7")
        .env("NETSKY_HOME", folder.join("another"))
        .env("OSTK_MARK", "agent7-0badcafe.g1")
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}

/// Runs one demo to its end; answers what it printed, once what every demo must show was found in it.
pub(crate) fn run(args: &[&str]) -> Result<Value> {
    run_of(Path::new(NETSKY), args)
}

/// As [`run`], with a copy of the program that has nothing beside it.
pub(crate) fn run_alone(args: &[&str]) -> Result<Value> {
    let folder = TempDir::new()?;
    let netsky = folder.path().join("netsky");
    // By a process of its own: what others start here meanwhile must not hold it open to write when it is started.
    ensure!(Command::new("cp").arg(NETSKY).arg(&netsky).status()?.success(), "not copied");
    run_of(&netsky, args)
}

fn run_of(netsky: &Path, args: &[&str]) -> Result<Value> {
    let folder = TempDir::new()?;
    let _turn = Turn::take();
    let all: Vec<&str> = ["--json", "demo", "--tick", "500ms"].iter().chain(args).copied().collect();
    let output = command_of(netsky, folder.path(), &all).output()?;
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let told: Value = serde_json::from_slice(&output.stdout).with_context(|| complaint.clone())?;
    let story = || format!("{args:?}: {complaint}{}", narration(&told));
    ensure!(output.status.success(), story());
    shows_what_it_promises(&told).with_context(story)?;
    ensure!(left(folder.path())?.is_empty(), "the throwaway home stayed: {}", story());
    Ok(told)
}

/// Runs several, and reports every one that failed.
pub(crate) fn run_all(runs: &[Vec<String>]) {
    let outcomes: Vec<Result<Value>> = std::thread::scope(|scope| {
        let started: Vec<_> = runs
            .iter()
            .map(|args| scope.spawn(|| run(&args.iter().map(String::as_str).collect::<Vec<_>>())))
            .collect();
        started.into_iter().map(|one| one.join().expect("a run does not panic")).collect()
    });
    let failures: Vec<String> =
        outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).map(|why| format!("{why:#}")).collect();
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), runs.len(), failures.join("\n\n"));
}

fn shows_what_it_promises(told: &Value) -> Result<()> {
    ensure!(
        told["holds"] == true && told["problems"] == Value::from(Vec::<Value>::new()),
        "it does not hold"
    );
    ensure!(told["two_agent0"] == false, "two agent0");
    let invariants = told["check"]["invariants"].as_array().context("no invariants")?;
    ensure!(invariants.len() >= 6, "only {} invariants were checked", invariants.len());
    ensure!(invariants.iter().all(|one| one["holds"] == true && one["looked_at"].as_u64() > Some(0)));
    let restarts = told["restarts"].as_array().context("no restarts")?;
    ensure!(restarts.last().is_some_and(|last| last["outcome"] == "verified"), "not verified");
    let envelopes = told["envelopes"].as_array().context("no envelopes")?;
    for envelope in envelopes {
        ensure!(envelope["state"] == "acked", "{envelope} is not finished");
        let again = envelope["attempt"].as_u64() > Some(1);
        ensure!(envelope["redelivered"] == again, "{envelope} is not flagged");
    }
    let tasks = told["tasks"].as_array().context("no tasks")?;
    // Whoever is killed once more is started ever later, and each clone's work is landed by itself.
    let is_usual = told["kills"].as_array().is_some_and(|kills| kills.len() == 2) && tasks.len() <= 3;
    let limit = if is_usual { 60_000 } else { 150_000 };
    ensure!(told["took_ms"].as_u64() < Some(limit), "it took {} ms", told["took_ms"]);
    ensure!(
        !tasks.is_empty() && tasks.iter().all(|task| task["sha"].is_string() && task["gate"].is_string())
    );
    ensure!(told["feed"].as_array().is_some_and(|feed| feed.len() > tasks.len()), "no feed");
    // One for each restart whose child came that far.
    let handoffs = envelopes.iter().filter(|envelope| envelope["kind"] == "handoff").count();
    ensure!((2..=restarts.len()).contains(&handoffs), "{handoffs} handoffs of {} restarts", restarts.len());
    ensure!(told["repeats"]["surfaced"] == told["repeats"]["flagged"] || killed(told, "agent0's worker"));
    let sessions = told["sessions"].as_array().context("no sessions")?;
    let pid = |session: &Value, key: &str| session[key].as_u64().context("a session without a worker");
    for session in sessions {
        ensure!(
            pid(session, "worker_pid")? == pid(session, "worker_pid_after")?,
            "{session} lost its worker"
        );
    }
    Ok(())
}

fn killed(told: &Value, target: &str) -> bool {
    told["kills"].as_array().is_some_and(|kills| kills.iter().any(|kill| kill["target"] == target))
}

/// What a reader of a failed test wants to see.
fn narration(told: &Value) -> String {
    let events = told["events"].as_array().into_iter().flatten();
    let lines = events.map(|event| format!("\n{:>8} {} {}", event["at_ms"], event["event"], event["text"]));
    format!("{}\nproblems: {}\nmissing: {}", lines.collect::<String>(), told["problems"], told["missing"])
}

/// Throwaway folders below `folder`.
pub(crate) fn left(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("netsky-demo-") {
            found.push(entry.path());
        }
    }
    Ok(found)
}
