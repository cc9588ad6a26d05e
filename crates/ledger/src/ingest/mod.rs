//! The ingester: brings `meta.db` to what files, facts and lines say.
//!
//! Promise: one at a time, others skip. Each batch of rows is in the database together with how far its
//! source was read, so it may be killed or put off at any point and goes on there, and doing it twice adds
//! nothing. What has not changed is not read again. A database that may have been harmed (a killed ingest,
//! another boot) is looked at before it is used. After it the database holds what a rebuild from nothing
//! would hold: facts row for row, and of every envelope its state, attempt and reason, but for what does
//! not open any more. What does not read is listed, what the database refuses is kept and tried once more.
//! Leaves to others: when to run (the ticker, and `query` before it answers).

mod batch;
mod facts;
mod lines;
mod mail;
mod refused;
#[cfg(test)]
mod tests;
mod told;

use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{clock, fault, process};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::meta;
use batch::{Batch, Bounds};

/// Rows of a transaction: some megabytes of log.
const ROWS: usize = 20_000;

/// What an ingest did.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Ingested {
    /// Facts that came in.
    pub facts: u64,
    /// Lines of telemetry that came in.
    pub lines: u64,
    /// Files of envelopes that were new or had moved.
    pub envelopes: u64,
    /// Lines and files that do not read, and were not known for it.
    pub errors: u64,
    /// Rows that the database refused.
    pub refused: u64,
    /// It ended at its deadline, and the next one goes on.
    pub put_off: bool,
    /// The first folder of mail that did not open, and why; all of them are listed.
    pub shut: Option<String>,
    /// The first file of lines that did not open, and why; of those that were read before, the lines stay, but for a rebuild.
    pub unread: Option<String>,
    /// A damaged database was found, and the present one made from nothing.
    pub rebuilt: bool,
    /// Where the damaged one was moved to, if it was kept.
    pub aside: Option<PathBuf>,
}

/// What an ingest begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// The database that is there.
    Here,
    /// The same, once all of it was looked at.
    Looked,
    /// None: it makes one beside it.
    Anew,
}

/// What the lock says of its last holder.
#[derive(Serialize, Deserialize)]
struct Last {
    process: u32,
    ended: bool,
    /// The damaged database that it put away before it failed to make another, or was killed: told by who makes one.
    #[serde(default)]
    damage: Option<Damage>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Damage {
    /// Its name in the home now, if it was kept; the home may be moved before it is told.
    aside: Option<String>,
}

/// Ingests what is new. None if another ingester was at work for all of `patience`.
///
/// # Errors
/// The database is held by somebody else or belongs to a later program, a source cannot be read, or the disk refuses;
/// what came in until then stays, and the next ingest goes on from there.
pub fn ingest(layout: &Layout, patience: Duration) -> Result<Option<Ingested>> {
    run(layout, patience, Bounds { rows: ROWS, until: None }, Begin::Here)
}

/// As [`ingest`], but when the boot clock comes to `until` it ends after the batch it is at. However late that is, it
/// gets further than the one before.
///
/// # Errors
/// As [`ingest`].
pub fn ingest_until(layout: &Layout, until: Duration) -> Result<Option<Ingested>> {
    run(layout, Duration::ZERO, Bounds { rows: ROWS, until: Some(until) }, Begin::Here)
}

/// As [`ingest`], but from nothing; the database that is there answers until the new one is whole.
///
/// # Errors
/// As [`ingest`]; what was there is there still.
pub fn rebuild(layout: &Layout, patience: Duration) -> Result<Option<Ingested>> {
    run(layout, patience, Bounds { rows: ROWS, until: None }, Begin::Anew)
}

/// As [`ingest`], after a question met damage: the database is looked at, each row and each entry, and made anew where it is
/// damaged.
///
/// # Errors
/// As [`ingest`].
pub fn mend(layout: &Layout, patience: Duration) -> Result<Option<Ingested>> {
    run(layout, patience, Bounds { rows: ROWS, until: None }, Begin::Looked)
}

/// Which process is at an ingest now, or was a moment ago; none where nobody is.
///
/// # Errors
/// The lock cannot be looked at.
pub fn ingester(layout: &Layout) -> Result<Option<u32>> {
    let path = layout.ingest_lock();
    if !Lock::is_held(&path)? {
        return Ok(None);
    }
    Ok(Lock::noted(&path).filter(|last: &Last| !last.ended).map(|last| last.process))
}

/// Has the next ingest look at the database before it uses it, and make it anew where it is damaged: for who has found it
/// so. False where somebody is at an ingest now.
///
/// # Errors
/// It cannot be written down.
pub fn doubt(layout: &Layout) -> Result<bool> {
    let Some(mut lock) = Lock::try_take(layout.ingest_lock())? else { return Ok(false) };
    let damage = last(&lock)?.and_then(|last| last.damage);
    lock.note(&Last { process: process::identity()?.pid, ended: false, damage })?;
    Ok(true)
}

fn run(layout: &Layout, patience: Duration, bounds: Bounds, begin: Begin) -> Result<Option<Ingested>> {
    Dir::make(layout.record())?;
    let path = layout.ingest_lock();
    let Some(mut lock) = Lock::take_within(&path, patience)? else { return Ok(None) };
    let last = last(&lock)?;
    let mut doubtful = last.as_ref().is_some_and(|last| !last.ended);
    let mut damage = last.and_then(|last| last.damage);
    let me = process::identity()?.pid;
    lock.note(&Last { process: me, ended: false, damage: damage.clone() })?;
    let _ = fault::point("ledger.ingest.begun");
    if doubtful {
        // Most likely nothing; of a rebuild that was killed, its whole size.
        meta::remove_fresh(layout)?;
    }
    let mut done = match begin {
        Begin::Here => pass(layout, bounds, &mut doubtful),
        Begin::Looked => whole(layout).and_then(|()| pass(layout, bounds, &mut doubtful)),
        Begin::Anew => anew(layout, bounds).inspect(|_| doubtful = false),
    };
    if begin != Begin::Anew && done.as_ref().is_err_and(Error::is_damage) {
        doubtful = true;
        damage = Some(Damage { aside: meta::set_aside(layout)? });
        lock.note(&Last { process: me, ended: false, damage: damage.clone() })?;
        done = pass(layout, bounds, &mut doubtful);
    }
    if let (Ok(done), Some(Damage { aside })) = (&mut done, &damage) {
        (done.rebuilt, done.aside) = (true, aside.as_ref().map(|name| layout.home().join(name)));
        damage = None;
    }
    // What keeps on failing for another reason must not have the whole database looked at each time.
    if !doubtful && !done.as_ref().is_err_and(Error::is_of_the_database) {
        lock.note(&Last { process: me, ended: true, damage })?;
    }
    done.map(Some)
}

fn last(lock: &Lock) -> Result<Option<Last>> {
    Ok(serde_json::from_slice(&lock.content()?).ok())
}

/// Fails as damage where a row or an entry of the database is not what it should be.
fn whole(layout: &Layout) -> Result<()> {
    meta::readable(layout)?.map_or(Ok(()), |db| meta::need_whole(&db))
}

/// One look at every source; a database that was looked at is not `doubtful` any more.
fn pass(layout: &Layout, bounds: Bounds, doubtful: &mut bool) -> Result<Ingested> {
    fill(&meta::writable(&layout.meta_db())?, layout, bounds, doubtful)
}

/// The same into a database that takes the place of the present one when it is whole.
fn anew(layout: &Layout, bounds: Bounds) -> Result<Ingested> {
    meta::need_not_later(layout)?;
    let filled = meta::fresh(layout).and_then(|db| {
        // Nothing is told of the present one by what was seen of this.
        let done = fill(&db, layout, bounds, &mut false)?;
        meta::replace(layout, db)?;
        Ok(done)
    });
    if filled.is_err() {
        // Where even that fails, the next rebuild does it.
        let _ = meta::remove_fresh(layout);
    }
    filled
}

fn fill(db: &Connection, layout: &Layout, bounds: Bounds, doubtful: &mut bool) -> Result<Ingested> {
    let mut batch = Batch::begin(layout, db, bounds)?;
    match look(&mut batch, doubtful) {
        Err(Error::PutOff) => Ok(Ingested { put_off: true, ..batch.done }),
        looked => looked.and_then(|()| batch.end()),
    }
}

fn look(batch: &mut Batch<'_>, doubtful: &mut bool) -> Result<()> {
    let (began, last, boot) = (clock::wall(), batch.said("boot_id")?, process::boot_id());
    batch.about("boot_id", boot)?;
    match last {
        None => {
            *doubtful = false;
            refused::forget(batch)?;
        }
        // Of another boot: a power cut may have come between.
        Some(last) if *doubtful || last != boot => {
            batch.check()?;
            *doubtful = false;
            // It takes long where there is much: an ingest that ends before its work is done need not do it again.
            batch.turn_over()?;
        }
        Some(_) => {}
    }
    refused::retry(batch)?;
    facts::ingest(batch)?;
    // Lines first: a folder that is looked at after them is never older than what they say.
    lines::ingest(batch)?;
    mail::ingest(batch)?;
    // What was there then is in.
    batch.about("ingested_at", &began.to_string())
}
