//! The ticker: runs the ticks of watchdog, cron and loops each interval, each as a process of its own with a deadline, so that one
//! hung call cannot stop time. It keeps its cadence on the boot clock, without drift; the ingests of the
//! record run beside it, and no tick waits for one.

use std::convert::Infallible;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use netsky_disk::env::Caller;
use netsky_disk::fs::is_real_folder;
use netsky_disk::spawn::{Ended, Program};
use netsky_disk::{clock, state};
use netsky_model::id::AgentId;
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::held;
use crate::keeper::only_one;
use crate::tick::LastTick;

/// Longest that one tick may take before it is killed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// How long ticks may come to nothing until the ticker itself tells the owner: they page for what they can.
const FAILING: Duration = Duration::from_secs(5 * 60);

/// Longest that telling him may take.
const ESCALATE: Duration = Duration::from_secs(60);

/// How long an ingest works before it ends by itself, between two batches: the disk is not its alone, and a `query` that
/// meets it waits somewhat longer.
const INGEST: &str = "4s";

/// Longest that one may take before it is killed: it hangs, or looks for damage in a database of some GB on a slow disk.
const INGEST_DEADLINE: Duration = Duration::from_secs(10 * 60);

/// Shortest time from one ingest to the next, however short the interval: `query` ingests for itself.
const INGEST_INTERVAL: Duration = Duration::from_secs(20);

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
    Ok(program(cx, &["watchdog", "tick"]).run(DEADLINE)?)
}

fn program(cx: &Context<'_>, args: &[&str]) -> Program {
    let home = cx.layout.home().display().to_string();
    Program {
        path: cx.netsky.clone(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        set: [(netsky_disk::env::HOME.to_owned(), home)].into(),
        // A tick without a log is a tick.
        log: is_real_folder(cx.layout.logs()).then(|| cx.layout.watchdog_log()),
        ..Program::default()
    }
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

/// Ticks of which none comes to its end: whatever keeps them from it keeps them from telling it.
#[derive(Default)]
struct Failing {
    /// Since when, by the boot clock.
    since: Option<Duration>,
    told: bool,
}

impl Failing {
    /// Looks at one more; whether the owner has to be told now.
    fn look(&mut self, came: bool, now: Duration) -> bool {
        if came {
            *self = Failing::default();
            return false;
        }
        let since = *self.since.get_or_insert(now);
        !self.told && now.saturating_sub(since) >= FAILING
    }
}

/// Whether the tick that began then came to its end, whatever it found.
fn came(cx: &Context<'_>, began: Duration) -> bool {
    let last: Option<LastTick> = state::read_json(cx.layout.tick("watchdog")).unwrap_or_default();
    let is_new = |last: &LastTick| Duration::from_millis(last.at.boot_ms + 1) > began;
    last.is_some_and(|last| is_new(&last)) && held::failed(cx).is_none()
}

/// Tells the owner by the way that needs nothing of what ticks need; whether he was.
fn escalate(cx: &Context<'_>, outcome: &str) -> bool {
    let text = format!(
        "no tick comes to its end for {} min, so nobody is seen to: {outcome}",
        FAILING.as_secs() / 60
    );
    let told = program(cx, &["escalate", &text, "--key", "ticks"]).run(ESCALATE);
    // 6: he was told, and the record was not.
    matches!(told, Ok(Ended::Exited(Some(0 | 6))))
}

/// The ingests of the record, one at a time.
#[derive(Default)]
struct Ingests {
    /// Says how it ended and how long it took.
    at_work: Option<JoinHandle<(String, Duration)>>,
    /// When the next may begin, on the boot clock.
    next: Duration,
}

impl Ingests {
    /// Tells of the one that has ended, and begins the next when its time has come.
    fn look(&mut self, cx: &Context<'_>, said: &impl Fn(&str)) {
        if let Some(ended) = self.at_work.take_if(|at_work| at_work.is_finished()) {
            let panicked = |_| ("panicked".to_owned(), Duration::ZERO);
            let (outcome, took) = ended.join().unwrap_or_else(panicked);
            if outcome != "done" {
                said(&format!("{} ingest: {outcome} in {} ms", clock::wall(), took.as_millis()));
            }
            cx.record.tick("ingest", &outcome, took);
        }
        let began = clock::boot();
        if self.at_work.is_none() && self.next <= began {
            let program = program(cx, &["ledger", "ingest", "--for", INGEST]);
            let run = move || {
                let ended = program.run(INGEST_DEADLINE).map_err(Error::from);
                (outcome(ended, INGEST_DEADLINE), clock::boot().saturating_sub(began))
            };
            match thread::Builder::new().spawn(run) {
                Ok(at_work) => self.at_work = Some(at_work),
                Err(error) => said(&format!("{} ingest: {error}", clock::wall())),
            }
            self.next = began + INGEST_INTERVAL;
        }
    }
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
    let (mut next, mut ingests, mut failing) = (clock::boot(), Ingests::default(), Failing::default());
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
        if failing.look(came(cx, began), clock::boot()) {
            failing.told = escalate(cx, &beat.outcome);
        }
        // After the tick that keeps the constellation alive; and where nothing was ever asked for none is started.
        let has_cron = state::exists(cx.layout.cron()).unwrap_or(true);
        let other = [("cron", has_cron), ("loop", netsky_schedule::loops::is_any(cx.layout))];
        for (what, _) in other.into_iter().filter(|(_, is_any)| *is_any) {
            let began = clock::boot();
            let outcome = outcome(program(cx, &[what, "tick"]).run(DEADLINE).map_err(Error::from), DEADLINE);
            let took = clock::boot().saturating_sub(began);
            cx.record.tick(what, &outcome, took);
            if outcome != "done" {
                said(&format!("{} {what} tick: {outcome} in {} ms", clock::wall(), took.as_millis()));
            }
        }
        ingests.look(cx, &said);
        // After a suspend or a slow tick: the next slot of the cadence, not one for each that passed.
        let now = clock::boot();
        while next <= now {
            next += interval;
        }
        clock::pause(next - now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::in_a_home;

    #[test]
    fn i10_ticks_that_come_to_nothing_for_minutes_are_told_by_who_runs_them_and_once() {
        let mut failing = Failing::default();
        let minute = |n: u64| Duration::from_secs(60 * n);
        let mut told = Vec::new();
        for (n, came) in
            [(0, false), (4, false), (5, false), (6, false), (7, true), (8, false), (12, false), (13, false)]
        {
            let due = failing.look(came, minute(n));
            failing.told |= due;
            told.extend(due.then_some(n));
        }
        assert_eq!(told, [5, 13]);
    }

    #[test]
    fn a_tick_came_if_it_said_so_and_did_not_fail() {
        in_a_home(|cx| {
            let began = clock::boot();
            assert!(!came(cx, began), "it left nothing");
            let last = LastTick { v: 1, at: clock::stamp(), duration_ms: 1, done: vec![], problems: vec![] };
            state::write_json(cx.layout.tick("watchdog"), &last).expect("written");
            assert!(came(cx, began));
            clock::pause(Duration::from_millis(5));
            assert!(!came(cx, clock::boot()), "the one before");
        });
    }
}
