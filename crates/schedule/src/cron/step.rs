//! What is due, from an entry, what is kept of it, and the time. Pure: whoever calls sends, and keeps what comes of that.
//!
//! Promise: a time that was told of is never due again. However long nobody looked, one envelope stands for all that passed.

use jiff::{SignedDuration, Timestamp};
use netsky_model::stamp::Stamp;

use super::file::{CatchUp, Entry};
use super::state::{Known, envelope_id};

/// How late a tick of the usual interval may come for what it finds to be due now and not missed: twice that.
pub const LATE: SignedDuration = SignedDuration::from_secs(120);
/// A calendar that was set further than that is another calendar.
pub const STEP: SignedDuration = SignedDuration::from_hours(3);
/// A look at the clocks that is off by so much is replaced by a new one: clocks that are drawn slowly never come to a step.
const DRIFT: SignedDuration = SignedDuration::from_secs(60);
/// Times that are counted one by one: more than two months of minutes. More of them than that are as good as any number.
const COUNTED: u64 = 100_000;
/// Longest reason that is kept.
const LONGEST_ERROR: usize = 300;

/// What a look at the clocks says of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// By how much the calendar was set since, where that is too much to go on from.
    pub stepped: Option<SignedDuration>,
    /// Whether later looks are held against this one.
    pub keep: bool,
}

/// Judges the clocks. On one boot the calendar is held against the clock that never steps, so that a sleep is none; where
/// the boot is another one it may only have gone on.
pub fn clocks(before: Option<&Stamp>, now: &Stamp) -> Clocks {
    let Some(before) = before else { return Clocks { stepped: None, keep: true } };
    let went = now.wall.duration_since(before.wall);
    let set = match before.boot_id == now.boot_id {
        true => {
            let ran = now.boot_ms as i64 - before.boot_ms as i64;
            went - SignedDuration::from_millis(ran)
        }
        false => went.min(SignedDuration::ZERO),
    };
    Clocks {
        // The two clocks are not read in one moment, and drift.
        stepped: (set.abs() > STEP + DRIFT).then_some(set),
        keep: before.boot_id != now.boot_id || set.abs() > DRIFT,
    }
}

/// A look.
#[derive(Debug, Clone, Copy)]
pub struct At {
    /// When.
    pub now: Timestamp,
    /// Whether the calendar was set since the one before.
    pub stepped: bool,
    /// What is later than that is missed: looks are no closer together.
    pub late: SignedDuration,
}

impl At {
    fn is_late(&self, slot: Timestamp) -> bool {
        self.now.duration_since(slot) > self.late
    }
}

/// A time that is to be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Which; whoever repeats it after a death finds the same one.
    pub slot: Timestamp,
    /// How many more have passed since.
    pub further: u64,
    /// How many are told with it in all.
    pub missed: u64,
}

impl Known {
    /// Looks at an entry: what is kept of it from now on, and what is due.
    pub fn look(before: Option<&Known>, entry: &Entry, at: At) -> (Known, Option<Due>) {
        let (schedule, now) = (entry.fingerprint(), at.now);
        let mut known = match before {
            Some(known) if known.schedule == schedule => known.clone(),
            // What it said last may wait still, and stands for what comes by the new one.
            before => Known {
                schedule,
                last_id: before.and_then(|known| known.last_id.clone()),
                ..Known::default()
            },
        };
        if !entry.enabled {
            known.next_fire_utc = None;
            return (known, None);
        }
        if at.stepped {
            (known.next_fire_utc, known.last_slot_utc) = (None, None);
        }
        let Some(next) = known.next_fire_utc.or_else(|| {
            // Of one that was made since the last tick, what came in between is due.
            let made = entry.created_utc.filter(|made| before.is_none() && !at.is_late(*made) && *made < now);
            let from = known.last_slot_utc.map_or(now, |last| last.max(now));
            entry.next(made.unwrap_or(from))
        }) else {
            return (known, None);
        };
        known.next_fire_utc = Some(next);
        let due = if next <= now { known.due(entry, next, at) } else { None };
        (known, due)
    }

    fn due(&mut self, entry: &Entry, next: Timestamp, at: At) -> Option<Due> {
        let now = at.now;
        let window = SignedDuration::try_from(entry.window).unwrap_or(SignedDuration::MAX);
        let is_caught_up = |slot| !at.is_late(slot) || now.duration_since(slot) <= window;
        let (newest, count) = passed(entry, next, now);
        let slot = match entry.catch_up {
            CatchUp::Once => is_caught_up(newest).then_some((next, count)),
            // Nobody was late for what could not be told.
            CatchUp::Skip if self.last_error.is_some() && is_caught_up(next) => Some((next, count)),
            CatchUp::Skip if !at.is_late(next) => Some((next, count)),
            CatchUp::Skip => entry
                .next(now - at.late)
                .filter(|slot| *slot <= now)
                .map(|slot| (slot, passed(entry, slot, now).1)),
        };
        let told = slot.map_or(0, |(_, told)| told);
        self.missed += count - told;
        self.untold += count - told;
        let Some((slot, told)) = slot else {
            self.next_fire_utc = entry.next(now);
            self.last_error = None;
            return None;
        };
        self.next_fire_utc = Some(slot);
        let further = told - 1;
        Some(Due { slot, further, missed: further + self.untold })
    }

    /// Its envelope is placed.
    pub fn fired(&mut self, entry: &Entry, due: Due, now: Timestamp) {
        self.over(entry, now);
        (self.last_fire_utc, self.last_slot_utc) = (Some(now), Some(due.slot));
        self.last_id = Some(envelope_id(&entry.id, due.slot));
        (self.missed, self.untold) = (due.missed, 0);
    }

    /// Its envelope was placed before, by somebody who died before he could keep that. What came since the last time that it
    /// tells of is looked at anew.
    pub fn had_fired(&mut self, entry: &Entry, due: Due, now: Timestamp) {
        self.fired(entry, due, now);
        let last = (0..due.further).try_fold(due.slot, |slot, _| entry.next(slot));
        self.next_fire_utc = last.and_then(|last| entry.next(last));
    }

    /// The envelope before waits still, and stands for this one too.
    pub fn coalesced(&mut self, entry: &Entry, due: Due, now: Timestamp) {
        self.over(entry, now);
        self.missed += due.further + 1;
    }

    /// It could not be told, and is due still.
    pub fn failed(&mut self, why: &str) {
        self.last_error = Some(why.chars().take(LONGEST_ERROR).collect());
    }

    fn over(&mut self, entry: &Entry, now: Timestamp) {
        self.next_fire_utc = entry.next(now);
        self.last_error = None;
    }
}

/// The newest time from `first` on that has come, and how many have.
fn passed(entry: &Entry, first: Timestamp, now: Timestamp) -> (Timestamp, u64) {
    let (mut newest, mut count) = (first, 1);
    while let Some(slot) = entry.next(newest).filter(|slot| *slot <= now) {
        (newest, count) = (slot, count + 1);
        if count == COUNTED {
            // So many come often.
            return (now, count);
        }
    }
    (newest, count)
}
