//! An instant as it is persisted: wall clock for people, boot clock for judging ages.

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An instant on both clocks. The boot clock counts through suspend and never steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stamp {
    /// RFC 3339 UTC.
    pub wall: Timestamp,
    /// Milliseconds of the boot clock.
    pub boot_ms: u64,
    /// First 8 hex digits of the boot id: on another boot `boot_ms` says nothing.
    pub boot_id: String,
}

impl Stamp {
    /// Time from `earlier` to `self`.
    ///
    /// On one boot by the boot clock. Across boots by the wall clock, never negative: a wall clock
    /// that was set back makes an old instant look new, not future.
    pub fn since(&self, earlier: &Stamp) -> Duration {
        if self.boot_id == earlier.boot_id {
            return Duration::from_millis(self.boot_ms.saturating_sub(earlier.boot_ms));
        }
        let millis = self.wall.as_millisecond() - earlier.wall.as_millisecond();
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// Time from `earlier` to `self`; none where the clocks cannot say it: `earlier` is of another boot and the wall clock is
    /// behind it, as it is for as long as a machine without a clock of its own knows no better. What waits for an age waits
    /// no longer then.
    pub fn age_of(&self, earlier: &Stamp) -> Option<Duration> {
        let is_ahead = self.boot_id != earlier.boot_id && earlier.wall > self.wall;
        (!is_ahead).then(|| self.since(earlier))
    }

    /// The instant so much later on the same boot, on both clocks.
    #[must_use]
    pub fn later(&self, time: Duration) -> Stamp {
        let wall =
            jiff::SignedDuration::try_from(time).ok().and_then(|time| self.wall.checked_add(time).ok());
        Stamp {
            wall: wall.unwrap_or(self.wall),
            boot_ms: self.boot_ms.saturating_add(time.as_millis() as u64),
            boot_id: self.boot_id.clone(),
        }
    }

    /// Whether this instant is over at `now`: on another boot the wall clock decides.
    pub fn is_over(&self, now: &Stamp) -> bool {
        if self.boot_id == now.boot_id { self.boot_ms <= now.boot_ms } else { self.wall <= now.wall }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall: i64, boot_ms: u64, boot: &str) -> Stamp {
        let wall = Timestamp::from_second(wall).expect("in range");
        Stamp { wall, boot_ms, boot_id: boot.to_owned() }
    }

    #[test]
    fn t9_a_wall_clock_step_changes_no_age_on_one_boot() {
        let start = at(1_000_000, 5_000, "b1");
        let stepped_back = at(900_000, 65_000, "b1");
        assert_eq!(stepped_back.since(&start), Duration::from_secs(60));
    }

    #[test]
    fn t9_what_ends_later_ends_by_the_boot_clock_on_its_own_boot_and_by_the_wall_clock_on_another() {
        let end = at(1_000, 5_000, "b1").later(Duration::from_secs(60));
        assert_eq!((end.wall.as_second(), end.boot_ms), (1_060, 65_000));
        for (now, is_over) in [
            (at(9_999, 64_999, "b1"), false),
            (at(0, 65_000, "b1"), true),
            (at(1_059, 99_000, "b2"), false),
            (at(1_060, 1, "b2"), true),
        ] {
            assert_eq!(end.is_over(&now), is_over, "{now:?}");
        }
    }

    #[test]
    fn t9_an_instant_of_another_boot_that_lies_ahead_has_no_age() {
        let before = at(1_000, 99_000, "b1");
        assert_eq!(at(900, 1, "b2").age_of(&before), None);
        assert_eq!(at(1_100, 1, "b2").age_of(&before), Some(Duration::from_secs(100)));
        assert_eq!(
            at(900, 99_000, "b1").age_of(&before),
            Some(Duration::ZERO),
            "on one boot the boot clock says it"
        );
    }

    #[test]
    fn across_boots_the_wall_clock_decides_and_never_goes_negative() {
        assert_eq!(at(1_100, 1, "b2").since(&at(1_000, 99_000, "b1")), Duration::from_secs(100));
        assert_eq!(at(900, 1, "b2").since(&at(1_000, 99_000, "b1")), Duration::ZERO);
    }
}
