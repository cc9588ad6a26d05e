//! Pauses by the boot clock: neither a wall clock that is set nor a machine that sleeps makes one longer or shorter.

use std::time::Duration;

use jiff::Timestamp;
use netsky_model::stamp::Stamp;

/// How late a pause may end that the machine slept through.
const LOOK: Duration = Duration::from_secs(5);

/// Returns once a pause is over by the boot clock. The timers here stand still while the machine sleeps: whether it has
/// slept is looked at besides.
pub(super) async fn wait(boot: impl Fn() -> Duration, pause: Duration) {
    let until = boot() + pause;
    let slept = async {
        loop {
            tokio::time::sleep(LOOK).await;
            if boot() >= until {
                return;
            }
        }
    };
    // While it is awake both are over at the same time.
    let _ = tokio::time::timeout(pause, slept).await;
}

/// What has passed of a pause that was told at `told`, and began at `began` where that was said. By the wall clock only what
/// a former program told, or what lies before a reboot; nothing by one that was set back.
pub(super) fn passed(told: Timestamp, began: Option<&Stamp>, now: &Stamp) -> Duration {
    match began {
        Some(began) => now.since(began),
        None => Duration::try_from(now.wall.duration_since(told)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::Instant;

    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    #[tokio::test(start_paused = true)]
    async fn t9_a_pause_is_over_when_the_machine_wakes_that_slept_through_it_and_not_before() {
        let begun = Instant::now();
        wait(|| begun.elapsed(), HOUR).await;
        assert_eq!(begun.elapsed().as_secs(), HOUR.as_secs(), "it was awake");
        let (begun, looks) = (Instant::now(), Cell::new(0));
        let slept_after_two_looks = || {
            looks.set(looks.get() + 1);
            begun.elapsed() + if looks.get() > 2 { 8 * HOUR } else { Duration::ZERO }
        };
        wait(slept_after_two_looks, HOUR).await;
        assert_eq!(begun.elapsed().as_secs(), 2 * LOOK.as_secs());
    }

    #[test]
    fn t9_a_wall_clock_that_is_set_changes_no_pause_that_says_when_it_began() {
        let at = |wall: i64, boot_ms: u64, boot: &str| {
            let wall = Timestamp::from_second(wall).expect("in range");
            Stamp { wall, boot_ms, boot_id: boot.to_owned() }
        };
        let began = at(10_000, 5_000, "b1");
        for wall in [10_003, 20_000, 0] {
            let passed = |now: &Stamp, began| passed(at(10_000, 0, "").wall, began, now).as_secs();
            let now = at(wall, 8_000, "b1");
            assert_eq!(passed(&now, Some(&began)), 3, "{wall}");
            let by_wall = u64::try_from(wall - 10_000).unwrap_or(0);
            assert_eq!(passed(&now, None), by_wall, "a former program did not say");
            assert_eq!(passed(&at(wall, 1_000, "b2"), Some(&began)), by_wall, "another boot");
        }
    }
}
