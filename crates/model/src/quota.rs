//! How much one inbox takes, and from whom (faults A24).
//!
//! Promise: whoever floods an inbox fills his own share of it and no more; a tenth is left to the components that keep a
//! constellation and to its owner, whatever all others do; nobody sends faster than his pace for long.
//!
//! Leaves to others: counting what lies in an inbox (`bus`), and proving who sends.

use std::time::Duration;

use serde::Deserialize;

use crate::id::Sender;

/// What an inbox takes; `[bus]` of `config.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Most envelopes that wait for one agent: days of mail for a program that takes one a minute.
    pub inbox_envelopes: u64,
    /// Most bytes of them together: one inbox must not fill a disk.
    pub inbox_bytes: u64,
    /// How much of it one sender may fill, in percent: four that flood leave nothing to a fifth, three do.
    pub share_percent: u64,
    /// How much of it is left to the components and the owner, in percent.
    pub reserve_percent: u64,
    /// Messages a second of one sender to one target that go on for ever: no program reads as fast.
    pub rate_per_second: u64,
    /// Messages that may come at once before the rate counts.
    pub burst: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            inbox_envelopes: 10_000,
            inbox_bytes: 64 << 20,
            share_percent: 25,
            reserve_percent: 10,
            rate_per_second: 1_000,
            burst: 10_000,
        }
    }
}

/// Envelopes and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// How many.
    pub envelopes: u64,
    /// How large together.
    pub bytes: u64,
}

impl Load {
    /// With one more envelope of so many bytes.
    pub fn add(&mut self, bytes: usize) {
        self.envelopes += 1;
        self.bytes += bytes as u64;
    }

    fn fits(self, limit: Load) -> bool {
        self.envelopes <= limit.envelopes && self.bytes <= limit.bytes
    }
}

/// Which limit a message would go over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// All that waits for the agent; holds what waits and what may.
    Inbox(Load, Load),
    /// What waits of this sender; holds what waits and what may.
    Share(Load, Load),
}

impl std::fmt::Display for Over {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whose, held, limit) = match self {
            Over::Inbox(held, limit) => ("it holds", held, limit),
            Over::Share(held, limit) => ("it holds of this sender", held, limit),
        };
        write!(
            f,
            "{whose} {} of at most {} envelopes and {} of at most {} bytes",
            held.envelopes, limit.envelopes, held.bytes, limit.bytes
        )
    }
}

impl Limits {
    /// Why these are no limits, or leave an agent not one envelope or byte: which key of `[bus]`, and what it must be.
    /// None if all is well.
    pub fn trouble(&self) -> Option<String> {
        let all = u64::MAX;
        for (key, value, least, most) in [
            ("inbox_envelopes", self.inbox_envelopes, 1, all),
            ("inbox_bytes", self.inbox_bytes, 1, all),
            ("share_percent", self.share_percent, 1, 100),
            ("reserve_percent", self.reserve_percent, 0, 99),
            ("rate_per_second", self.rate_per_second, 1, all),
            ("burst", self.burst, 1, all),
        ] {
            if !(least..=most).contains(&value) {
                let up_to = if most == all { " or more".to_owned() } else { format!(" to {most}") };
                return Some(format!("[bus] {key} is {value} and must be {least}{up_to}"));
            }
        }
        // Parts are rounded down: a quarter of three envelopes is none.
        let percent = self.share_percent.min(100 - self.reserve_percent);
        let Load { envelopes, bytes } = self.part(percent);
        (envelopes == 0 || bytes == 0).then(|| {
            let Limits { inbox_envelopes, inbox_bytes, .. } = self;
            format!(
                "[bus] share_percent and reserve_percent leave a sender {percent} % of {inbox_envelopes} envelopes and \
                 {inbox_bytes} bytes, which must be one of each or more"
            )
        })
    }

    /// Whether a message may come to what waits already: `all` of the inbox, `own` of its sender.
    ///
    /// # Errors
    /// The first limit that it would go over.
    pub fn admit(&self, from: &Sender, all: Load, own: Load, bytes: u64) -> Result<(), Over> {
        let with =
            |load: Load| Load { envelopes: load.envelopes + 1, bytes: load.bytes.saturating_add(bytes) };
        let whole = self.part(if from.is_system() { 100 } else { 100 - self.reserve_percent.min(100) });
        if !with(all).fits(whole) {
            return Err(Over::Inbox(all, whole));
        }
        let share = self.part(self.share_percent);
        if !from.is_system() && !with(own).fits(share) {
            return Err(Over::Share(own, share));
        }
        Ok(())
    }

    fn part(&self, percent: u64) -> Load {
        let of = |whole: u64| whole.saturating_mul(percent) / 100;
        Load { envelopes: of(self.inbox_envelopes), bytes: of(self.inbox_bytes) }
    }

    /// The pace of a pair after one more message: the instant, in nanoseconds of the boot clock, at which it would have
    /// made up for all that it sent. None if it is too fast. The components and the owner have no pace. One that
    /// nobody can have come to under this rate (it was kept under a slower one, or is damaged) leaves one message, and
    /// then the rate.
    pub fn pace(&self, from: &Sender, pace: u64, now: Duration) -> Option<u64> {
        if from.is_system() {
            return Some(pace);
        }
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let step = 1_000_000_000 / self.rate_per_second.clamp(1, 1_000_000_000);
        let latest = now.saturating_add(step.saturating_mul(self.burst.max(1)));
        let pace = if pace > latest { latest - step } else { pace.max(now) };
        let next = pace.saturating_add(step);
        (next <= latest).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(text: &str) -> Sender {
        text.parse().expect("valid")
    }

    fn load(envelopes: u64) -> Load {
        Load { envelopes, bytes: envelopes }
    }

    #[test]
    fn a24_a_sender_fills_its_share_and_nobody_the_reserve() {
        let limits = Limits { inbox_envelopes: 100, inbox_bytes: 1_000, ..Limits::default() };
        let clone = sender("agent7");
        assert_eq!(limits.admit(&clone, load(24), load(24), 1), Ok(()));
        assert!(matches!(limits.admit(&clone, load(25), load(25), 1), Err(Over::Share(..))));
        assert!(matches!(limits.admit(&clone, load(0), load(0), 251), Err(Over::Share(..))), "bytes too");
        assert_eq!(limits.admit(&clone, load(89), load(0), 1), Ok(()));
        assert!(matches!(limits.admit(&clone, load(90), load(0), 1), Err(Over::Inbox(..))));
        for system in ["owner", "agentinfinity", "agentloop", "agentcron", "netsky-ticker"].map(sender) {
            assert_eq!(limits.admit(&system, load(99), load(99), 1), Ok(()), "{system}");
            assert!(limits.admit(&system, load(100), load(0), 1).is_err(), "{system}");
        }
        assert!(
            limits.admit(&sender("peer:b/agent0"), load(90), load(0), 1).is_err(),
            "a peer is no component"
        );
    }

    #[test]
    fn a24_a_pair_has_a_burst_and_then_its_rate() {
        let limits = Limits { rate_per_second: 10, burst: 5, ..Limits::default() };
        let (clone, second) = (sender("agent7"), Duration::from_secs(1));
        let mut pace = 0;
        let mut sent = |now: Duration| limits.pace(&clone, pace, now).map(|next| pace = next).is_some();
        let now = Duration::from_secs(1_000);
        assert_eq!((0..20).filter(|_| sent(now)).count(), 5, "a burst at once");
        assert_eq!((0..20).filter(|_| sent(now + second / 5)).count(), 2, "then ten a second");
        assert_eq!(
            (0..20).filter(|_| sent(now + 100 * second)).count(),
            5,
            "a rest gives no more than a burst"
        );
        assert_eq!(limits.pace(&sender("owner"), u64::MAX, now), Some(u64::MAX), "the owner has none");
    }

    #[test]
    fn a24_a_raised_rate_and_a_damaged_pace_lock_nobody_out() {
        let (clone, now) = (sender("agent7"), Duration::from_secs(1_000));
        let slow = Limits { rate_per_second: 1, burst: 1_000, ..Limits::default() };
        let kept = (0..1_000).fold(0, |pace, _| slow.pace(&clone, pace, now).expect("a burst"));
        let fast = Limits { rate_per_second: 1_000, burst: 5, ..Limits::default() };
        for mut pace in [kept, u64::MAX] {
            let mut sent = |now: Duration| fast.pace(&clone, pace, now).map(|next| pace = next).is_some();
            assert_eq!((0..20).filter(|_| sent(now)).count(), 1);
            assert_eq!((0..20).filter(|_| sent(now + Duration::from_millis(2))).count(), 2, "then the rate");
        }
    }

    #[test]
    fn limits_that_make_no_sense_do_not_panic() {
        let wild = Limits {
            inbox_envelopes: u64::MAX,
            inbox_bytes: u64::MAX,
            share_percent: 900,
            reserve_percent: 900,
            rate_per_second: 0,
            burst: 0,
        };
        assert!(wild.admit(&sender("agent7"), load(0), load(0), 1).is_err(), "all of it is reserved");
        assert!(wild.pace(&sender("agent7"), 0, Duration::MAX).is_some());
    }
}
