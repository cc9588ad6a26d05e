//! The ingester: brings `meta.db` to what files, facts and lines say.
//!
//! Promise: one at a time, others skip. Each batch of rows is in the database together with how far its source was read,
//! so it may be killed at any point and goes on there, and doing it twice adds nothing. What has not changed is not read
//! again. After it the database holds what a rebuild from nothing would hold: facts row for row, and of every envelope
//! its state, attempt and reason. What does not read is listed, what the database refuses is kept and tried once more.
//! Leaves to others: when to run (the ticker, and `query` before it answers).

mod batch;
mod facts;
mod lines;
mod mail;
mod refused;
mod told;

use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{clock, process};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::meta;
use batch::Batch;

/// What an ingest did.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Ingested {
    /// Facts that came in.
    pub facts: u64,
    /// Lines of telemetry that came in.
    pub lines: u64,
    /// Files of envelopes that were new or had moved.
    pub envelopes: u64,
    /// Lines and files that do not read.
    pub errors: u64,
    /// Rows that the database refused.
    pub refused: u64,
    /// A damaged database was found, and the present one made from nothing.
    pub rebuilt: bool,
    /// Where the damaged one was moved to, if it was kept.
    pub aside: Option<PathBuf>,
}

/// What the lock says of its last holder.
#[derive(Serialize, Deserialize)]
struct Last {
    process: u32,
    ended: bool,
}

/// Ingests what is new. None if another ingester was at work for all of `patience`.
///
/// # Errors
/// The database is held by somebody else or belongs to a later program, a source cannot be read, or the disk refuses;
/// what came in until then stays, and the next ingest goes on from there.
pub fn ingest(layout: &Layout, patience: Duration) -> Result<Option<Ingested>> {
    run(layout, patience, false)
}

/// As [`ingest`], but from nothing.
///
/// # Errors
/// As [`ingest`].
pub fn rebuild(layout: &Layout, patience: Duration) -> Result<Option<Ingested>> {
    run(layout, patience, true)
}

fn run(layout: &Layout, patience: Duration, from_nothing: bool) -> Result<Option<Ingested>> {
    Dir::make(layout.record())?;
    let path = layout.ingest_lock();
    let Some(mut lock) = Lock::take_within(&path, patience)? else { return Ok(None) };
    let last: Option<Last> = serde_json::from_slice(&lock.content()?).ok();
    let doubtful = last.is_some_and(|last| !last.ended);
    let me = process::identity()?.pid;
    lock.note(&Last { process: me, ended: false })?;
    if from_nothing {
        meta::remove(layout)?;
    }
    let done = match pass(layout, doubtful) {
        Err(error) if error.is_damage() => {
            let aside = meta::set_aside(layout)?;
            Ingested { rebuilt: true, aside, ..pass(layout, false)? }
        }
        done => done?,
    };
    lock.note(&Last { process: me, ended: true })?;
    Ok(Some(done))
}

/// One look at every source.
fn pass(layout: &Layout, doubtful: bool) -> Result<Ingested> {
    let db = meta::writable(layout)?;
    let mut batch = Batch::begin(layout, &db)?;
    if doubtful || !batch.is_of_this_boot()? {
        batch.check()?;
    }
    if batch.is_new()? {
        refused::forget(&mut batch)?;
    }
    refused::retry(&mut batch)?;
    facts::ingest(&mut batch)?;
    // Lines first: a folder that is looked at after them is never older than what they say.
    lines::ingest(&mut batch)?;
    mail::ingest(&mut batch)?;
    batch.about("ingested_at", &clock::wall().to_string())?;
    batch.end()
}
