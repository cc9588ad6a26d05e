//! How an engine tells the record what it did, without knowing that there is one.

use std::io;

use crate::hlc::Hlc;
use crate::id::{AgentId, EnvelopeId, Generation, Sender};
use crate::life::{Cause, State};

/// One move of one envelope, already durable on disk.
#[derive(Debug, Clone)]
pub struct Transition {
    /// Whose folder.
    pub agent: AgentId,
    /// Which envelope.
    pub id: EnvelopeId,
    /// Its place in the order.
    pub hlc: Hlc,
    /// Where it went.
    pub to: State,
    /// Which attempt it is.
    pub attempt: u32,
    /// Who sent it, where that is known without opening it again.
    pub from: Option<Sender>,
    /// Which incarnation took it.
    pub generation: Option<Generation>,
    /// Why, for a way back or a dead letter, in words.
    pub reason: Option<String>,
    /// Why it went back, or would have but for its attempts.
    pub cause: Option<Cause>,
}

/// Whoever keeps a record of transitions. But for removals it cannot fail: the folder is the truth, this is telemetry.
pub trait Witness {
    /// Called once after each move.
    fn saw(&self, transition: &Transition);

    /// Called before envelopes that reached their end are removed; `to` is where they were. They go only if this succeeds,
    /// so a record that takes what it saw for what is there keeps this durably; one that stays after all is told again.
    ///
    /// # Errors
    /// It could not be kept.
    fn removed(&self, _transitions: &[Transition]) -> io::Result<()> {
        Ok(())
    }

    /// Called before an envelope goes back although nobody died of it: who dies between the two has moved it all the same,
    /// and a later surfacing has its reason.
    fn returning(&self, _transition: &Transition) {}

    /// Called once after each surfacing, before the move that records it: a process that dies between the two has
    /// surfaced the envelope nevertheless.
    fn surfaced(&self, _transition: &Transition) {}
}

/// Keeps no record.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

impl Witness for Nobody {
    fn saw(&self, _: &Transition) {}
}
