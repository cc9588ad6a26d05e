//! How often and how soon a session is brought back.
//!
//! Promise: at once the first time, then after 10 s, doubled (up to a minute for what is kept whatever happens).
//! [`INTENSITY`] revivals within [`WINDOW`] are a crash loop, which is tried half open and never given up; life takes back what
//! was counted, a whole window of it all. A start that is refused is none: it has pauses of its own.

use std::time::Duration;

use crate::session::Keeper;
use crate::start;

/// The longest pause between two revivals of what is kept whatever happens: a minute without its keeper is what a
/// constellation is built to bear.
const LONGEST_OF_KEPT: Duration = Duration::from_secs(60);

/// So many revivals …
pub(super) const INTENSITY: u32 = 5;
/// … within this time are a crash loop: a session is no longer tried at that pace, but half open.
pub(super) const WINDOW: Duration = Duration::from_secs(30 * 60);
/// The pace of that.
const HALF_OPEN: Duration = Duration::from_secs(60 * 60);
/// A context that took this long to be used up was no crash.
const USED: Duration = Duration::from_secs(60);

/// The pause before revival number `attempt`, counted from 0.
pub(super) fn pause(keeper: Keeper, attempt: u32) -> Duration {
    let doubled = |n: u32| start::first_pause().saturating_mul(2u32.saturating_pow(n - 1));
    match attempt {
        0 => Duration::ZERO,
        // Without its keepers a constellation does not look after itself.
        n if n >= INTENSITY && keeper == Keeper::Policy => HALF_OPEN,
        n if keeper == Keeper::Policy => doubled(n),
        n => doubled(n).min(LONGEST_OF_KEPT),
    }
}

/// The pause after so many starts in a row that were refused, counted from 1: nothing ran, so that however many there are,
/// and whatever crashed before, they are no crash loop.
pub(super) fn pause_of_refused(keeper: Keeper, refusals: u32) -> Duration {
    pause(keeper, refusals.min(INTENSITY - 1))
}

/// What of the revivals so far still counts after a life: each share of the window takes one back, so that what dies more
/// often than [`INTENSITY`] times in it comes to a crash loop, however evenly, and what dies less often never does.
pub(super) fn still_counted(revivals: u32, lived: Duration, is_used_up: bool) -> u32 {
    if lived >= WINDOW || is_used_up && lived >= USED {
        return 0;
    }
    let shares = lived.as_secs() * u64::from(INTENSITY) / WINDOW.as_secs();
    revivals.saturating_sub(u32::try_from(shares).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t13_the_first_revival_is_at_once_and_the_pauses_double_up_to_their_longest() {
        let pauses = |keeper| (0..7).map(move |attempt| pause(keeper, attempt).as_secs()).collect::<Vec<_>>();
        assert_eq!(pauses(Keeper::Anchor), [0, 10, 20, 40, 60, 60, 60]);
        assert_eq!(pauses(Keeper::Policy), [0, 10, 20, 40, 80, 3600, 3600]);
        assert_eq!(pause(Keeper::Anchor, u32::MAX), LONGEST_OF_KEPT);
        let refused = |keeper| (1..8).map(move |n| pause_of_refused(keeper, n).as_secs()).collect::<Vec<_>>();
        assert_eq!(refused(Keeper::Anchor), [10, 20, 40, 60, 60, 60, 60]);
        assert_eq!(refused(Keeper::Policy), [10, 20, 40, 80, 80, 80, 80]);
    }

    /// How a program that dies after each of so many seconds is treated, death by death: which try, and the seconds to it.
    fn tries_of(lives: u64, deaths: usize) -> Vec<(u32, u64)> {
        let mut revivals = 0;
        let each = std::iter::repeat_with(|| {
            let attempt = still_counted(revivals, Duration::from_secs(lives), false);
            revivals = attempt + 1;
            (attempt, pause(Keeper::Policy, attempt).as_secs())
        });
        each.take(deaths).collect()
    }

    #[test]
    fn t13_what_dies_evenly_more_often_than_five_times_in_half_an_hour_goes_half_open_and_what_dies_less_does_not()
     {
        for lives in [0, 61, 300, 359] {
            let wanted = [(0, 0), (1, 10), (2, 20), (3, 40), (4, 80), (5, 3600), (6, 3600)];
            assert_eq!(tries_of(lives, 7), wanted, "after {lives} s each");
        }
        for lives in [360, 600, 1_799, 1_800] {
            assert_eq!(tries_of(lives, 50), [(0, 0); 50], "after {lives} s each");
        }
        assert_eq!(still_counted(1_000, WINDOW, false), 0, "a whole window was well");
        assert_eq!(still_counted(1_000, WINDOW - Duration::from_secs(1), false), 996);
    }

    #[test]
    fn a_context_that_was_used_up_is_no_crash_but_within_a_minute() {
        assert_eq!(still_counted(4, USED, true), 0);
        assert_eq!(still_counted(4, USED - Duration::from_millis(1), true), 4);
        assert_eq!(still_counted(4, USED, false), 4);
    }
}
