//! Ticks that come to nothing again and again.

use std::time::Duration;

/// How long ticks may come to nothing until the ticker itself tells the owner: they page for what they can.
pub(super) const FAILING: Duration = Duration::from_secs(5 * 60);

/// Fewest of them: a machine that slept between two of them ran none meanwhile.
const FEWEST: u32 = 3;

/// Ticks of which none comes to its end: whatever keeps them from it keeps them from telling it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Failing {
    /// Since when, by the boot clock.
    since: Option<Duration>,
    /// How many.
    times: u32,
    pub(super) told: bool,
}

impl Failing {
    /// Looks at one more; whether the owner has to be told now.
    pub(super) fn look(&mut self, came: bool, now: Duration) -> bool {
        if came {
            *self = Failing::default();
            return false;
        }
        let since = *self.since.get_or_insert(now);
        self.times = self.times.saturating_add(1);
        !self.told && self.times >= FEWEST && now.saturating_sub(since) >= FAILING
    }

    /// For how long.
    pub(super) fn lasts(&self, now: Duration) -> Option<Duration> {
        self.since.map(|since| now.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i10_ticks_that_come_to_nothing_for_minutes_are_told_by_who_runs_them_and_once() {
        let mut failing = Failing::default();
        let minute = |n: u64| Duration::from_secs(60 * n);
        let mut told = Vec::new();
        for (n, came) in [
            (0, false),
            (4, false),
            (5, false),
            (6, false),
            (7, true),
            (8, false),
            (600, false),
            (601, false),
        ] {
            let due = failing.look(came, minute(n));
            failing.told |= due;
            told.extend(due.then_some(n));
        }
        assert_eq!(told, [5, 601], "asleep for hours after the first of them");
    }
}
