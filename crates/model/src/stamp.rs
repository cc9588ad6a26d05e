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
    fn across_boots_the_wall_clock_decides_and_never_goes_negative() {
        assert_eq!(at(1_100, 1, "b2").since(&at(1_000, 99_000, "b1")), Duration::from_secs(100));
        assert_eq!(at(900, 1, "b2").since(&at(1_000, 99_000, "b1")), Duration::ZERO);
    }
}
