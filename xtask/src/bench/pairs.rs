//! Two things measured turn by turn, so that a busy moment hits both.

use std::time::{Duration, Instant};

use anyhow::Result;

/// Most rounds that warm caches and are not counted; never more than those that are.
const WARM_UP: usize = 5;

/// Medians of a floor and of ours.
pub(crate) struct Pair {
    /// What ours did.
    pub(crate) name: &'static str,
    /// What the floor did.
    pub(crate) floor_name: &'static str,
    pub(crate) rounds: usize,
    pub(crate) floor: Spread,
    pub(crate) ours: Spread,
}

/// The middle of many durations, and where 90 and 99 of a hundred lie below.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: Duration,
    pub(crate) p90: Duration,
    pub(crate) p99: Duration,
}

impl Pair {
    pub(crate) fn ratio(&self) -> f64 {
        self.ours.median.as_secs_f64() / self.floor.median.as_secs_f64()
    }
}

/// Runs both `rounds` times, in turns. Each returns how long the part that counts took.
pub(crate) fn alternate(
    name: &'static str,
    floor_name: &'static str,
    rounds: usize,
    mut floor: impl FnMut(usize) -> Result<Duration>,
    mut ours: impl FnMut(usize) -> Result<Duration>,
) -> Result<Pair> {
    let (mut floors, mut all_ours) = (Vec::new(), Vec::new());
    let warm_up = WARM_UP.min(rounds);
    for round in 0..rounds + warm_up {
        // Who goes first changes, since the second may find the disk's cache as the first left it.
        let (one, other) = if round % 2 == 0 {
            let one = floor(round)?;
            (one, ours(round)?)
        } else {
            let other = ours(round)?;
            (floor(round)?, other)
        };
        if round >= warm_up {
            floors.push(one);
            all_ours.push(other);
        }
    }
    Ok(Pair { name, floor_name, rounds, floor: spread(floors), ours: spread(all_ours) })
}

/// How long something takes.
pub(crate) fn timed(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed())
}

fn spread(mut durations: Vec<Duration>) -> Spread {
    durations.sort_unstable();
    let at = |part: usize| durations.get(durations.len() * part / 100).copied().unwrap_or_default();
    Spread { median: at(50), p90: at(90), p99: at(99) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_ignore_order_and_warm_up() {
        let slow_start = |round: usize| Ok(Duration::from_millis(if round < WARM_UP { 900 } else { 2 }));
        let pair = alternate("b", "a", 10, |_| Ok(Duration::from_millis(1)), slow_start).expect("runs");
        assert_eq!(pair.ours.median, Duration::from_millis(2));
        assert!((pair.ratio() - 2.0).abs() < 1e-9);
    }
}
