//! What becomes of mail over time: when an ack is overdue, and what may go.
//!
//! Promise: an age here is time in which somebody looked. A machine that slept, was off, or had its wall clock set makes
//! nothing overdue, and nothing goes within a day of a step of the wall clock.
//!
//! Pure: `watchdog` looks, asks here, and performs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::duration;
use crate::id::AgentId;
use crate::stamp::Stamp;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Most mail without its ack that is kept in mind, of all agents. What is beyond is met when some of it is done with: later, never
/// earlier.
pub const AWAITED: usize = 2_000;

/// How far the two clocks may part between two looks before it counts as a step: more than any correction in passing.
const STEP: Duration = Duration::from_secs(10 * 60);

/// How long a machine may have been off before its wall clock has to prove itself again.
const OFF: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// `[mail]` of `config.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Terms {
    /// How long a message that asks for an ack waits for it, where it says nothing else.
    #[serde(deserialize_with = "duration::unquoted")]
    pub ack_within: Duration,
    /// How long a finished message is kept.
    #[serde(deserialize_with = "duration::unquoted")]
    pub keep_acked: Duration,
    /// How long a message that was forwarded is kept.
    #[serde(deserialize_with = "duration::unquoted")]
    pub keep_forwarded: Duration,
    /// How long a dead letter is kept; for ever where nothing is said.
    #[serde(deserialize_with = "maybe")]
    pub keep_poison: Option<Duration>,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            ack_within: Duration::from_secs(15 * 60),
            keep_acked: DAY * 30,
            keep_forwarded: DAY * 30,
            keep_poison: None,
        }
    }
}

fn maybe<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration::unquoted(from).map(Some)
}

/// Mail of one agent, by its file name in `delivered/`: another surfacing has another one.
pub type Mail = BTreeMap<String, Waited>;

/// How long a message has waited for its ack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// Milliseconds in which somebody looked.
    pub ms: u64,
    /// Milliseconds that it may wait.
    pub within_ms: u64,
}

/// `state/tick/awaiting.json`: what is delivered and asks for an ack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Awaiting {
    /// Format version.
    pub v: u64,
    /// When it was last looked.
    pub looked: Stamp,
    /// By agent.
    pub mail: BTreeMap<AgentId, Mail>,
    /// Where the look for new ones goes on, by agent: a file name in `delivered/`.
    #[serde(default)]
    pub after: BTreeMap<AgentId, String>,
}

impl Awaiting {
    /// Nothing known yet.
    pub fn new(now: &Stamp) -> Awaiting {
        Awaiting { v: 1, looked: now.clone(), mail: BTreeMap::new(), after: BTreeMap::new() }
    }

    /// Adds the time since the last look to all that was known then. A look that came more than two intervals late
    /// counts as two: the rest of that time nobody looked. Across a boot nothing is added.
    pub fn pass(&mut self, now: &Stamp, interval: Duration) {
        let passed = match now.boot_id == self.looked.boot_id {
            true => now.since(&self.looked).min(interval * 2),
            false => Duration::ZERO,
        };
        self.looked = now.clone();
        for waited in self.mail.values_mut().flat_map(BTreeMap::values_mut) {
            waited.ms += passed.as_millis() as u64;
        }
    }

    /// Keeps one more in mind. Where there is no room, the agent that has most in mind gives up what has longest to wait:
    /// nobody's mail keeps that of all others from being met. An agent that would have most itself gives up its own, where
    /// that has longer to wait than this: terms without an end keep no other mail of the same agent from being met either.
    pub fn keep(&mut self, agent: &AgentId, name: String, within_ms: u64) {
        if self.mail.values().map(BTreeMap::len).sum::<usize>() >= AWAITED {
            let with_it = self.mail.get(agent).map_or(0, BTreeMap::len) + 1;
            let most = self.mail.iter().max_by_key(|(_, mail)| mail.len());
            let other = most.filter(|(_, mail)| mail.len() > with_it).map(|(most, _)| most.clone());
            let left = |waited: &Waited| waited.within_ms.saturating_sub(waited.ms);
            let is_worth_it = |waited: &Waited| other.is_some() || left(waited) > within_ms;
            let Some(mail) = self.mail.get_mut(other.as_ref().unwrap_or(agent)) else { return };
            let longest = mail.iter().max_by_key(|(_, waited)| left(waited));
            let longest = longest.filter(|(_, waited)| is_worth_it(waited)).map(|(name, _)| name.clone());
            let Some(longest) = longest else { return };
            mail.remove(&longest);
        }
        self.mail.entry(agent.clone()).or_default().insert(name, Waited { ms: 0, within_ms });
    }

    /// What has waited too long, in order.
    pub fn overdue(&self) -> Vec<(AgentId, String, Duration)> {
        let late = |(name, waited): (&String, &Waited)| {
            (waited.ms >= waited.within_ms).then(|| (name.clone(), Duration::from_millis(waited.within_ms)))
        };
        let of = |(agent, mail): (&AgentId, &Mail)| -> Vec<_> {
            mail.iter().filter_map(late).map(|(name, within)| (agent.clone(), name, within)).collect()
        };
        self.mail.iter().flat_map(of).collect()
    }
}

/// `state/tick/retention.json`: for how long the wall clock has been trusted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Format version.
    pub v: u64,
    /// When it was last looked.
    pub looked: Stamp,
    /// Milliseconds of looking since the wall clock last stepped.
    pub ms: u64,
}

impl Steady {
    /// From now on.
    pub fn new(now: &Stamp) -> Steady {
        Steady { v: 1, looked: now.clone(), ms: 0 }
    }

    /// After one more look. A wall clock that parted from the boot clock has stepped; across a boot it has if it went
    /// back, or further ahead than a machine is off for.
    #[must_use]
    pub fn look(&self, now: &Stamp) -> Steady {
        let by_wall = now.wall.as_millisecond() - self.looked.wall.as_millisecond();
        let same_boot = now.boot_id == self.looked.boot_id;
        let by_boot = now.boot_ms.saturating_sub(self.looked.boot_ms);
        let stepped = match same_boot {
            true => by_wall.abs_diff(by_boot as i64) > STEP.as_millis() as u64,
            false => !(0..=OFF.as_millis() as i64).contains(&by_wall),
        };
        let added = if same_boot { by_boot } else { 0 };
        Steady { v: 1, looked: now.clone(), ms: if stepped { 0 } else { self.ms + added } }
    }

    /// Whether what last changed at `changed` (seconds of the wall clock) has been kept for `keep`. Never while the wall
    /// clock has not been steady for a day, or for `keep` where that is less.
    pub fn is_past(&self, changed: i64, keep: Duration) -> bool {
        let proved = Duration::from_millis(self.ms) >= keep.min(DAY);
        proved && self.looked.wall.as_second() - changed > keep.as_secs() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall: i64, boot_s: u64, boot: &str) -> Stamp {
        let wall = jiff::Timestamp::from_second(wall).expect("in range");
        Stamp { wall, boot_ms: boot_s * 1_000, boot_id: boot.to_owned() }
    }

    fn awaiting(within_s: u64) -> Awaiting {
        let mut awaiting = Awaiting::new(&at(1_000, 0, "b1"));
        let waited = Waited { ms: 0, within_ms: within_s * 1_000 };
        awaiting.mail.entry(AgentId::root()).or_default().insert("x".to_owned(), waited);
        awaiting
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn an_ack_is_overdue_after_its_time_of_looking() {
        let mut mail = awaiting(150);
        for (boot_s, late) in [(60, false), (120, false), (180, true)] {
            mail.pass(&at(1_000 + boot_s as i64, boot_s, "b1"), MINUTE);
            assert_eq!(!mail.overdue().is_empty(), late, "{boot_s}");
        }
    }

    #[test]
    fn a12_an_agent_with_any_number_of_unacked_messages_leaves_room_for_every_other() {
        let mut mail = Awaiting::new(&at(1_000, 0, "b1"));
        let [first, second, third] = [1, 2, 3].map(AgentId::numbered);
        for n in 0..AWAITED as u64 + 500 {
            mail.keep(&first, format!("{n:04}"), 1_000 + n);
        }
        assert_eq!(mail.mail[&first].len(), AWAITED);
        for n in 0..AWAITED {
            mail.keep(&second, format!("{n:04}"), 1);
        }
        let [firsts, seconds] = [&first, &second].map(|agent| mail.mail[agent].len());
        assert!(firsts.abs_diff(seconds) <= 2, "{firsts} and {seconds}");
        let firsts = &mail.mail[&first];
        assert!(firsts.contains_key("0000") && !firsts.contains_key("1999"), "what has longest to wait goes");
        mail.keep(&third, "one".to_owned(), 1);
        assert_eq!(mail.mail[&third].len(), 1);
        assert_eq!(mail.mail.values().map(BTreeMap::len).sum::<usize>(), AWAITED);
    }

    #[test]
    fn a12_terms_without_an_end_leave_room_for_other_mail_of_the_same_agent() {
        let mut mail = Awaiting::new(&at(1_000, 0, "b1"));
        let [flooded, other] = [1, 2].map(AgentId::numbered);
        mail.keep(&other, "one".to_owned(), u64::MAX);
        for n in 0..AWAITED {
            mail.keep(&flooded, format!("{n:04}"), u64::MAX);
        }
        mail.keep(&flooded, "soon".to_owned(), 1_000);
        assert!(mail.mail[&flooded].contains_key("soon"));
        assert_eq!(mail.mail[&flooded].len(), AWAITED - 1);
        assert_eq!(mail.mail[&other].len(), 1, "who has most gives up its own");
        mail.keep(&flooded, "endless".to_owned(), u64::MAX);
        assert!(!mail.mail[&flooded].contains_key("endless"), "nothing of it has longer to wait");
    }

    #[test]
    fn t9_no_step_no_sleep_and_no_boot_makes_an_ack_overdue() {
        let mut mail = awaiting(150);
        mail.pass(&at(9_000_000, 60, "b1"), MINUTE);
        assert!(mail.overdue().is_empty(), "the wall clock stepped");
        mail.pass(&at(9_000_000, 40_000, "b2"), MINUTE);
        assert!(mail.overdue().is_empty(), "it was booted");
        let mut mail = awaiting(150);
        mail.pass(&at(30_000, 29_000, "b1"), MINUTE);
        assert!(mail.overdue().is_empty(), "it slept for eight hours, which are two intervals");
        mail.pass(&at(30_030, 29_030, "b1"), MINUTE);
        assert_eq!(mail.overdue().len(), 1);
    }

    #[test]
    fn nothing_goes_within_a_day_of_a_step() {
        let (month, old) = (DAY * 30, 1_000_000);
        let mut steady = Steady::new(&at(90_000_000, 0, "b1"));
        assert!(!steady.is_past(old, month), "nobody has looked yet");
        let day = DAY.as_secs();
        steady = steady.look(&at(90_000_000 + day as i64, day, "b1"));
        assert!(steady.is_past(old, month));
        assert!(!steady.is_past(steady.looked.wall.as_second() - 60, month), "too young");
        let stepped = steady.look(&at(900_000_000, day + 60, "b1"));
        assert!(!stepped.is_past(old, month));
        let rebooted = steady.look(&at(90_000_000 + 2 * day as i64, 5, "b2"));
        assert!(rebooted.is_past(old, month), "a day off is no step");
        let lost = steady.look(&at(0, 5, "b2"));
        assert!(!lost.is_past(-9_000_000, month), "a clock that lost its time");
    }

    #[test]
    fn a_short_term_needs_no_day() {
        let steady = Steady::new(&at(1_000, 0, "b1")).look(&at(1_003, 3, "b1"));
        assert!(steady.is_past(1_000, Duration::from_secs(2)));
        assert!(!steady.is_past(1_002, Duration::from_secs(2)));
    }

    #[test]
    fn times_are_written_as_people_type_them() {
        let read: Terms = serde_json::from_str(r#"{"ack_within":"2m","keep_poison":"90d"}"#).expect("valid");
        assert_eq!((read.ack_within, read.keep_poison), (MINUTE * 2, Some(DAY * 90)));
        assert_eq!(read.keep_acked, DAY * 30);
        assert!(serde_json::from_str::<Terms>(r#"{"keep":"2m"}"#).is_err());
    }
}
