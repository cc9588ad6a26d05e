//! The record: what was done, when, by whom. For now its telemetry lines.
//!
//! Promise: one line is one event, never longer than a bounded size, without message bodies and secrets; recording
//! fails nobody. The lines are unsynced: the files of the home are the truth, this tells when they came to be.
//! Leaves to others: what is worth recording, and what to make of it when it is read back (`netsky check`).
#![forbid(unsafe_code)]

mod moves;
mod telemetry;

pub use moves::{Move, Moves, What, moves};
pub use telemetry::{Invocation, Telemetry};
