//! What runs beside the cadence: one program of a kind at a time, and no tick of the watchdog waits for one.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use netsky_disk::layout::Layout;
use netsky_disk::{clock, state};

use super::{outcome, program};
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
}

/// All of them.
pub(super) const KINDS: [&Kind; 3] = [
    &Kind {
        name: "cron",
        args: &["cron", "tick"],
        deadline: SCHEDULED,
        apart: Duration::ZERO,
        is_any: |layout| state::exists(layout.cron()).unwrap_or(true),
    },
    &Kind {
        name: "loop",
        args: &["loop", "tick"],
        deadline: SCHEDULED,
        apart: Duration::ZERO,
        is_any: netsky_schedule::loops::is_any,
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
    },
];

/// The programs of one kind, one at a time.
pub(super) struct Beside {
    pub(super) kind: &'static Kind,
    at_work: Option<JoinHandle<Ran>>,
    /// When the last one began, by the boot clock.
    began: Option<Duration>,
}

/// How one ended.
struct Ran {
    outcome: String,
    took: Duration,
}

impl Beside {
    pub(super) fn new(kind: &'static Kind) -> Beside {
        Beside { kind, at_work: None, began: None }
    }

    pub(super) fn is_at_work(&self) -> bool {
        self.at_work.is_some()
    }

    /// Tells of the one that has ended.
    pub(super) fn look(&mut self, cx: &Context<'_>, said: &impl Fn(&str)) {
        let Some(ended) = self.at_work.take_if(|at_work| at_work.is_finished()) else { return };
        let panicked = |_| Ran { outcome: "panicked".to_owned(), took: Duration::ZERO };
        let Ran { outcome, took } = ended.join().unwrap_or_else(panicked);
        if outcome != "done" {
            let name = self.kind.name;
            said(&format!("{} {name}: {outcome} in {} ms", clock::wall(), took.as_millis()));
        }
        cx.record.tick(self.kind.name, &outcome, took);
    }

    /// Begins one, unless one is at work, it is too early, or there is nothing to do.
    pub(super) fn begin(&mut self, cx: &Context<'_>, said: &impl Fn(&str)) {
        let (kind, now) = (self.kind, clock::boot());
        let is_early = self.began.is_some_and(|began| now < began + kind.apart);
        if self.is_at_work() || is_early || !(kind.is_any)(cx.layout) {
            return;
        }
        self.began = Some(now);
        let program = program(cx, kind.args);
        let run = move || Ran {
            outcome: outcome(program.run(kind.deadline).map_err(Error::from), kind.deadline),
            took: clock::boot().saturating_sub(now),
        };
        match thread::Builder::new().spawn(run) {
            Ok(at_work) => self.at_work = Some(at_work),
            Err(error) => said(&format!("{} {}: {error}", clock::wall(), kind.name)),
        }
    }
}
