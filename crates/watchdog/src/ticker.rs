//! The ticker: runs the ticks each interval, each as a process of its own with a deadline, so that one
//! hung call cannot stop time. It keeps its cadence on the boot clock, without drift.

use std::convert::Infallible;
use std::time::Duration;

use netsky_disk::env::Caller;
use netsky_disk::spawn::{Ended, Program};
use netsky_disk::{clock, state};
use netsky_model::id::AgentId;
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::error::Result;
use crate::keeper::only_one;

/// Longest that one tick may take before it is killed.
const DEADLINE: Duration = Duration::from_secs(60);

/// Longest that one ingest may take: it goes on where it was killed, and the next tick must not wait for it.
const INGEST_DEADLINE: Duration = Duration::from_secs(20);

/// Shortest pause between two ingests, however short the interval: `query` ingests for itself.
const INGEST_PAUSE: Duration = Duration::from_secs(20);

/// `state/tick/ticker.json`: the ticker's last beat.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LastBeat {
    /// Format version.
    pub(crate) v: u64,
    /// When the last tick ended.
    pub(crate) at: Stamp,
    /// How often it ticks.
    pub(crate) interval_ms: u64,
    /// How the last tick ended.
    pub(crate) outcome: String,
    /// How long it took.
    pub(crate) duration_ms: u64,
}

fn tell(cx: &Context<'_>, beat: &LastBeat, said: &impl Fn(&str)) {
    if let Err(error) = state::write_json(cx.layout.tick("ticker"), beat) {
        said(&error.to_string());
    }
}

/// Run one watchdog tick as a process of its own.
pub(crate) fn run_tick(cx: &Context<'_>) -> Result<Ended> {
    run(cx, ["watchdog", "tick"], DEADLINE)
}

fn run(cx: &Context<'_>, verb: [&str; 2], deadline: Duration) -> Result<Ended> {
    let home = cx.layout.home().display().to_string();
    let program = Program {
        path: cx.netsky.clone(),
        args: verb.map(str::to_owned).to_vec(),
        set: [(netsky_disk::env::HOME.to_owned(), home)].into(),
        log: Some(cx.layout.watchdog_log()),
        ..Program::default()
    };
    Ok(program.run(deadline)?)
}

/// How a run ended, in words.
fn outcome(ended: Result<Ended>, deadline: Duration) -> String {
    match ended {
        Ok(Ended::Exited(Some(0))) => "done".to_owned(),
        Ok(Ended::Exited(code)) => format!("ended with {code:?}"),
        Ok(Ended::TooLate) => format!("killed after {} s", deadline.as_secs()),
        Err(error) => error.to_string(),
    }
}

/// Brings the record up to date, after the tick that keeps the constellation alive.
fn ingest(cx: &Context<'_>, said: &impl Fn(&str)) {
    let began = clock::boot();
    let outcome = outcome(run(cx, ["ledger", "ingest"], INGEST_DEADLINE), INGEST_DEADLINE);
    let took = clock::boot().saturating_sub(began);
    if outcome != "done" {
        said(&format!("{} ingest: {outcome} in {} ms", clock::wall(), took.as_millis()));
    }
    cx.record.tick("ingest", &outcome, took);
}

/// Tick for ever. Whatever fails is told and tried again at the next slot.
///
/// # Errors
/// Another ticker runs.
pub fn ticker(
    cx: &Context<'_>,
    caller: &Caller,
    interval: Duration,
    said: impl Fn(&str),
) -> Result<Infallible> {
    let _one = only_one(cx, &AgentId::ticker(), caller)?;
    let (mut next, mut next_ingest) = (clock::boot(), clock::boot());
    let mut beat = LastBeat {
        v: 1,
        at: clock::stamp(),
        interval_ms: interval.as_millis() as u64,
        outcome: "none yet".to_owned(),
        duration_ms: 0,
    };
    // Told before the first tick, which judges by it; a disk that is full must not stop time.
    tell(cx, &beat, &said);
    loop {
        let began = clock::boot();
        beat.outcome = outcome(run_tick(cx), DEADLINE);
        beat.duration_ms = clock::boot().saturating_sub(began).as_millis() as u64;
        beat.at = clock::stamp();
        cx.record.tick("watchdog", &beat.outcome, Duration::from_millis(beat.duration_ms));
        said(&format!("{} watchdog tick: {} in {} ms", beat.at.wall, beat.outcome, beat.duration_ms));
        tell(cx, &beat, &said);
        if next_ingest <= clock::boot() {
            ingest(cx, &said);
            next_ingest = clock::boot() + INGEST_PAUSE;
        }
        // After a suspend or a slow tick: the next slot of the cadence, not one for each that passed.
        let now = clock::boot();
        while next <= now {
            next += interval;
        }
        clock::pause(next - now);
    }
}
