//! Whether an agent that says nothing hangs, and which way: by silence beyond what anything excuses, and by whether its
//! program still answers a question that needs no model.
//!
//! Time counts only while this process ran: after a night's sleep of the machine nobody hangs for it.

use std::time::Duration;

use jiff::Timestamp;
use netsky_disk::{clock, process};
use netsky_kernel::session::Meta;

use super::slot::{RESCAN, Result, Slot};
use crate::config::Bounds;
use crate::driver::{Doing, Out, Room, Wedge};

/// Longest time between two looks of a process that runs.
const BETWEEN: Duration = RESCAN.saturating_add(Duration::from_secs(10));

/// Longest pause that excuses silence: a provider's limits are over within a day, or somebody has to see to them.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// What is known of an agent's signs of life, by the boot clock.
#[derive(Debug, Clone, Default)]
pub(super) struct Health {
    /// When it made progress last.
    heard: Duration,
    /// When it was asked last whether it listens.
    asked: Duration,
    /// The question that it has not answered.
    open: Option<u64>,
    /// When the pause is over that it makes by itself.
    resumes: Duration,
    /// Until when that is to last, as its provider said.
    pause: Option<Timestamp>,
    /// When it was looked at last; never if none.
    looked: Option<Duration>,
    /// Its input is full and it does not read.
    pub(super) is_deaf: bool,
}

/// What there is to see of an agent.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// It is at work, or was given something.
    is_busy: bool,
    /// It can be asked whether it listens: who has not greeted has a question before it.
    can_ask: bool,
    /// It says that it waits, and has something that it was given.
    is_lost: bool,
    /// What silence means in what it does.
    silence: Option<Wedge>,
    /// The last question that it answered.
    heard: u64,
    /// How long it makes a pause yet, as its provider asked for.
    pause: Duration,
    /// Its program is stopped.
    is_stopped: bool,
    /// Something waits that it does not read.
    waits: bool,
}

/// What follows.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    wedge: Option<Wedge>,
    /// The question to ask now.
    ask: Option<u64>,
    /// What it was given is to be asked about.
    is_lost: bool,
    /// When to look again.
    due: Option<Duration>,
}

impl Health {
    /// It made progress.
    pub(super) fn heard(&mut self, now: Duration) {
        self.heard = now;
        // As good an answer as any.
        self.open = None;
    }

    /// How long it makes a pause yet. Counted from when that was first heard: no clock that is set later makes it longer.
    fn pause(&mut self, until: Option<Timestamp>, wall: Timestamp, now: Duration) -> Duration {
        if std::mem::replace(&mut self.pause, until) != until {
            let left = until.and_then(|until| Duration::try_from(until.duration_since(wall)).ok());
            self.resumes = now + left.unwrap_or(Duration::ZERO).min(LONGEST_PAUSE);
        }
        until.map_or(Duration::ZERO, |_| self.resumes.saturating_sub(now))
    }

    fn look(&mut self, now: Duration, bounds: &Bounds, seen: &Seen) -> Look {
        match self.looked.replace(now) {
            None => (self.heard, self.asked) = (now, now),
            Some(before) => {
                let unseen = now.saturating_sub(before).saturating_sub(BETWEEN);
                (self.heard, self.asked) = (self.heard + unseen, self.asked + unseen);
            }
        }
        let number = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        // Whether it reads again is seen by what it takes: where nothing else waits for that, a question.
        let tries = (self.is_deaf && !seen.waits).then_some(number);
        if !seen.is_busy {
            self.open = None;
            self.heard = now;
            let wedge = match () {
                () if seen.is_stopped => Some(Wedge::Frozen),
                () if self.is_deaf => Some(Wedge::Deaf),
                () => None,
            };
            return Look { wedge, ask: tries, is_lost: false, due: None };
        }
        if !seen.pause.is_zero() {
            self.resumes = now + seen.pause;
        }
        // What it waits for begins with the end of its pause.
        let since = self.heard.max(self.resumes);
        self.open = self.open.filter(|number| *number > seen.heard);
        let silent = now.saturating_sub(self.heard);
        let is_late = self.open.is_some() && now.saturating_sub(self.asked) >= bounds.answer;
        let has_rested =
            seen.can_ask && silent >= bounds.probe && now.saturating_sub(self.asked) >= bounds.probe;
        let ask = (self.open.is_none() && has_rested).then_some(number);
        if ask.is_some() {
            (self.open, self.asked) = (ask, now);
        }
        // Neither at work nor free: what it was given is lost somewhere between us.
        let is_lost = seen.is_lost && silent >= bounds.probe + bounds.answer;
        if is_lost {
            self.heard = now;
        }
        let wedge = match () {
            () if seen.is_stopped || is_late => Some(Wedge::Frozen),
            () if self.is_deaf => Some(Wedge::Deaf),
            () => seen.silence.filter(|_| now.saturating_sub(since) >= bounds.silence),
        };
        let moments =
            [since + bounds.silence, self.asked.max(self.heard) + bounds.probe, self.asked + bounds.answer];
        let due = moments.into_iter().filter(|at| *at > now).min();
        Look { wedge, ask: ask.or(tries), is_lost, due }
    }
}

impl Slot<'_> {
    /// Looks whether it hangs.
    pub(super) fn look_after(&mut self, meta: &Meta) -> Result<()> {
        self.pages();
        // What a program says that it does before it has greeted is no more than a start.
        let said = match self.driver.doing().clone() {
            doing @ Doing::Wedged { .. } => {
                self.look_due = None;
                self.set_doing(doing);
                return Ok(());
            }
            doing if !self.is_met() && doing.is_busy() => Doing::Starting,
            doing => doing,
        };
        let silence = self.driver.silence();
        let until = if let Doing::Throttled { until, .. } = &said { *until } else { None };
        let pause = self.health.pause(until, clock::wall(), clock::boot());
        let seen = Seen {
            is_busy: said.is_busy() || said == Doing::Starting || self.driver.room() == Room::Steers,
            // What is not read cannot be asked either.
            can_ask: said != Doing::Starting && !self.health.is_deaf,
            // What waits for an answer is where it was put.
            is_lost: silence.is_none()
                && !said.is_busy()
                && said != Doing::Starting
                && self.driver.room() == Room::Steers,
            silence: if said == Doing::Starting { Some(Wedge::Unheard) } else { silence },
            pause,
            heard: self.driver.heard(),
            is_stopped: meta.program.as_ref().is_some_and(process::is_stopped),
            waits: !self.pending.is_empty(),
        };
        let Look { wedge, ask, is_lost, due } = self.health.look(clock::boot(), &self.bounds, &seen);
        self.look_due = due;
        if let Some(number) = ask {
            let mut step = Out::default();
            self.driver.probe(number, &mut step);
            self.take(step, self.book.offset)?;
        }
        if is_lost {
            let mut step = Out::default();
            self.driver.gap(&mut step);
            self.take(step, self.book.offset)?;
        }
        match wedge {
            Some(how) if matches!(self.book.doing, Doing::Wedged { how: known, .. } if known == how) => {}
            Some(how) => self.set_doing(Doing::Wedged { how, why: how.words().to_owned() }),
            None => self.set_doing(said),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        silence: Duration::from_secs(60),
        probe: Duration::from_secs(10),
        answer: Duration::from_secs(5),
    };

    const BUSY: Seen = Seen {
        is_busy: true,
        can_ask: true,
        is_lost: false,
        silence: Some(Wedge::Stalled),
        heard: 0,
        pause: Duration::ZERO,
        is_stopped: false,
        waits: false,
    };

    fn at(secs: u64) -> Duration {
        Duration::from_secs(1000 + secs)
    }

    #[test]
    fn who_answers_and_says_nothing_more_hangs_by_its_name_and_who_does_not_answer_is_frozen() {
        let mut health = Health::default();
        let mut look = |secs, heard| health.look(at(secs), &BOUNDS, &Seen { heard, ..BUSY });
        assert_eq!(look(0, 0), Look { wedge: None, ask: None, is_lost: false, due: Some(at(5)) });
        let asked = |secs| at(secs).as_millis() as u64;
        assert_eq!(look(10, 0).ask, Some(asked(10)));
        assert_eq!(look(14, 0).wedge, None, "it has a moment to answer");
        assert_eq!(look(16, asked(10)).wedge, None, "it answered");
        assert_eq!(look(20, asked(10)).ask, Some(asked(20)));
        assert_eq!(look(59, asked(20)).wedge, None);
        assert_eq!(look(60, asked(59)).wedge, Some(Wedge::Stalled));
        let again = look(70, asked(59));
        assert_eq!((again.wedge, again.ask), (Some(Wedge::Stalled), Some(asked(70))));
        assert_eq!(look(75, asked(59)).wedge, Some(Wedge::Frozen));
        assert_eq!(look(76, asked(70)).wedge, Some(Wedge::Stalled), "it was slow");
    }

    #[test]
    fn a_tool_may_run_for_ever_and_who_rests_is_asked_nothing() {
        let mut health = Health::default();
        let tool = Seen { silence: None, ..BUSY };
        for minute in 0..600 {
            let answered = health.open.unwrap_or(0);
            let look = health.look(at(minute * 30), &BOUNDS, &Seen { heard: answered, ..tool });
            assert_eq!(look.wedge, None, "after {minute} half minutes");
        }
        let rests = Seen { is_busy: false, ..BUSY };
        let look = health.look(at(600 * 30), &BOUNDS, &rests);
        assert_eq!(look, Look { wedge: None, ask: None, is_lost: false, due: None });
        let stopped = Seen { is_stopped: true, ..rests };
        assert_eq!(health.look(at(600 * 30), &BOUNDS, &stopped).wedge, Some(Wedge::Frozen), "nobody can say");
    }

    #[test]
    fn who_makes_the_pause_that_its_provider_asked_for_hangs_only_when_it_does_not_go_on_after_it() {
        let mut health = Health::default();
        let mut look = |secs: u64| {
            let pause = Duration::from_secs(100_u64.saturating_sub(secs));
            let silence = Some(Wedge::NoAnswer);
            let heard = at(secs).as_millis() as u64;
            health.look(at(secs), &BOUNDS, &Seen { silence, pause, heard, ..BUSY }).wedge
        };
        let wedges = [0, 30, 60, 90, 100, 120, 150, 158].map(&mut look);
        assert_eq!(wedges, [None; 8], "a minute of silence begins with the end of the pause");
        assert_eq!(look(160), Some(Wedge::NoAnswer));
    }

    #[test]
    fn a_pause_ends_by_the_boot_clock_and_lasts_a_day_at_most() {
        let (mut health, wall) = (Health::default(), Timestamp::UNIX_EPOCH);
        let until = |secs: i64| Some(Timestamp::from_second(secs).expect("in range"));
        assert_eq!(health.pause(until(100), wall, at(0)).as_secs(), 100);
        assert_eq!(health.pause(until(100), wall, at(40)).as_secs(), 60, "the wall clock was set back");
        assert_eq!(health.pause(until(100), wall, at(100)), Duration::ZERO);
        assert_eq!(health.pause(None, wall, at(100)), Duration::ZERO);
        assert_eq!(health.pause(until(10_000_000_000), wall, at(200)), LONGEST_PAUSE);
    }

    #[test]
    fn a_machine_that_slept_for_eight_hours_wakes_to_healthy_agents() {
        let mut health = Health::default();
        health.look(at(0), &BOUNDS, &BUSY);
        let look = health.look(at(8 * 3600), &BOUNDS, &BUSY);
        assert_eq!(look.wedge, None);
        health.heard(at(8 * 3600));
        assert_eq!(health.look(at(8 * 3600 + 30), &BOUNDS, &BUSY).wedge, None);
        let stopped = Seen { is_stopped: true, ..BUSY };
        assert_eq!(health.look(at(8 * 3600 + 31), &BOUNDS, &stopped).wedge, Some(Wedge::Frozen));
    }

    #[test]
    fn what_was_given_to_who_says_that_it_waits_is_asked_about_and_not_at_once() {
        let mut health = Health::default();
        let waits = Seen { is_lost: true, silence: None, ..BUSY };
        let mut lost = |secs| {
            health.look(at(secs), &BOUNDS, &Seen { heard: at(secs).as_millis() as u64, ..waits }).is_lost
        };
        assert_eq!([0, 14, 15, 16, 29, 30].map(&mut lost), [false, false, true, false, false, true]);
    }

    #[test]
    fn who_did_not_read_is_asked_until_it_takes_a_question_and_not_while_something_waits_for_that() {
        let mut health = Health { is_deaf: true, ..Health::default() };
        let rests = Seen { is_busy: false, ..BUSY };
        for seen in [rests, Seen { can_ask: false, ..BUSY }] {
            let asked = health.look(at(0), &BOUNDS, &seen);
            assert_eq!((asked.wedge, asked.ask), (Some(Wedge::Deaf), Some(at(0).as_millis() as u64)));
            assert_eq!(health.look(at(1), &BOUNDS, &Seen { waits: true, ..seen }).ask, None);
        }
        health.is_deaf = false;
        assert_eq!(
            health.look(at(2), &BOUNDS, &rests),
            Look { wedge: None, ask: None, is_lost: false, due: None }
        );
    }
}
