//! The record: what was done, when, by whom.
//!
//! Facts exist in no other file: appended under a lock, chained, synced before they are said. Telemetry lines tell when
//! what is in other files came to be: one line is one event of bounded size, without message bodies and secrets,
//! unsynced, and recording fails nobody. The database `meta.db` is made of both and of the envelopes' folders by one
//! ingester; it can be deleted at any time, and no message waits for it.
//! Leaves to others: what is worth recording, and what to make of it when it is read back (`netsky check`).
#![forbid(unsafe_code)]

mod backup;
mod error;
mod facts;
mod ingest;
mod logs;
mod meta;
mod moves;
mod query;
mod status;
mod telemetry;
mod witness;

pub use backup::{Backup, backup};
pub use error::{Error, Result, WAY_OUT};
pub use facts::{
    Appended, Deciding, Fact, FactFile, Facts, Latest, Mark, end_of_facts, facts, facts_after, files, latest,
};
pub use ingest::{Ingested, doubt, ingest, ingest_until, ingester, mend, rebuild};
pub use logs::prune;
pub use meta::{Table, schema};
pub use moves::{Move, Moves, What, moves};
pub use query::{Answer, Cell, Limits, MAX_ROWS, TIME, query};
pub use status::{Broken, Database, Status, broken_facts, status};
pub use telemetry::{Invocation, Telemetry};
pub use witness::{PAGE, poison_key};
