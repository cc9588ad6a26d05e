//! When a start that keeps failing is tried again: at once the first time, then later and later, and
//! never given up for ever.

use std::time::Duration;

use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};

/// Attempts further back than this are forgotten.
const WINDOW: Duration = Duration::from_secs(30 * 60);
/// Wait after the first failed attempt; doubled for each further one.
const FIRST: Duration = Duration::from_secs(10);
/// Longest wait below the crashloop.
const LONGEST: Duration = Duration::from_secs(10 * 60);
/// Attempts within the window that make a crashloop.
const CRASHLOOP: usize = 5;
/// In a crashloop: one half-open try an hour.
const HALF_OPEN: Duration = Duration::from_secs(60 * 60);

/// `state/<agent>-restart-attempts`: starts that were not proved yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Attempts {
    /// Format version.
    pub(crate) v: u64,
    /// When each was made.
    pub(crate) at: Vec<Stamp>,
}

impl Attempts {
    /// One more attempt now; what no rule looks at any more is forgotten.
    pub(crate) fn add(&mut self, now: &Stamp) {
        self.v = 1;
        self.at.retain(|at| now.since(at) < HALF_OPEN);
        self.at.push(now.clone());
    }

    /// Attempts within the window.
    fn recent(&self, now: &Stamp) -> usize {
        self.at.iter().filter(|at| now.since(at) < WINDOW).count()
    }

    /// Whether they make a crashloop.
    pub(crate) fn is_crashloop(&self, now: &Stamp) -> bool {
        self.recent(now) >= CRASHLOOP
    }

    /// How long to wait yet; zero: try now.
    pub(crate) fn wait(&self, now: &Stamp) -> Duration {
        let Some(last) = self.at.last() else { return Duration::ZERO };
        let pause = match self.recent(now) {
            0 => Duration::ZERO,
            CRASHLOOP.. => HALF_OPEN,
            n => LONGEST.min(FIRST * (1 << (n - 1))),
        };
        pause.saturating_sub(now.since(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Stamp {
        let wall = jiff::Timestamp::from_second(1_000_000).expect("in range");
        Stamp { wall, boot_ms: secs * 1000, boot_id: "b".to_owned() }
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
        assert!(!attempts.is_crashloop(&at(now)), "an hour later the window is empty");
    }

    #[test]
    fn five_in_the_window_are_a_crashloop_and_it_ends_by_itself() {
        let mut attempts = Attempts::default();
        for secs in 0..5 {
            attempts.add(&at(secs));
        }
        assert!(attempts.is_crashloop(&at(5)));
        assert_eq!(attempts.wait(&at(5)).as_secs(), 3599);
        assert_eq!(attempts.wait(&at(3604)), Duration::ZERO);
    }
}
