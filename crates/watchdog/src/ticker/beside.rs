//! What runs beside the cadence: one program of a kind at a time, and no tick of the watchdog waits for one.

use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{clock, state};
use netsky_model::stamp::Stamp;
use netsky_schedule::{Coming, cron, loops};
use netsky_work::task::Claims;
use serde::{Deserialize, Serialize};

use super::failing::{FAILING, Failing};
use super::{escalate, is_since, program, timed};
use crate::context::Context;

/// Longest that a tick of cron or of loops may take: a thousand messages take two seconds. What a slow disk has no time for the
/// next one goes on with, since what is sent is sent; and of one that hangs the next comes while what is due is still fresh.
const SCHEDULED: Duration = Duration::from_secs(20);

/// Shortest time from one tick to the next of its kind that no slot asks for.
const STORM: Duration = Duration::from_secs(1);

/// What changes whenever what is asked for does, and what else changes when the next one comes.
type Changes = [Option<String>; 2];

/// A kind of program.
pub(super) struct Kind {
    pub(super) name: &'static str,
    args: &'static [&'static str],
    /// Longest that one may take before it is killed.
    deadline: Duration,
    /// Shortest time from one to the next, however short the interval.
    apart: Duration,
    /// Whether there is anything for it to do.
    is_any: fn(&Layout, &mut Claims) -> bool,
    schedule: Option<Schedule>,
}

/// What there is to know of a tick that nobody else makes up for.
struct Schedule {
    /// The lock in which one that comes to its end says so, whatever it found.
    noted: fn(&Layout) -> PathBuf,
    /// What it means that none does.
    lost: &'static str,
    changes: fn(&Layout) -> Changes,
    /// What comes first that was not due then; it is also said whether what is asked for has changed since.
    coming: fn(&Layout, &Stamp, bool) -> Coming,
}

/// All of them.
pub(super) const KINDS: [&Kind; 4] = [
    &Kind {
        name: "cron",
        args: &["cron", "tick"],
        deadline: SCHEDULED,
        apart: Duration::ZERO,
        // Of a file that was removed one tick has to see that.
        is_any: |layout, _| {
            [layout.cron(), layout.good_cron()].iter().any(|file| state::exists(file).unwrap_or(true))
        },
        schedule: Some(Schedule {
            noted: Layout::cron_lock,
            lost: "nobody is told what cron.toml says",
            changes: cron::changes,
            coming: |layout, since, changed| {
                if changed { Coming::Unknown } else { cron::coming(layout, since) }
            },
        }),
    },
    &Kind {
        name: "loop",
        args: &["loop", "tick"],
        deadline: SCHEDULED,
        apart: Duration::ZERO,
        is_any: |layout, _| loops::is_any(layout),
        schedule: Some(Schedule {
            noted: Layout::loops_lock,
            lost: "no loop fires",
            changes: |layout| [loops::changes(layout), None],
            coming: |layout, since, _| loops::coming(layout, since),
        }),
    },
    &Kind {
        name: "task",
        args: &["task", "tick"],
        deadline: SCHEDULED,
        // Whoever claims what is held finds the end of a generation for itself; this is for who only looks.
        apart: Duration::from_secs(5),
        is_any: |layout, claims| claims.is_any(layout),
        schedule: None,
    },
    &Kind {
        name: "ingest",
        // It ends by itself, between two batches: the disk is not its alone, and a `query` that meets it waits somewhat longer.
        args: &["ledger", "ingest", "--for", "4s"],
        // It hangs, or looks for damage in a database of some GB on a slow disk.
        deadline: Duration::from_secs(10 * 60),
        // `query` ingests for itself.
        apart: Duration::from_secs(20),
        is_any: |_, _| true,
        schedule: None,
    },
];

/// The programs of one kind, one at a time.
pub(super) struct Beside {
    pub(super) kind: &'static Kind,
    at_work: Option<JoinHandle<Ran>>,
    /// When the last one began, and what was asked for then.
    began: Option<(Stamp, Option<String>)>,
    /// When the next one is due that no slot asks for, and as what was read for that.
    due: Option<(Changes, Option<Duration>)>,
    failing: Failing,
    /// What was seen of tasks: nobody reads the whole record at each look.
    claims: Claims,
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
        Beside {
            kind,
            at_work: None,
            began: None,
            due: None,
            failing: Failing::default(),
            claims: Claims::default(),
        }
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
        let is_early = self.began.as_ref().is_some_and(|(began, _)| now.since(began) < kind.apart);
        if self.is_at_work() || is_early {
            return;
        }
        let [asked, _] = kind.schedule.as_ref().map_or_else(Changes::default, |of| (of.changes)(cx.layout));
        (self.began, self.due) = (Some((now.clone(), asked)), None);
        if !(kind.is_any)(cx.layout, &mut self.claims) {
            self.failing = Failing::default();
            let _ = state::remove(cx.layout.tick(kind.name));
            return;
        }
        let (program, telling, mut failing) =
            (program(cx, kind.args), program(cx, &["escalate"]), self.failing);
        let noted = kind.schedule.as_ref().map(|schedule| (schedule.noted)(cx.layout));
        let run = move || {
            let (outcome, took) = timed(program, kind.deadline);
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

impl Beside {
    /// When the next one is due though no slot comes, by the boot clock. Files are read when they have changed.
    pub(super) fn due(&mut self, layout: &Layout) -> Option<Duration> {
        let (schedule, (began, asked)) = self.kind.schedule.as_ref().zip(self.began.as_ref())?;
        if self.at_work.is_some() {
            return None;
        }
        let changes = (schedule.changes)(layout);
        if self.due.as_ref().is_none_or(|(of, _)| *of != changes) {
            let changed = changes[0] != *asked;
            let due = due_at(began, (schedule.coming)(layout, began, changed), changed);
            self.due = Some((changes, due));
        }
        self.due.as_ref().and_then(|(_, due)| *due)
    }
}

/// By the boot clock. What could not be told of is due still, and is tried again at the next slot; so is what only a tick can
/// say where nothing has changed since the last one.
fn due_at(began: &Stamp, coming: Coming, changed: bool) -> Option<Duration> {
    let left = match coming {
        // That clock is read in whole milliseconds, and the tick must not come before it is due.
        Coming::In(left) => left + Duration::from_millis(1),
        Coming::Unknown if changed => Duration::ZERO,
        Coming::Never | Coming::Unknown => return None,
    };
    Some(Duration::from_millis(began.boot_ms).saturating_add(left.max(STORM)))
}

/// Whether the one that began then said that it came to its end: it may have found what it could not do.
fn came(noted: &Path, began: &Stamp) -> bool {
    let ended: Option<Stamp> = Lock::noted(noted);
    ended.is_some_and(|ended| is_since(&ended, began))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::in_a_home;

    #[test]
    fn fm_cron_a_tick_comes_until_a_removed_file_is_known_to_be_and_none_after_that() {
        in_a_home(|cx| {
            let is_any = || (KINDS[0].is_any)(cx.layout, &mut Claims::default());
            assert!(KINDS[0].name == "cron" && !is_any());
            std::fs::write(
                cx.layout.cron(),
                "[[entries]]\nagent = \"agent0\"\nprompt = \"x\"\nschedule = \"@daily\"\n",
            )
            .expect("written");
            crate::cron_tick(cx).expect("it comes");
            std::fs::remove_file(cx.layout.cron()).expect("there");
            assert!(is_any());
            crate::cron_tick(cx).expect("it comes");
            assert!(!is_any() && cx.layout.removed_cron().exists());
        });
    }

    #[test]
    fn t24_what_is_due_between_two_slots_comes_then_and_at_most_once_a_second() {
        let began = Stamp {
            wall: "2026-04-19T19:00:00Z".parse().expect("an instant"),
            boot_ms: 10_000,
            boot_id: "0a1b2c3d".to_owned(),
        };
        let ms = Duration::from_millis;
        let due = |coming, changed| due_at(&began, coming, changed).map(|due| due.as_millis());
        assert_eq!(due(Coming::In(ms(2500)), false), Some(12_501));
        assert_eq!(due(Coming::In(ms(10)), true), Some(11_000), "no storm");
        assert_eq!((due(Coming::Never, true), due(Coming::Unknown, false)), (None, None));
        assert_eq!(due(Coming::Unknown, true), Some(11_000));
    }
}
