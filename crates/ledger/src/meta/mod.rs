//! `meta.db`, the record as a database: derived, written by the ingester alone, deleted and rebuilt at will.
//!
//! Promise: this folder holds the only calls that open it. A database that does not read is moved aside and never
//! written over; one of a later program is left alone.
//! Leaves to others: what goes in (`ingest`), what may be asked (`query`).

mod open;
mod schema;

use std::path::PathBuf;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;

use crate::error::{Result, sql};

pub(crate) use open::{readable, sound, writable};
pub(crate) use schema::tables;
pub use schema::{Table, schema};

/// A database, and what SQLite keeps beside it. The database first wherever they go: what is opened in between is then
/// none, and not one without its log.
const FILES: [&str; 3] = ["", "-wal", "-shm"];

/// Damaged databases that are kept as evidence; a disk that damages more of them must not be filled with them.
const KEPT: u32 = 3;

/// Moves a damaged database out of the way, beside its place; returns where it is now, none if there was evidence enough
/// and it was removed.
pub(crate) fn set_aside(layout: &Layout) -> Result<Option<PathBuf>> {
    let (home, name) = (Dir::open(layout.home())?, open::name(layout));
    for n in 1..=KEPT {
        let aside = format!("{name}.damaged-{n}");
        if home.exists(&aside)? {
            continue;
        }
        for suffix in FILES {
            match home.rename(format!("{name}{suffix}"), &home, format!("{aside}{suffix}")) {
                Err(e) if e.is_not_found() => {}
                moved => moved?,
            }
        }
        return Ok(Some(home.path().join(aside)));
    }
    remove(layout).map(|()| None)
}

/// Removes the database, so that the next ingest makes it from nothing.
pub(crate) fn remove(layout: &Layout) -> Result<()> {
    let (home, name) = (Dir::open(layout.home())?, open::name(layout));
    for suffix in FILES {
        let file = format!("{name}{suffix}");
        if home.is_folder(&file)? {
            // Somebody's, with who knows what in it.
            netsky_disk::state::set_aside(home.path().join(file))?;
            continue;
        }
        home.remove(file)?;
    }
    Ok(())
}

/// Copies the database as it is now into a folder, durably; false if there is none.
pub(crate) fn copy(layout: &Layout, to: &Dir) -> Result<bool> {
    let Some(db) = readable(layout)? else { return Ok(false) };
    let name = open::name(layout);
    let target = to.path().join(&name);
    db.execute("VACUUM INTO ?1", [target.to_string_lossy()]).map_err(sql("copy"))?;
    to.sync_file(&name)?;
    to.sync()?;
    Ok(true)
}
