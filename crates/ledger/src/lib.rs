//! The record: what was done, when, by whom.
//!
//! Facts exist in no other file: appended under a lock, chained, synced before they are said. Telemetry lines tell when
//! what is in other files came to be: one line is one event of bounded size, without message bodies and secrets,
//! unsynced, and recording fails nobody.
//! Leaves to others: what is worth recording, and what to make of it when it is read back (`netsky check`).
#![forbid(unsafe_code)]

mod error;
mod facts;
mod moves;
mod telemetry;
mod witness;

pub use error::{Error, Result};
pub use facts::{Appended, Fact, FactFile, Facts, facts, files};
pub use moves::{Move, Moves, What, moves};
pub use telemetry::{Invocation, Telemetry};
pub use witness::{PAGE, poison_key};
