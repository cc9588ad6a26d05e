//! The restart protocol as data: phases, what is known of a restart, and the verdict on it.
//!
//! Every function here is pure; `watchdog` observes, asks here, and performs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, EnvelopeId, Generation, Nonce, RestartId};
use crate::process::ProcessId;
use crate::stamp::Stamp;

/// Version that this program writes.
pub const VERSION: u64 = 1;

/// Why agent0 is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Someone asked: every numbered session ends and comes back.
    Planned,
    /// It died: what is left of it ends, working clones are left alone.
    Crash,
}

impl Kind {
    /// The word in files and on screens.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Planned => "planned",
            Kind::Crash => "crash",
        }
    }

    /// Whether the child of such a restart ends every numbered session and brings it back, not agent0 alone.
    pub fn takes_all(self, clones: Clones) -> bool {
        self == Kind::Planned || clones == Clones::Restart
    }
}

/// What becomes of clones that work when agent0 comes back from a crash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clones {
    /// They work on.
    #[default]
    Leave,
    /// They end and come back with it, as in a restart that somebody asked for.
    Restart,
}

impl Clones {
    fn are_left(&self) -> bool {
        *self == Clones::Leave
    }
}

/// `[restart]` of `config.toml`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Terms {
    /// What a crash of agent0 does to its clones: `"leave"` or `"restart"`.
    pub clones: Clones,
}

/// How far the detached child got; written durably before each act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Everything needed is looked at; nothing is touched.
    Preflight,
    /// Old sessions end.
    Teardown,
    /// The new agent0 was started.
    Spawned,
    /// The new agent0 returned its nonce.
    UpDetected,
    /// The handoff is in its inbox.
    HandedOff,
    /// Given up; the error says why.
    Failed,
}

/// An order of phases that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a restart cannot go from {from:?} to {to:?}")]
pub struct Illegal {
    /// Where it is.
    pub from: Phase,
    /// Where it was told to go.
    pub to: Phase,
}

impl Phase {
    /// Whether the restart may go on to `to`.
    ///
    /// One phase forward, to `Failed` from any that is not an end, and from a death in the middle back
    /// to `Teardown` ("start over") or `Preflight` (nothing was touched yet).
    ///
    /// # Errors
    /// Any other order.
    pub fn step(self, to: Phase) -> Result<Phase, Illegal> {
        use Phase::{Failed, HandedOff, Preflight, Spawned, Teardown, UpDetected};
        match (self, to) {
            (Preflight, Preflight | Teardown)
            | (Teardown, Teardown | Spawned)
            | (Spawned, Teardown | Spawned | UpDetected)
            | (UpDetected, HandedOff | Teardown)
            | (Preflight | Teardown | Spawned | UpDetected, Failed) => Ok(to),
            (from, to) => Err(Illegal { from, to }),
        }
    }

    /// The word in files and on screens.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Preflight => "preflight",
            Phase::Teardown => "teardown",
            Phase::Spawned => "spawned",
            Phase::UpDetected => "up-detected",
            Phase::HandedOff => "handed-off",
            Phase::Failed => "failed",
        }
    }
}

/// `state/restart-status/<id>.json`, written by the detached child alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Format version.
    pub v: u64,
    /// Which restart.
    pub id: RestartId,
    /// Which try of it: a child of a lower one changes nothing any more.
    pub epoch: u64,
    /// The child that wrote this.
    pub pid: ProcessId,
    /// How far.
    pub phase: Phase,
    /// When this restart began.
    pub started_at: Stamp,
    /// When this phase began.
    pub updated_at: Stamp,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether old sessions were touched: from then on a request's handoff is still owed to somebody.
    #[serde(default)]
    pub torn_down: bool,
    /// What was started, from `Spawned` on.
    pub agents: Vec<Started>,
}

/// One session that a restart brought back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Which agent.
    pub name: AgentId,
    /// Its new incarnation.
    pub generation: Generation,
    /// What it must hand back to prove that it is up.
    pub nonce: Nonce,
}

/// `state/restart-inflight`, written by the tick alone: before the child starts, and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inflight {
    /// Format version.
    pub v: u64,
    /// Which restart.
    pub id: RestartId,
    /// Why.
    pub kind: Kind,
    /// What becomes of clones, by the settings of when it began.
    #[serde(default, skip_serializing_if = "Clones::are_left")]
    pub clones: Clones,
    /// Which try; rises with each child.
    pub epoch: u64,
    /// When this restart began.
    pub began: Stamp,
    /// When the present child was started.
    pub child_since: Stamp,
    /// The child, once it runs.
    pub child: Option<ProcessId>,
    /// Time that the observer itself saw pass since it first saw the new agent0 up.
    pub observed: Option<Observed>,
    /// Time that it saw pass since this restart has failed, whose handoff cannot be delivered yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owed: Option<Observed>,
    /// The looks at it, where there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked: Option<Looked>,
}

impl Inflight {
    /// As [`Kind::takes_all`].
    pub fn takes_all(&self) -> bool {
        self.kind.takes_all(self.clones)
    }
}

/// How much later than two intervals a look may come on a machine that is busy.
const LATE: Duration = Duration::from_secs(1);

/// Watching time, in which the observer itself ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Milliseconds watched so far.
    pub watched_ms: u64,
    /// The last look.
    pub last: Stamp,
}

impl Observed {
    /// One more look at `now`.
    ///
    /// A look that comes more than two intervals late proves nothing about the time between (the
    /// machine slept, or the observer did): the watch starts again.
    #[must_use]
    pub fn look(before: Option<&Observed>, now: &Stamp, interval: Duration) -> Observed {
        let watched_ms = match before {
            Some(before) if before.last.boot_id == now.boot_id => {
                let gap = now.since(&before.last);
                if gap > interval * 2 + LATE { 0 } else { before.watched_ms + gap.as_millis() as u64 }
            }
            _ => 0,
        };
        Observed { watched_ms, last: now.clone() }
    }
}

/// A time between looks beyond which they have no cadence: the machine slept.
const SLOWEST: Duration = Duration::from_secs(10 * 60);

/// The looks at a restart: only time in which somebody looked makes it or a step of it old.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Looked {
    /// The last look.
    pub last: Stamp,
    /// Milliseconds between that and the one before.
    pub gap_ms: u64,
    /// Milliseconds of this restart in which nobody looked.
    pub unseen_ms: u64,
    /// The look after the last such time: a step that should be done had no time before.
    pub resumed: Option<Stamp>,
}

impl Looked {
    /// One more look at `now`, the first of them at a restart that `began` then.
    #[must_use]
    pub fn look(before: Option<&Looked>, began: &Stamp, now: &Stamp, interval: Duration) -> Looked {
        let last = before.map_or(began, |before| &before.last);
        let gap = now.since(last);
        let pace = before.map_or(interval, |before| before.pace(interval));
        let unseen = if last.boot_id != now.boot_id || gap > pace * 2 + LATE { gap } else { Duration::ZERO };
        let resumed = before.and_then(|before| before.resumed.clone());
        Looked {
            last: now.clone(),
            gap_ms: gap.as_millis() as u64,
            unseen_ms: before.map_or(0, |before| before.unseen_ms) + unseen.as_millis() as u64,
            resumed: if unseen.is_zero() { resumed } else { Some(now.clone()) },
        }
    }

    /// How far apart looks are: by the interval, or later where the machine is that slow.
    pub fn pace(&self, interval: Duration) -> Duration {
        let gap = Duration::from_millis(self.gap_ms);
        if gap > SLOWEST { interval } else { interval.max(gap) }
    }

    /// How old what began `since` then is, as far as somebody looked.
    pub fn age(&self, since: &Stamp) -> Duration {
        self.last.since(since).saturating_sub(Duration::from_millis(self.unseen_ms))
    }

    /// How long a step has had by this look that was begun `since` then.
    pub fn step_age(&self, since: &Stamp) -> Duration {
        let age = self.last.since(since);
        self.resumed.as_ref().map_or(age, |resumed| age.min(self.last.since(resumed)))
    }
}

/// How much sooner than after a whole interval a look may come that ends it: no beat is exact.
fn jitter(interval: Duration) -> Duration {
    (interval / 20).min(LATE)
}

/// The id of a restart's handoff: a repeat after a crash is the same envelope.
pub fn handoff_id(restart: &RestartId) -> EnvelopeId {
    EnvelopeId::derived(&["handoff", restart.as_str()])
}

/// What one tick saw of a restart.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// The phase in the status of this very restart; none if there is none that reads.
    pub phase: Option<Phase>,
    /// Whether the child runs.
    pub child_alive: bool,
    /// Time since the child was started or last wrote its phase, on the boot clock.
    pub step_age: Duration,
    /// Time since this restart began, on the boot clock.
    pub age: Duration,
    /// Whether the new incarnation of agent0 lives.
    pub agent0_alive: bool,
    /// Whether the handoff is in agent0's folders.
    pub handoff_there: bool,
    /// Watching time since up.
    pub watched: Duration,
    /// One tick.
    pub interval: Duration,
    /// How many children have been started for it.
    pub epoch: u64,
}

/// Longest that a new session may take until it proves that it is up.
pub const STARTUP_GRACE: Duration = Duration::from_secs(5 * 60);
/// Longest that a child may go without a word in any phase but the wait for that proof: the slowest step is
/// a kill with its grace and its sweep.
const STEP: Duration = Duration::from_secs(60);
/// Longest that a restart's children may take in all; past it a new one is begun.
pub const BOUND: Duration = Duration::from_secs(30 * 60);
/// Most children for one restart before it counts as failed.
pub const MAX_CHILDREN: u64 = 5;

/// What the tick does about a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The child works; nothing to do.
    Wait,
    /// Everything is done; one full interval of watching is not over.
    Watch,
    /// The new agent0 is proved.
    Verified,
    /// The child is past its deadline: kill it, look again.
    KillChild,
    /// The child is gone before the end: start another with the next epoch.
    StartChild,
    /// agent0 died again before it was verified: this restart failed.
    Failed,
}

/// Judge a restart from one look.
pub fn judge(seen: &Seen) -> Verdict {
    let limit = if seen.phase == Some(Phase::Spawned) { STARTUP_GRACE + STEP } else { STEP };
    if seen.child_alive {
        let stuck = seen.step_age > limit || seen.age > BOUND;
        return if stuck { Verdict::KillChild } else { Verdict::Wait };
    }
    match seen.phase {
        Some(Phase::HandedOff) if !seen.agent0_alive => Verdict::Failed,
        Some(Phase::HandedOff) if !seen.handoff_there => Verdict::Failed,
        Some(Phase::HandedOff) if seen.watched + jitter(seen.interval) >= seen.interval => Verdict::Verified,
        // Watching ends by itself, however long the machine slept meanwhile: verified, or dead.
        Some(Phase::HandedOff) => Verdict::Watch,
        Some(Phase::Failed) => Verdict::Failed,
        _ if seen.epoch >= MAX_CHILDREN || seen.age > BOUND => Verdict::Failed,
        _ => Verdict::StartChild,
    }
}

#[cfg(test)]
#[path = "restart_search.rs"]
mod search;

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(phase: Option<Phase>) -> Seen {
        Seen {
            phase,
            child_alive: false,
            step_age: Duration::ZERO,
            age: Duration::ZERO,
            agent0_alive: true,
            handoff_there: true,
            watched: Duration::from_secs(60),
            interval: Duration::from_secs(60),
            epoch: 1,
        }
    }

    #[test]
    fn t9_verified_needs_all_four() {
        let done = seen(Some(Phase::HandedOff));
        assert_eq!(judge(&done), Verdict::Verified);
        assert_eq!(judge(&Seen { watched: Duration::from_secs(58), ..done }), Verdict::Watch);
        let early = Seen { watched: Duration::from_millis(59_999), ..done };
        assert_eq!(judge(&early), Verdict::Verified, "a beat that came a millisecond early is one");
        assert_eq!(judge(&Seen { agent0_alive: false, ..done }), Verdict::Failed);
        assert_eq!(judge(&Seen { handoff_there: false, ..done }), Verdict::Failed);
        assert_eq!(judge(&Seen { phase: Some(Phase::UpDetected), ..done }), Verdict::StartChild);
    }

    #[test]
    fn fm_restart_kill_a_dead_child_is_replaced_at_every_phase_until_the_bound() {
        for phase in [None, Some(Phase::Preflight), Some(Phase::Teardown), Some(Phase::Spawned)] {
            assert_eq!(judge(&seen(phase)), Verdict::StartChild, "{phase:?}");
            assert_eq!(judge(&Seen { epoch: MAX_CHILDREN, ..seen(phase) }), Verdict::Failed);
        }
    }

    #[test]
    fn a_stuck_child_is_killed_before_it_is_replaced() {
        let alive = |phase, step_age| Seen { child_alive: true, step_age, ..seen(Some(phase)) };
        assert_eq!(judge(&alive(Phase::Teardown, STEP)), Verdict::Wait);
        assert_eq!(judge(&alive(Phase::Teardown, STEP * 2)), Verdict::KillChild);
        assert_eq!(judge(&alive(Phase::Spawned, STEP * 2)), Verdict::Wait, "a start has its grace");
        assert_eq!(judge(&alive(Phase::Spawned, STARTUP_GRACE + STEP * 2)), Verdict::KillChild);
    }

    #[test]
    fn i7_every_restart_ends_within_its_bound() {
        for phase in [Phase::Preflight, Phase::Teardown, Phase::Spawned, Phase::UpDetected] {
            let late = Seen { age: BOUND * 2, watched: Duration::ZERO, ..seen(Some(phase)) };
            assert_eq!(judge(&late), Verdict::Failed, "{phase:?}");
            assert_eq!(judge(&Seen { child_alive: true, ..late }), Verdict::KillChild, "{phase:?}");
        }
        let slept = Seen { age: BOUND * 2, watched: Duration::ZERO, ..seen(Some(Phase::HandedOff)) };
        assert_eq!(judge(&slept), Verdict::Watch, "a machine that slept proves nothing against who is up");
    }

    #[test]
    fn suspend_is_not_watching_time() {
        let interval = Duration::from_secs(60);
        let at = |ms: u64, boot: &str| Stamp {
            wall: jiff::Timestamp::from_second(1_000_000).expect("in range"),
            boot_ms: ms,
            boot_id: boot.to_owned(),
        };
        let first = Observed::look(None, &at(0, "b"), interval);
        let second = Observed::look(Some(&first), &at(60_000, "b"), interval);
        assert_eq!(second.watched_ms, 60_000);
        let slept = Observed::look(Some(&second), &at(8 * 3_600_000, "b"), interval);
        assert_eq!(slept.watched_ms, 0);
        assert_eq!(Observed::look(Some(&second), &at(1, "c"), interval).watched_ms, 0);
    }

    #[test]
    fn t9_only_time_in_which_somebody_looked_makes_a_restart_old() {
        let interval = Duration::from_secs(60);
        let at = |secs: u64| Stamp {
            wall: jiff::Timestamp::from_second(1_000_000).expect("in range"),
            boot_ms: secs * 1000,
            boot_id: "b".to_owned(),
        };
        let (began, mut looked) = (at(1000), None);
        let mut ages = Vec::new();
        // A suspend of an hour, a look that is triggered at once, and a machine whose beats take five minutes from then on.
        for secs in [1060, 4660, 4661, 4961, 5261] {
            let look = Looked::look(looked.as_ref(), &began, &at(secs), interval);
            ages.push((look.age(&began).as_secs(), look.step_age(&began).as_secs()));
            looked = Some(look);
        }
        assert_eq!(ages, [(60, 60), (60, 0), (61, 1), (61, 0), (361, 300)]);
        let boot = Stamp { boot_id: "c".to_owned(), ..at(1) };
        let look = Looked::look(looked.as_ref(), &began, &boot, interval);
        assert!(look.step_age(&began).is_zero(), "another boot");
    }

    #[test]
    fn looks_that_are_always_late_come_to_an_end_all_the_same() {
        let interval = Duration::from_secs(60);
        let at = |secs: u64| Stamp {
            wall: jiff::Timestamp::from_second(1_000_000).expect("in range"),
            boot_ms: secs * 1000,
            boot_id: "b".to_owned(),
        };
        let (mut looked, mut observed): (Option<Looked>, Option<Observed>) = (None, None);
        let mut watched = Vec::new();
        for secs in [200, 400, 600, 4200, 7800, 7990] {
            let pace = looked.as_ref().map_or(interval, |looked| looked.pace(interval));
            let look = Observed::look(observed.as_ref(), &at(secs), pace);
            watched.push(look.watched_ms / 1000);
            (looked, observed) =
                (Some(Looked::look(looked.as_ref(), &at(0), &at(secs), interval)), Some(look));
        }
        assert_eq!(watched, [0, 200, 400, 0, 0, 0], "the sleeps of an hour are none of it");
    }

    #[test]
    fn phases_go_forward_or_start_over() {
        use Phase::{Failed, HandedOff, Preflight, Spawned, Teardown, UpDetected};
        for (from, to) in
            [(Preflight, Teardown), (Teardown, Spawned), (Spawned, UpDetected), (UpDetected, HandedOff)]
        {
            assert_eq!(from.step(to), Ok(to));
            assert_eq!(from.step(Failed), Ok(Failed));
        }
        for (from, to) in
            [(Preflight, Spawned), (HandedOff, Teardown), (Failed, Preflight), (Teardown, Preflight)]
        {
            assert!(from.step(to).is_err(), "{from:?} {to:?}");
        }
    }
}
