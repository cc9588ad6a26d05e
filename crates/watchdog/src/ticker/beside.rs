//! What runs beside the cadence: one program of a kind at a time, and no tick of the watchdog waits for one.

use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{clock, state};
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};

use super::failing::{FAILING, Failing};
use super::{escalate, outcome, program};
use crate::context::Context;
use crate::error::Error;

/// Longest that a tick of cron or of loops may take: a thousand messages take two seconds. What a slow disk has no time for the
/// next one goes on with, since what is sent is sent; and of one that hangs the next comes while what is due is still fresh.
const SCHEDULED: Duration = Duration::from_secs(20);

/// A kind of program.
pub(super) struct Kind {
    pub(super) name: &'static str,
    args: &'static [&'static str],
    /// Longest that one may take before it is killed.
    deadline: Duration,
    /// Shortest time from one to the next, however short the interval.
    apart: Duration,
    /// Whether there is anything for it to do.
    is_any: fn(&Layout) -> bool,
    schedule: Option<Schedule>,
}

/// What there is to know of a tick that nobody else makes up for.
struct Schedule {
    /// The lock in which one that comes to its end says so, whatever it found.
    noted: fn(&Layout) -> PathBuf,
    /// What it means that none does.
    lost: &'static str,
}

/// All of them.
pub(super) const KINDS: [&Kind; 3] = [
    &Kind {
        name: "cron",
        args: &["cron", "tick"],
        deadline: SCHEDULED,
        apart: Duration::ZERO,
        is_any: |layout| state::exists(layout.cron()).unwrap_or(true),
        schedule: Some(Schedule { noted: Layout::cron_lock, lost: "nobody is told what cron.toml says" }),
    },
    &Kind {
        name: "loop",
        args: &["loop", "tick"],
        deadline: SCHEDULED,
        apart: Duration::ZERO,
        is_any: netsky_schedule::loops::is_any,
        schedule: Some(Schedule { noted: Layout::loops_lock, lost: "no loop fires" }),
    },
    &Kind {
        name: "ingest",
        // It ends by itself, between two batches: the disk is not its alone, and a `query` that meets it waits somewhat longer.
        args: &["ledger", "ingest", "--for", "4s"],
        // It hangs, or looks for damage in a database of some GB on a slow disk.
        deadline: Duration::from_secs(10 * 60),
        // `query` ingests for itself.
        apart: Duration::from_secs(20),
        is_any: |_| true,
        schedule: None,
    },
];

/// The programs of one kind, one at a time.
pub(super) struct Beside {
    pub(super) kind: &'static Kind,
    at_work: Option<JoinHandle<Ran>>,
    /// When the last one began.
    began: Option<Stamp>,
    failing: Failing,
}

/// How one ended.
struct Ran {
    outcome: String,
    took: Duration,
    failing: Failing,
}

/// `state/tick/cron.json` and `loop.json`: the last one of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRun {
    /// Format version.
    pub v: u64,
    /// When it was seen to have ended.
    pub at: Stamp,
    /// How it ended.
    pub outcome: String,
    /// How long it took.
    pub duration_ms: u64,
    /// For how long none has come to its end.
    pub failing_ms: Option<u64>,
}

impl LastRun {
    /// Whether none has come to its end for so long that the owner was told.
    pub(crate) fn is_stalled(&self) -> bool {
        self.failing_ms.is_some_and(|ms| u128::from(ms) >= FAILING.as_millis())
    }
}

/// The last one of each kind, by name.
pub(crate) fn last_runs(layout: &Layout) -> impl Iterator<Item = (&'static str, LastRun)> {
    let kinds = KINDS.into_iter().filter(|kind| kind.schedule.is_some());
    kinds.filter_map(|kind| Some((kind.name, state::read_json(layout.tick(kind.name)).ok()??)))
}

impl Beside {
    pub(super) fn new(kind: &'static Kind) -> Beside {
        Beside { kind, at_work: None, began: None, failing: Failing::default() }
    }

    pub(super) fn is_at_work(&self) -> bool {
        self.at_work.is_some()
    }

    /// Tells of the one that has ended.
    pub(super) fn look(&mut self, cx: &Context<'_>, said: &impl Fn(&str)) {
        let Some(ended) = self.at_work.take_if(|at_work| at_work.is_finished()) else { return };
        let (name, failing) = (self.kind.name, self.failing);
        let panicked = |_| Ran { outcome: "panicked".to_owned(), took: Duration::ZERO, failing };
        let Ran { outcome, took, failing } = ended.join().unwrap_or_else(panicked);
        if outcome != "done" {
            said(&format!("{} {name}: {outcome} in {} ms", clock::wall(), took.as_millis()));
        }
        cx.record.tick(name, &outcome, took);
        self.failing = failing;
        let failing_ms = failing.lasts(clock::boot()).map(|lasts| lasts.as_millis() as u64);
        let duration_ms = took.as_millis() as u64;
        let last = LastRun { v: 1, at: clock::stamp(), outcome, duration_ms, failing_ms };
        if self.kind.schedule.is_some()
            && let Err(error) = state::write_json(cx.layout.tick(name), &last)
        {
            said(&error.to_string());
        }
    }

    /// Begins one, unless one is at work, it is too early, or there is nothing to do.
    pub(super) fn begin(&mut self, cx: &Context<'_>, said: &impl Fn(&str)) {
        let (kind, now) = (self.kind, clock::stamp());
        let is_early = self.began.as_ref().is_some_and(|began| now.since(began) < kind.apart);
        if self.is_at_work() || is_early {
            return;
        }
        if !(kind.is_any)(cx.layout) {
            self.failing = Failing::default();
            let _ = state::remove(cx.layout.tick(kind.name));
            return;
        }
        self.began = Some(now.clone());
        let (program, telling, mut failing) =
            (program(cx, kind.args), program(cx, &["escalate"]), self.failing);
        let noted = kind.schedule.as_ref().map(|schedule| (schedule.noted)(cx.layout));
        let run = move || {
            let began = clock::boot();
            let outcome = outcome(program.run(kind.deadline).map_err(Error::from), kind.deadline);
            let took = clock::boot().saturating_sub(began);
            // Here, where nobody waits for it.
            if let Some((schedule, noted)) = kind.schedule.as_ref().zip(noted)
                && failing.look(outcome == "done" || came(&noted, &now), clock::boot())
            {
                let what = format!("no {} tick", kind.name);
                failing.told =
                    escalate(telling, &what, schedule.lost, &outcome, &format!("ticks.{}", kind.name));
            }
            Ran { outcome, took, failing }
        };
        match thread::Builder::new().spawn(run) {
            Ok(at_work) => self.at_work = Some(at_work),
            Err(error) => said(&format!("{} {}: {error}", clock::wall(), kind.name)),
        }
    }
}

/// Whether the one that began then said that it came to its end: it may have found what it could not do.
fn came(noted: &Path, began: &Stamp) -> bool {
    let ended: Option<Stamp> = Lock::noted(noted);
    ended.is_some_and(|ended| ended.boot_id == began.boot_id && ended.boot_ms >= began.boot_ms)
}
