//! What a loop does at an instant: pure, by its file alone.
//!
//! Its times are instants of the wall clock, and the names of what is sent are made of them. When one comes is judged by the
//! boot clock as long as the machine runs, so that no step of the wall clock makes a loop early, late or twice.

use std::time::Duration;

use jiff::Timestamp;
use netsky_model::id::EnvelopeId;
use netsky_model::stamp::Stamp;

use super::entry::{Clock, DYNAMIC_DELAY, Loop, Mode, whole};

/// How far back a wall clock may be set and the instants that it repeats are those that were. Beyond that it was wrong before.
const STEP: Duration = Duration::from_secs(3 * 60 * 60);

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fire {
    /// The instant that it is for.
    pub slot: Timestamp,
    /// How many more passed since.
    pub further: u64,
}

/// What a look finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Nothing is due, and nothing will be until somebody changes it.
    Sleeps,
    /// Its time comes.
    Waits,
    /// Its time has come.
    Due(Fire),
    /// The wall clock was set back so far that its time would not come for hours.
    Stepped,
}

/// How a loop stands, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It will fire.
    Armed,
    /// It has fired and waits to be rescheduled.
    Waiting,
    /// It is paused.
    Paused,
    /// It fires no more.
    Expired,
}

impl Standing {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Standing::Armed => "armed",
            Standing::Waiting => "waiting",
            Standing::Paused => "paused",
            Standing::Expired => "expired",
        }
    }
}

impl Loop {
    /// How it stands.
    pub fn standing(&self) -> Standing {
        let is_past = self.expires_utc.is_some_and(|expires| expires <= self.next_fire_utc);
        match self.paused {
            _ if is_past => Standing::Expired,
            true => Standing::Paused,
            false if self.is_armed() => Standing::Armed,
            false => Standing::Waiting,
        }
    }

    /// Looks at it.
    pub fn look(&self, now: &Stamp) -> Look {
        if self.standing() != Standing::Armed {
            return Look::Sleeps;
        }
        if self.implausible_before().is_some_and(|far| now.wall < far) {
            return Look::Stepped;
        }
        let comes = match self.clock() {
            Some(clock) if clock.boot_id == now.boot_id => clock.boot_ms <= now.boot_ms,
            _ => self.next_fire_utc <= now.wall,
        };
        if comes { Look::Due(self.fire(now)) } else { Look::Waits }
    }

    fn fire(&self, now: &Stamp) -> Fire {
        let slot = self.next_fire_utc;
        // From its end on there are no instants.
        let end = self.expires_utc.map_or(i64::MAX, |expires| expires.as_second().saturating_sub(1));
        let late = now.wall.as_second().min(end).saturating_sub(slot.as_second());
        let further = self.secs().filter(|_| late > 0).map_or(0, |interval| late.unsigned_abs() / interval);
        Fire { slot, further }
    }

    /// The name of what is sent for an instant: a repeat after a death is the same envelope.
    pub fn envelope(&self, slot: Timestamp) -> EnvelopeId {
        let (id, slot, steps) = (self.id.to_string(), slot.to_string(), self.clock_steps.to_string());
        let parts = ["loop", &id, &slot, &steps];
        // Of a clock that was never far ahead: as the format says it.
        EnvelopeId::derived(if self.clock_steps == 0 { &parts[..3] } else { &parts })
    }

    /// It has fired.
    pub fn fired(&mut self, fire: &Fire, now: &Stamp) {
        self.last_fire_utc = Some(whole(now.wall));
        self.last_id = Some(self.envelope(fire.slot));
        self.missed = fire.further;
        self.last_error = None;
        self.go_on(fire.slot, now);
    }

    /// What is due was sent by somebody who died before he could keep that; it told of `missed` more. What came since is due.
    pub fn had_fired(&mut self, fire: &Fire, missed: u64, now: &Stamp) {
        self.fired(&Fire { further: missed, ..*fire }, now);
        if let Some(interval) = self.secs() {
            let told = i64::try_from(missed.saturating_mul(interval)).unwrap_or(i64::MAX);
            // What a hand wrote may be before its making, which is no instant of it.
            let last = fire.slot.as_second().saturating_add(told).max(self.created_utc.as_second());
            self.next_after(Timestamp::from_second(last).unwrap_or(now.wall), now);
        }
    }

    /// What it sent the last time is not read yet: that stands for this time too.
    pub fn coalesced(&mut self, fire: &Fire, now: &Stamp) {
        self.missed = self.missed.saturating_add(fire.further).saturating_add(1);
        self.last_error = None;
        self.go_on(fire.slot, now);
    }

    fn go_on(&mut self, slot: Timestamp, now: &Stamp) {
        match self.mode {
            Mode::Fixed => self.next_after(slot.max(now.wall), now),
            Mode::Dynamic => {
                self.arm(now, DYNAMIC_DELAY);
                if !self.keep_alive {
                    self.armed = Some(false);
                }
            }
        }
    }

    /// It is to fire so long from now.
    pub fn arm(&mut self, now: &Stamp, delay: Duration) {
        let secs = i64::try_from(delay.as_secs()).unwrap_or(i64::MAX);
        self.armed = None;
        self.set_next(now.wall.as_second().saturating_add(secs), delay.as_secs(), now);
        if self.last_id.as_ref() == Some(&self.envelope(self.next_fire_utc)) {
            // It has fired in this very second: another time in it would be that one.
            self.set_next(self.next_fire_utc.as_second().saturating_add(1), delay.as_secs() + 1, now);
        }
    }

    /// It fires by another interval, in the phase of its making.
    pub fn set_interval(&mut self, interval: Duration, now: &Stamp) {
        let before = i64::try_from(self.secs().unwrap_or(0)).unwrap_or(i64::MAX);
        let last = self.next_fire_utc.as_second().saturating_sub(before);
        self.interval_secs = Some(interval.as_secs());
        // Where the wall clock was set back, no instant that it may have fired for comes again.
        self.next_after(Timestamp::from_second(last).unwrap_or(now.wall).max(now.wall), now);
    }

    /// It is paused no more: nothing comes of the time between.
    pub fn resume(&mut self, now: &Stamp) {
        if !std::mem::take(&mut self.paused) || self.mode == Mode::Dynamic {
            return;
        }
        match self.look(now) {
            Look::Due(due) => self.next_after(due.slot.max(now.wall), now),
            Look::Stepped => self.recompute(now),
            Look::Waits | Look::Sleeps => {}
        }
    }

    /// The wall clock was far ahead and was set right: what is due is counted from now, and nothing is made up for. The
    /// instants of the wrong time come again, and are others.
    pub fn recompute(&mut self, now: &Stamp) {
        self.clock_steps += 1;
        match self.mode {
            Mode::Fixed => self.next_after(now.wall, now),
            Mode::Dynamic => {
                let left = self.clock().map_or(DYNAMIC_DELAY.as_secs(), |clock| {
                    let same_boot = clock.boot_id == now.boot_id;
                    if same_boot { clock.boot_ms.saturating_sub(now.boot_ms) / 1000 } else { clock.in_secs }
                });
                self.arm(now, Duration::from_secs(left));
            }
        }
    }

    /// The first instant of its phase behind one. However far ahead that is, it comes within an interval.
    fn next_after(&mut self, after: Timestamp, now: &Stamp) {
        let interval = self.secs().unwrap_or(1);
        let step = i64::try_from(interval).unwrap_or(i64::MAX);
        let created = self.created_utc.as_second();
        let passed = after.as_second().saturating_sub(created).div_euclid(step);
        let next = passed.saturating_add(1).saturating_mul(step).saturating_add(created);
        let away = u64::try_from(next.saturating_sub(now.wall.as_second())).unwrap_or(0);
        self.set_next(next, away.min(interval), now);
    }

    fn set_next(&mut self, second: i64, in_secs: u64, now: &Stamp) {
        let of = Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
        // It falls on a whole second of the wall clock, not that long behind a moment within one.
        let within = u64::from(now.wall.subsec_millisecond().unsigned_abs());
        let boot_ms = now.boot_ms.saturating_add(in_secs.saturating_mul(1000)).saturating_sub(within);
        self.next_fire_utc = of;
        self.clock = Some(Clock { of, boot_id: now.boot_id.clone(), boot_ms, in_secs });
    }

    fn secs(&self) -> Option<u64> {
        self.interval_secs.filter(|secs| *secs > 0 && self.mode == Mode::Fixed)
    }

    /// What is known of `next_fire_utc` by the boot clock.
    pub(crate) fn clock(&self) -> Option<&Clock> {
        self.clock.as_ref().filter(|clock| clock.of == self.next_fire_utc)
    }

    /// A wall clock that is before that was set back by hours since `next_fire_utc` was written.
    pub(crate) fn implausible_before(&self) -> Option<Timestamp> {
        let clock = self.clock()?;
        let away = clock.in_secs.saturating_add(STEP.as_secs());
        let second = clock.of.as_second().saturating_sub(i64::try_from(away).unwrap_or(i64::MAX));
        Some(Timestamp::from_second(second).unwrap_or(Timestamp::MIN))
    }
}

#[cfg(test)]
#[path = "tests/step.rs"]
mod tests;
