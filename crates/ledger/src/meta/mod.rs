//! `meta.db`, the record as a database: derived, written by the ingester alone, deleted and rebuilt at will.
//!
//! Promise: this folder holds the only calls that open it. A database that does not read is moved aside and never
//! written over; one of a later program is left alone.
//! Leaves to others: what goes in (`ingest`), what may be asked (`query`).

mod open;
mod schema;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;

use rusqlite::Connection;

use crate::error::{Error, Result, sql};

pub(crate) use open::{readable, sound, whole, writable};
pub(crate) use schema::tables;
pub use schema::{Table, schema};

/// A database, and what SQLite keeps beside it. The database first wherever they go: what is opened in between is then
/// none, and not one without its log.
const FILES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Damaged databases that are kept as evidence; a disk that damages more of them must not be filled with them.
const KEPT: u32 = 3;

/// Moves a damaged database out of the way, beside its place; returns its name there, none if there was evidence enough
/// and it was removed.
pub(crate) fn set_aside(layout: &Layout) -> Result<Option<String>> {
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
        return Ok(Some(aside));
    }
    remove(layout).map(|()| None)
}

/// Removes the database, so that the next ingest makes it from nothing.
pub(crate) fn remove(layout: &Layout) -> Result<()> {
    remove_files(&Dir::open(layout.home())?, &open::name(layout), &FILES)
}

/// Fails where the database is one of a later program. What it is otherwise, damaged or none, does not matter here.
pub(crate) fn need_not_later(layout: &Layout) -> Result<()> {
    match readable(layout) {
        Err(error @ Error::Unsuited(_)) => Err(error),
        _ => Ok(()),
    }
}

/// Another database beside the present one, of which nobody knows until [`replace`]; what is left of one that never came to
/// that goes.
pub(crate) fn fresh(layout: &Layout) -> Result<Connection> {
    remove_fresh(layout)?;
    writable(&layout.home().join(fresh_name(layout)))
}

/// Removes what is left of one that was not finished.
pub(crate) fn remove_fresh(layout: &Layout) -> Result<()> {
    remove_files(&Dir::open(layout.home())?, &fresh_name(layout), &FILES)
}

/// Puts the fresh database, whole and durable, in the place of the present one.
pub(crate) fn replace(layout: &Layout, fresh: Connection) -> Result<()> {
    // A close that cannot carry its log over says nothing of it.
    let carried: i64 = fresh
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .map_err(sql("carry over the log of"))?;
    if carried != 0 {
        return Err(Error::Unsuited("another process reads it before it is whole".to_owned()));
    }
    fresh.close().map_err(|(_, error)| sql("close")(error))?;
    let (home, name, fresh) = (Dir::open(layout.home())?, open::name(layout), fresh_name(layout));
    home.sync_file(&fresh)?;
    // The database first: without its log it may be a mix of two states. None is made by the next ingest. The log before
    // the other has the name: it would be read as its own.
    let [database, logs @ ..] = &FILES;
    for files in [std::slice::from_ref(database), logs] {
        remove_files(&home, &name, files)?;
        home.sync()?;
    }
    home.rename_over(&fresh, &home, &name)?;
    Ok(home.sync()?)
}

fn fresh_name(layout: &Layout) -> String {
    format!("{}.new", open::name(layout))
}

fn remove_files(home: &Dir, name: &str, suffixes: &[&str]) -> Result<()> {
    for suffix in suffixes {
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

/// Fails where the database is damaged.
pub(crate) fn need_sound(db: &Connection) -> Result<()> {
    if sound(db)? { Ok(()) } else { Err(damaged()) }
}

/// As [`need_sound`], of all that a question may meet.
pub(crate) fn need_whole(db: &Connection) -> Result<()> {
    if whole(db)? { Ok(()) } else { Err(damaged()) }
}

fn damaged() -> Error {
    let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    sql("check")(rusqlite::Error::SqliteFailure(corrupt, None))
}

/// Copies the database as it is now into a folder, durably; false if there is none.
pub(crate) fn copy(layout: &Layout, to: &Dir) -> Result<bool> {
    let Some(db) = readable(layout)? else { return Ok(false) };
    let name = open::name(layout);
    let target = to.path().join(&name);
    let copied = db.execute("VACUUM INTO ?1", [target.to_string_lossy()]).map_err(sql("copy"));
    copied.map_err(|error| open::explained(&target, error))?;
    to.sync_file(&name)?;
    to.sync()?;
    Ok(true)
}
