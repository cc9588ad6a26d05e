//! How a context ends: five states by context use, and the only function that moves between them.
//!
//! Promise: within one generation nothing goes backwards, whatever share is reported; the next generation begins healthy, and
//! so does what a program has left after it made its context smaller itself.
//! What is reported, and what a state keeps out, is left to the kernel.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// From here on the handoff is prepared, per cent.
pub const AGING: u8 = 70;
/// From here on only one finalization turn is let in, per cent.
pub const DYING: u8 = 90;

/// How much of its context a program uses: whole per cent, 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u8", into = "u8")]
pub struct ContextPct(u8);

/// A number that is no share of a context.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no percentage: a context is used from 0 to 100 per cent")]
pub struct BadPct(String);

impl TryFrom<u8> for ContextPct {
    type Error = BadPct;

    fn try_from(pct: u8) -> Result<ContextPct, BadPct> {
        if pct <= 100 { Ok(ContextPct(pct)) } else { Err(BadPct(pct.to_string())) }
    }
}

impl From<ContextPct> for u8 {
    fn from(pct: ContextPct) -> u8 {
        pct.0
    }
}

impl FromStr for ContextPct {
    type Err = BadPct;

    /// Whole per cent, or with a fraction that is dropped; a sign at the end is let go.
    fn from_str(text: &str) -> Result<ContextPct, BadPct> {
        let number = text.strip_suffix('%').unwrap_or(text);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let pct = whole.parse::<u8>().ok().filter(|_| digits(whole) && digits(fraction));
        let beyond = |pct: u8| pct == 100 && fraction.bytes().any(|b| b != b'0');
        pct.filter(|pct| *pct <= 100 && !beyond(*pct)).map(ContextPct).ok_or_else(|| BadPct(text.to_owned()))
    }
}

impl fmt::Display for ContextPct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// Where the context of one generation stands.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum LifecycleState {
    /// Below [`AGING`].
    #[default]
    Healthy,
    /// The handoff record is prepared.
    Aging,
    /// Fenced but for one finalization turn.
    Dying,
    /// That turn is under way.
    Draining,
    /// Nothing is let in any more.
    Dead,
}

/// All of them, in the order of a life.
pub const STATES: [LifecycleState; 5] = [
    LifecycleState::Healthy,
    LifecycleState::Aging,
    LifecycleState::Dying,
    LifecycleState::Draining,
    LifecycleState::Dead,
];

/// What somebody wants to put before the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prompt {
    /// Work.
    Ordinary,
    /// The one turn in which it writes its handoff.
    Finalization,
}

impl LifecycleState {
    /// Whether a generation in this state may be in that one next. Staying is no transition.
    pub fn can_transition_to(self, next: LifecycleState) -> bool {
        use LifecycleState::{Aging, Dead, Draining, Dying, Healthy};
        matches!(
            (self, next),
            (Healthy, Aging | Dying)
                | (Aging, Dying)
                | (Dying, Draining)
                | (Healthy | Aging | Dying | Draining, Dead)
        )
    }

    /// The state after a report of context use: forward or the same. A report that skips a bound skips the state; the
    /// finalization turn and what follows it are nothing that a share of a context decides.
    #[must_use]
    pub fn evaluate(self, context_pct: ContextPct) -> LifecycleState {
        let told = match context_pct.0 {
            pct if pct >= DYING => LifecycleState::Dying,
            pct if pct >= AGING => LifecycleState::Aging,
            _ => LifecycleState::Healthy,
        };
        if self.can_transition_to(told) { told } else { self }
    }

    /// The state after the program made its context smaller by itself: what it knew is a summary now, and there is room
    /// again. Who writes its last handoff, or has, goes on with that.
    #[must_use]
    pub fn compacted(self) -> LifecycleState {
        match self {
            LifecycleState::Healthy | LifecycleState::Aging | LifecycleState::Dying => {
                LifecycleState::Healthy
            }
            LifecycleState::Draining | LifecycleState::Dead => self,
        }
    }

    /// Whether a prompt is let in.
    pub fn admits(self, prompt: Prompt) -> bool {
        match self {
            LifecycleState::Healthy | LifecycleState::Aging => true,
            LifecycleState::Dying => prompt == Prompt::Finalization,
            LifecycleState::Draining | LifecycleState::Dead => false,
        }
    }

    /// The word in JSON and tables.
    pub fn word(self) -> &'static str {
        match self {
            LifecycleState::Healthy => "healthy",
            LifecycleState::Aging => "aging",
            LifecycleState::Dying => "dying",
            LifecycleState::Draining => "draining",
            LifecycleState::Dead => "dead",
        }
    }
}

impl fmt::Display for LifecycleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::LifecycleState::{Aging, Dead, Draining, Dying, Healthy};
    use super::*;

    fn pct(n: u8) -> ContextPct {
        ContextPct::try_from(n).expect("a percentage")
    }

    #[test]
    fn every_pair_of_states_is_a_transition_or_not() {
        // A row: from. A column: to, in the order of STATES.
        let table = [
            (Healthy, [false, true, true, false, true]),
            (Aging, [false, false, true, false, true]),
            (Dying, [false, false, false, true, true]),
            (Draining, [false, false, false, false, true]),
            (Dead, [false, false, false, false, false]),
        ];
        for (from, row) in table {
            assert_eq!(STATES.map(|to| from.can_transition_to(to)), row, "{from}");
        }
    }

    #[test]
    fn context_use_moves_forward_only_and_may_skip_aging() {
        let table = [
            (Healthy, 0, Healthy),
            (Healthy, 69, Healthy),
            (Healthy, 70, Aging),
            (Healthy, 89, Aging),
            (Healthy, 90, Dying),
            (Healthy, 100, Dying),
            (Aging, 10, Aging),
            (Aging, 90, Dying),
            (Dying, 10, Dying),
            (Dying, 100, Dying),
            (Draining, 10, Draining),
            (Draining, 100, Draining),
            (Dead, 0, Dead),
            (Dead, 95, Dead),
        ];
        for (from, used, to) in table {
            assert_eq!(from.evaluate(pct(used)), to, "{from} at {used}");
        }
        // Whatever is reported, in whatever order.
        for from in STATES {
            for used in 0..=100 {
                assert!(from.evaluate(pct(used)) >= from, "{from} at {used}");
            }
        }
    }

    #[test]
    fn a_program_that_made_its_context_smaller_is_healthy_unless_it_is_at_its_end() {
        assert_eq!(STATES.map(LifecycleState::compacted), [Healthy, Healthy, Healthy, Draining, Dead]);
    }

    #[test]
    fn the_fence_lets_one_finalization_in_and_then_nothing() {
        let admitted =
            STATES.map(|state| (state.admits(Prompt::Ordinary), state.admits(Prompt::Finalization)));
        assert_eq!(admitted, [(true, true), (true, true), (false, true), (false, false), (false, false)]);
    }

    #[test]
    fn a_percentage_is_read_and_never_rounded_up() {
        for (text, read) in [("0", 0), ("69.9", 69), ("70%", 70), ("100", 100), ("100.0%", 100)] {
            assert_eq!(text.parse::<ContextPct>().map(u8::from), Ok(read), "{text}");
        }
        for text in ["", "%", "-1", "+5", "101", "100.1", "7 0", "7.", ".7", "0x10", "1e1", "256", "NaN"] {
            assert!(text.parse::<ContextPct>().is_err(), "{text}");
        }
    }
}
