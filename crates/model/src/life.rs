//! The one life of an envelope: states, events, and the only function that moves between them.

use std::fmt;

use crate::id::Generation;

/// Surfacings in vain after which an envelope is a dead letter.
///
/// Enough to outlive a crash loop that is noticed, small enough that a message which kills its
/// reader cannot do so all day.
pub const MAX_ATTEMPTS: u32 = 5;

/// Surfacings after which an envelope is a dead letter though its readers were ended on purpose: a reader that ends its own
/// reader, again and again, is no end on purpose.
///
/// Far more restarts than one message lives through, few enough that no such pair goes on for a day.
pub const MAX_HANDED_BACK: u32 = 50;

/// Where an envelope is: each state is a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// In `inbox/`: written and durable, nobody has it.
    Written,
    /// In `claimed/`: one process has it.
    Claimed,
    /// In `delivered/`: surfaced, the turn is not finished.
    Delivered,
    /// In `acked/`: finished.
    Acked,
    /// In `forwarded/`: finished here; a copy of it went to another agent.
    Forwarded,
    /// In `poison/`: a dead letter with its reason beside it.
    Poisoned,
}

/// All states in the order of a life.
pub const STATES: [State; 6] =
    [State::Written, State::Claimed, State::Delivered, State::Acked, State::Forwarded, State::Poisoned];

/// What the mark of a chosen id says once its envelope was kept for long enough and went.
pub const RETIRED: &[u8] = b"retired\n";

impl State {
    /// The folder below `channels/agent/<id>/`.
    pub fn folder(self) -> &'static str {
        match self {
            State::Written => "inbox",
            State::Claimed => "claimed",
            State::Delivered => "delivered",
            State::Acked => "acked",
            State::Forwarded => "forwarded",
            State::Poisoned => "poison",
        }
    }

    /// The word used in the record and on screens.
    pub fn word(self) -> &'static str {
        match self {
            State::Written => "written",
            State::Claimed => "claimed",
            State::Delivered => "delivered",
            State::Acked => "acked",
            State::Forwarded => "forwarded",
            State::Poisoned => "poisoned",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// What happens to an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A consumer takes it.
    Claim,
    /// Its claimant put it before the agent.
    Surface,
    /// The turn that took it finished, or the agent acknowledged it.
    Ack,
    /// Who had it ended without finishing; `attempt` is the one that was in vain.
    GiveBack {
        /// The attempt that ended.
        attempt: u32,
    },
    /// Who had it was ended on purpose: nothing was in vain, until it has happened too often to be believed.
    HandBack {
        /// The attempt that ended.
        attempt: u32,
    },
    /// Its bytes or its file are not what an envelope is, or the generation it was meant for has ended.
    Reject,
    /// A durable copy of it is in another agent's inbox.
    Forward,
    /// The owner wants a dead letter tried once more.
    Retry,
}

/// Why an envelope went back to the inbox, or became a dead letter on its way there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The process that held it died.
    Died,
    /// The generation that took it ended without finishing it.
    Ended,
    /// The generation that took it was ended on purpose before it had finished it.
    Stopped,
    /// Its reader could not be given the text, or said that it failed.
    Failed,
    /// Somebody released it.
    Released,
    /// It asked for an ack and had none in time.
    Overdue,
    /// The owner retried a dead letter.
    Retried,
}

/// All causes.
pub const CAUSES: [Cause; 7] = [
    Cause::Died,
    Cause::Ended,
    Cause::Stopped,
    Cause::Failed,
    Cause::Released,
    Cause::Overdue,
    Cause::Retried,
];

impl Cause {
    /// The word used in the record.
    pub fn word(self) -> &'static str {
        match self {
            Cause::Died => "died",
            Cause::Ended => "ended",
            Cause::Stopped => "stopped",
            Cause::Failed => "failed",
            Cause::Released => "released",
            Cause::Overdue => "overdue",
            Cause::Retried => "retried",
        }
    }
}

impl Event {
    /// What it makes of an envelope, as messages say it.
    fn word(self) -> &'static str {
        match self {
            Event::Claim => "claimed",
            Event::Surface => "surfaced",
            Event::Ack => "acknowledged",
            Event::GiveBack { .. } | Event::HandBack { .. } => "given back",
            Event::Reject => "put aside",
            Event::Forward => "forwarded",
            Event::Retry => "retried",
        }
    }
}

/// An event that cannot happen in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an envelope that is {state} cannot be {}", .event.word())]
pub struct Illegal {
    /// Where the envelope is.
    pub state: State,
    /// What was tried.
    pub event: Event,
}

/// The state after `event`. Recovery and live work both go through here.
///
/// # Errors
/// An event that the state does not allow.
pub fn transition(state: State, event: Event) -> Result<State, Illegal> {
    use State::{Acked, Claimed, Delivered, Forwarded, Poisoned, Written};
    match (state, event) {
        (Written, Event::Claim) => Ok(Claimed),
        (Claimed, Event::Surface) => Ok(Delivered),
        // A late ack of a dead letter proves that it was handled after all.
        (Written | Claimed | Delivered | Poisoned, Event::Ack) => Ok(Acked),
        (Claimed | Delivered, Event::GiveBack { attempt }) if attempt < MAX_ATTEMPTS => Ok(Written),
        (Claimed | Delivered, Event::GiveBack { .. }) => Ok(Poisoned),
        (Claimed | Delivered, Event::HandBack { attempt }) if attempt < MAX_HANDED_BACK => Ok(Written),
        (Claimed | Delivered, Event::HandBack { .. }) => Ok(Poisoned),
        (Written | Claimed, Event::Reject) => Ok(Poisoned),
        (Claimed | Delivered, Event::Forward) => Ok(Forwarded),
        (Poisoned, Event::Retry) => Ok(Written),
        _ => Err(Illegal { state, event }),
    }
}

/// Whether an envelope is for whom takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Put it before its agent.
    Now,
    /// Its generation is still to come: leave it where it is.
    Early,
    /// Its generation has ended: what it says is about a world that is gone, so it must not be acted on.
    Late,
}

/// Whether an envelope that was meant for a generation is for the one that takes it. A person outside of every session
/// may read everything.
pub fn fit(meant_for: Option<Generation>, taker: Generation) -> Fit {
    match meant_for {
        Some(meant) if taker > meant => Fit::Late,
        Some(meant) if taker < meant && taker != Generation::NONE => Fit::Early,
        _ => Fit::Now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_state_and_event_is_decided() {
        let events = [
            Event::Claim,
            Event::Surface,
            Event::Ack,
            Event::GiveBack { attempt: 1 },
            Event::GiveBack { attempt: MAX_ATTEMPTS },
            Event::HandBack { attempt: MAX_ATTEMPTS },
            Event::HandBack { attempt: MAX_HANDED_BACK },
            Event::Reject,
            Event::Forward,
            Event::Retry,
        ];
        let mut table = String::new();
        for state in STATES {
            for event in events {
                let to = transition(state, event).map_or("-", State::word);
                table.push_str(&format!("{to:10}"));
            }
            table.push('\n');
        }
        let table: Vec<&str> = table.lines().map(str::trim_end).collect();
        assert_eq!(
            table,
            [
                "claimed   -         acked     -         -         -         -         poisoned  -         -",
                "-         delivered acked     written   poisoned  written   poisoned  poisoned  forwarded -",
                "-         -         acked     written   poisoned  written   poisoned  -         forwarded -",
                "-         -         -         -         -         -         -         -         -         -",
                "-         -         -         -         -         -         -         -         -         -",
                "-         -         acked     -         -         -         -         -         -         written",
            ]
        );
    }

    #[test]
    fn a_message_for_one_generation_is_for_no_later_one() {
        let table = [
            (None, 5, Fit::Now),
            (Some(5), 5, Fit::Now),
            (Some(5), 0, Fit::Now),
            (Some(5), 4, Fit::Early),
            (Some(5), 6, Fit::Late),
            (Some(0), 1, Fit::Late),
        ];
        for (meant, taker, answer) in table {
            assert_eq!(fit(meant.map(Generation), Generation(taker)), answer, "{meant:?} {taker}");
        }
    }
}
