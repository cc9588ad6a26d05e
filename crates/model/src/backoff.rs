//! When what keeps dying is started again: at once the first time, then later and later, and never given up
//! for ever. A start that was proved still counts: what dies a minute after each proof is dying all the same.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::stamp::Stamp;

/// Attempts further back than this do not make the next one wait longer.
const WINDOW: Duration = Duration::from_secs(30 * 60);
/// Wait after the first failed attempt; doubled for each further one.
const FIRST: Duration = Duration::from_secs(10);
/// Longest wait below the crashloop.
const LONGEST: Duration = Duration::from_secs(10 * 60);
/// Attempts within the window that make a crashloop.
pub const CRASHLOOP: usize = 5;
/// In a crashloop: one half-open try an hour.
const HALF_OPEN: Duration = Duration::from_secs(60 * 60);
/// Life after which a start counts as healthy and what was counted before it is forgotten: nothing that is still
/// in the window.
const HEALTHY: Duration = WINDOW;

/// `state/<agent>-restart-attempts`: a sliding window of starts of what had died. Only a healthy life removes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Attempts {
    /// Format version.
    pub v: u64,
    /// When each was made.
    pub at: Vec<Stamp>,
    /// Whether they came to be a crashloop. Only a healthy life ends one: attempts an hour apart do not look
    /// like a loop any more, and still are one.
    #[serde(default)]
    pub crashloop: bool,
    /// The attempt that made them one: the crashloop's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Stamp>,
    /// Whether the record has its page.
    #[serde(default)]
    pub paged: bool,
}

impl Attempts {
    /// One more attempt now; what no rule looks at any more is forgotten. The same one told twice is one.
    pub fn add(&mut self, now: &Stamp) {
        if self.at.last() == Some(now) {
            return;
        }
        self.v = 1;
        self.at.retain(|at| is_recent(at, now));
        self.at.push(now.clone());
        if !self.crashloop && self.at.len() >= CRASHLOOP {
            (self.crashloop, self.since) = (true, Some(now.clone()));
        }
    }

    /// How many the window holds.
    pub fn recent(&self, now: &Stamp) -> usize {
        self.at.iter().filter(|at| is_recent(at, now)).count()
    }

    /// How long to wait yet; zero: try now.
    pub fn wait(&self, now: &Stamp) -> Duration {
        let Some(last) = self.at.last() else { return Duration::ZERO };
        let pause = match self.recent(now) {
            _ if self.crashloop => HALF_OPEN,
            0 => Duration::ZERO,
            n => LONGEST.min(FIRST * (1 << (n - 1).min(CRASHLOOP))),
        };
        // One that lies ahead would be waited for until the wall clock has come to it.
        pause.saturating_sub(now.age_of(last).unwrap_or(pause))
    }

    /// Whether an agent that has lived this long has outlived what was counted against it: a restart may have failed long
    /// after its start, and left it alone.
    pub fn is_outlived(&self, now: &Stamp, lived: Duration) -> bool {
        self.at.last().is_some_and(|last| now.age_of(last).map_or(lived, |age| lived.min(age)) >= HEALTHY)
    }
}

/// Whether an attempt counts yet; one that lies ahead is of a boot that is over.
fn is_recent(at: &Stamp, now: &Stamp) -> bool {
    now.age_of(at).is_some_and(|age| age < WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Stamp {
        let wall = jiff::Timestamp::from_second(1_000_000).expect("in range");
        Stamp { wall, boot_ms: secs * 1000, boot_id: "b".to_owned() }
    }

    /// When tries are made by somebody who looks once a minute for `hours` and always fails.
    fn tries(hours: u64) -> Vec<u64> {
        let mut attempts = Attempts::default();
        let mut made = Vec::new();
        for minute in 0..hours * 60 {
            if attempts.wait(&at(minute * 60)).is_zero() {
                attempts.add(&at(minute * 60));
                made.push(minute);
            }
        }
        made
    }

    #[test]
    fn the_first_try_is_at_once_and_each_further_one_waits_longer() {
        let mut attempts = Attempts::default();
        let mut waits = Vec::new();
        let mut now = 0;
        for _ in 0..6 {
            let wait = attempts.wait(&at(now)).as_secs();
            waits.push(wait);
            now += wait;
            attempts.add(&at(now));
        }
        assert_eq!(waits, [0, 10, 20, 40, 80, 3600]);
    }

    #[test]
    fn a_crashloop_is_tried_once_an_hour_and_never_given_up() {
        assert_eq!(tries(6), [0, 1, 2, 3, 5, 65, 125, 185, 245, 305]);
    }

    #[test]
    fn what_dies_two_minutes_after_each_start_is_a_crashloop_after_five() {
        let mut attempts = Attempts::default();
        for n in 0..5 {
            assert_eq!(attempts.wait(&at(n * 120)), Duration::ZERO, "death {n}");
            assert!(!attempts.crashloop, "death {n}");
            attempts.add(&at(n * 120));
        }
        assert!(attempts.crashloop);
        assert_eq!(attempts.wait(&at(5 * 120)).as_secs(), 3600 - 120);
    }

    #[test]
    fn what_dies_once_in_a_window_is_always_started_at_once() {
        let mut attempts = Attempts::default();
        for n in 0..50 {
            assert_eq!(attempts.wait(&at(n * 1801)), Duration::ZERO);
            attempts.add(&at(n * 1801));
        }
        assert!(!attempts.crashloop);
    }

    #[test]
    fn only_a_healthy_life_forgets() {
        let mut attempts = Attempts::default();
        let later = HEALTHY.as_secs();
        assert!(!attempts.is_outlived(&at(later), HEALTHY), "there is nothing to forget");
        attempts.add(&at(0));
        attempts.add(&at(0));
        assert_eq!(attempts.at.len(), 1, "told twice");
        assert!(!attempts.is_outlived(&at(later), HEALTHY - Duration::from_millis(1)));
        assert!(!attempts.is_outlived(&at(later - 1), HEALTHY), "it failed within that life");
        assert!(attempts.is_outlived(&at(later), HEALTHY));
    }

    #[test]
    fn t9_a_wall_clock_that_is_behind_after_a_boot_delays_no_try_and_keeps_no_count() {
        let mut attempts = Attempts::default();
        (0..5).for_each(|n| attempts.add(&at(n)));
        let day = jiff::SignedDuration::from_hours(24);
        let booted = |secs| Stamp { wall: at(0).wall - day, boot_id: "b2".to_owned(), ..at(secs) };
        assert_eq!(attempts.wait(&booted(1)), Duration::ZERO);
        assert_eq!(attempts.recent(&booted(1)), 0);
        assert!(attempts.is_outlived(&booted(HEALTHY.as_secs()), HEALTHY));
        attempts.add(&booted(1));
        assert_eq!(
            (attempts.at.len(), attempts.wait(&booted(1)).as_secs()),
            (1, 3600),
            "it still is a crashloop"
        );
    }

    #[test]
    fn a_single_failure_is_forgotten_with_its_window() {
        let mut attempts = Attempts::default();
        attempts.add(&at(0));
        assert_eq!(attempts.wait(&at(5)).as_secs(), 5);
        assert_eq!(attempts.wait(&at(1801)), Duration::ZERO);
        attempts.add(&at(1801));
        assert_eq!(attempts.at.len(), 1);
    }
}
