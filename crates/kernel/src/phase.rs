//! Where one generation of a session stands, and how it ends: one transition function for live work and recovery.
//!
//! Leaves to others: who observes it (`worker`, `anchor`) and how it is written (`session`).

use std::fmt;

use netsky_model::stamp::Stamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a program came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum End {
    /// It returned this code.
    Exited {
        /// 0..=255.
        code: i32,
    },
    /// A signal ended it.
    Signalled {
        /// Number of the signal.
        signal: i32,
        /// Whether somebody had it sent, or pressed its key, shortly before: what was asked for is not taken away.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        asked: bool,
    },
    /// It was ended by a kill that somebody asked for.
    Killed,
    /// Its worker died without writing an end; what was left of the tree was swept.
    WorkerDied,
    /// It never ran.
    FailedToStart {
        /// One line for a person.
        why: String,
    },
    /// Neither worker nor program was there when an anchor looked.
    Orphaned,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Exited { code } => write!(f, "exited with code {code}"),
            End::Signalled { signal, asked: false } => write!(f, "ended by signal {signal}"),
            End::Signalled { signal, asked: true } => write!(f, "ended by signal {signal} on request"),
            End::Killed => f.write_str("killed on request"),
            End::WorkerDied => f.write_str("lost with its worker"),
            End::FailedToStart { why } => write!(f, "failed to start: {why}"),
            End::Orphaned => f.write_str("orphaned"),
        }
    }
}

/// Where one generation of a session stands; each variant holds what is true only then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Phase {
    /// The generation is reserved; no program was seen running yet.
    Starting,
    /// The program runs.
    Running {
        /// When the worker saw the program start.
        started_at: Stamp,
    },
    /// The program and its whole tree are gone.
    Ended {
        /// How.
        how: End,
        /// When the tree was swept empty.
        at: Stamp,
        /// Absent when the program never ran.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started_at: Option<Stamp>,
    },
    /// Ended, looked at and put aside by `kernel reap`.
    Inactive {
        /// How it had ended.
        how: End,
        /// When it had ended; when it was put aside, in files of former programs.
        at: Stamp,
    },
}

/// What can happen to one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PhaseEvent {
    /// The worker saw its program start.
    Started(Stamp),
    /// The program is gone and its tree swept.
    Ended(End, Stamp),
    /// Somebody reaped it.
    Reaped,
}

/// An event that cannot happen in that phase.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {event:?} in phase {phase:?}")]
pub struct IllegalPhase {
    /// The phase that stays.
    pub phase: Phase,
    /// What was refused.
    pub event: PhaseEvent,
}

impl Phase {
    /// The one transition function; live work and recovery both go through it.
    ///
    /// # Errors
    /// [`IllegalPhase`] when the event cannot happen here, for instance a second end.
    pub fn next(self, event: PhaseEvent) -> Result<Phase, Box<IllegalPhase>> {
        match (self, event) {
            (Phase::Starting, PhaseEvent::Started(started_at)) => Ok(Phase::Running { started_at }),
            (Phase::Starting, PhaseEvent::Ended(how, at)) => Ok(Phase::Ended { how, at, started_at: None }),
            (Phase::Running { started_at }, PhaseEvent::Ended(how, at)) => {
                Ok(Phase::Ended { how, at, started_at: Some(started_at) })
            }
            (Phase::Ended { how, at, .. }, PhaseEvent::Reaped) => Ok(Phase::Inactive { how, at }),
            (phase, event) => Err(Box::new(IllegalPhase { phase, event })),
        }
    }

    /// Whether a program of this generation may be alive.
    pub fn may_live(&self) -> bool {
        matches!(self, Phase::Starting | Phase::Running { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_moves_forward_only() {
        let at = netsky_disk::clock::stamp();
        let running = Phase::Starting.next(PhaseEvent::Started(at.clone())).expect("starting runs");
        assert!(running.may_live());
        let end = End::Exited { code: 3 };
        let ended = running.next(PhaseEvent::Ended(end.clone(), at.clone())).expect("running ends");
        assert!(!ended.may_live());
        assert!(ended.clone().next(PhaseEvent::Ended(end.clone(), at.clone())).is_err(), "no second end");
        assert!(ended.clone().next(PhaseEvent::Started(at.clone())).is_err(), "no resurrection");
        let aside = ended.next(PhaseEvent::Reaped).expect("ended is reaped");
        assert_eq!(aside, Phase::Inactive { how: end, at });
        assert!(Phase::Starting.next(PhaseEvent::Reaped).is_err(), "what may live is not reaped");
    }
}
