//! Two things measured turn by turn, so that a busy moment hits both.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Most rounds that warm caches and are not counted; never more than those that are.
const WARM_UP: usize = 5;

/// Medians of a floor and of ours.
#[derive(Serialize, Deserialize)]
pub(crate) struct Pair {
    /// What ours did.
    pub(crate) name: String,
    /// What the floor did.
    pub(crate) floor_name: String,
    pub(crate) rounds: usize,
    pub(crate) floor: Spread,
    pub(crate) ours: Spread,
}

/// The middle of many durations, and where 90 and 99 of a hundred lie below.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Spread {
    #[serde(rename = "median_us", with = "micros")]
    pub(crate) median: Duration,
    #[serde(rename = "p90_us", with = "micros")]
    pub(crate) p90: Duration,
    #[serde(rename = "p99_us", with = "micros")]
    pub(crate) p99: Duration,
}

/// As whole microseconds.
mod micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(duration.as_micros() as u64)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_micros)
    }
}

impl Pair {
    pub(crate) fn ratio(&self) -> f64 {
        self.ours.median.as_secs_f64() / self.floor.median.as_secs_f64()
    }
}

/// Runs both `rounds` times, in turns. Each returns how long the part that counts took.
pub(crate) fn alternate(
    name: impl Into<String>,
    floor_name: impl Into<String>,
    rounds: usize,
    mut floor: impl FnMut(usize) -> Result<Duration>,
    mut ours: impl FnMut(usize) -> Result<Duration>,
) -> Result<Pair> {
    let names = [(name.into(), floor_name.into())];
    let [pair] = alternate_all(names, rounds, |round| Ok([floor(round)?]), |round| Ok([ours(round)?]))?;
    Ok(pair)
}

/// The same where a round has several parts that count.
pub(crate) fn alternate_all<const N: usize>(
    names: [(String, String); N],
    rounds: usize,
    mut floor: impl FnMut(usize) -> Result<[Duration; N]>,
    mut ours: impl FnMut(usize) -> Result<[Duration; N]>,
) -> Result<[Pair; N]> {
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
    let part = |all: &[[Duration; N]], n: usize| spread(all.iter().map(|parts| parts[n]).collect());
    let mut n = 0;
    Ok(names.map(|(name, floor_name)| {
        n += 1;
        let (floor, ours) = (part(&floors, n - 1), part(&all_ours, n - 1));
        Pair { name, floor_name, rounds, floor, ours }
    }))
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
