//! Opening the database: for the ingester, and for whoever only looks.

use std::path::Path;
use std::time::Duration;

use netsky_disk::ReadError;
use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use rusqlite::{Connection, OpenFlags};

use super::schema;
use crate::error::{Error, Result, sql};

/// How long somebody else's lock on the database is waited for.
const BUSY: Duration = Duration::from_secs(2);

/// Kibibytes of pages kept in memory.
const CACHE_KIB: i64 = 16 * 1024;

/// Pages in the log before they are carried over into the database: a batch or two.
const CHECKPOINT: i64 = 8 * 1024;

/// The database's own name in the home.
pub(super) fn name(layout: &Layout) -> String {
    layout.meta_db().file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Descriptors that SQLite may want at once: for the database, its log, the memory that is shared, a copy, and theirs.
const AT_ONCE: usize = 6;

/// Opens one for the ingester, made and brought to the present version where it is not.
pub(crate) fn writable(path: &Path) -> Result<Connection> {
    made(path).map_err(|error| explained(path, error))
}

fn made(path: &Path) -> Result<Connection> {
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    let set = |name, value| db.pragma_update(None, name, value).map_err(sql("set up"));
    let mode: String =
        db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(sql("set up"))?;
    if mode != "wal" {
        return Err(Error::Unsuited(format!("its journal mode is {mode}")));
    }
    // The log is synced when it is carried over: after a power cut the newest rows may be missing, and are read again.
    db.pragma_update(None, "synchronous", "NORMAL").map_err(sql("set up"))?;
    // What a savepoint may have to put back is kept in memory: in files it would be written for each row.
    db.pragma_update(None, "temp_store", "MEMORY").map_err(sql("set up"))?;
    set("cache_size", -CACHE_KIB)?;
    set("wal_autocheckpoint", CHECKPOINT)?;
    schema::migrate(&db)?;
    if schema::is_ours(&db)? { Ok(db) } else { Err(super::damaged()) }
}

/// Opens it for reading; none if there is none.
pub(crate) fn readable(layout: &Layout) -> Result<Option<Connection>> {
    if !netsky_disk::state::exists(layout.meta_db())? {
        return Ok(None);
    }
    there(&layout.meta_db()).map_err(|error| explained(&layout.meta_db(), error))
}

fn there(path: &Path) -> Result<Option<Connection>> {
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    match schema::check(&db) {
        // It is in WAL mode before it has a table: the next ingest makes it.
        Err(error) if error.is_unfinished() => Ok(None),
        checked => Ok((checked? > 0).then_some(db)),
    }
}

/// Whether every page is where it should be, and of what this program makes.
pub(crate) fn sound(db: &Connection) -> Result<bool> {
    Ok(is_ok(db, "PRAGMA quick_check(1)")? && schema::is_ours(db)?)
}

/// The same, and whether every row has its entry in every index: takes several times as long.
pub(crate) fn whole(db: &Connection) -> Result<bool> {
    is_ok(db, "PRAGMA integrity_check(1)")
}

fn is_ok(db: &Connection, check: &str) -> Result<bool> {
    let said: rusqlite::Result<String> = db.query_row(check, [], |row| row.get(0));
    match said.map_err(sql("check")) {
        Ok(said) => Ok(said == "ok"),
        Err(error) if error.is_damage() => Ok(false),
        Err(error) => Err(error),
    }
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    if !netsky_disk::fs::is_plain_or_free(path)? {
        let why = "no plain file; `netsky ledger rebuild` makes it anew";
        return Err(netsky_disk::Error::because("open", path, why.to_owned()).into());
    }
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let db = Connection::open_with_flags(path, flags).map_err(sql("open"))?;
    db.busy_timeout(BUSY).map_err(sql("open"))?;
    Ok(db)
}

/// Why a database is not opened, where SQLite says only that: there are no descriptors, or this user may not read it, or
/// make it.
pub(super) fn explained(path: &Path, error: Error) -> Error {
    if error.is_unopened() { openable(path).err().map_or(error, Error::from) } else { error }
}

fn openable(path: &Path) -> netsky_disk::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let opened: Vec<Dir> = (0..AT_ONCE).map(|_| Dir::open(folder)).collect::<netsky_disk::Result<_>>()?;
    match opened[0].read(name, 0) {
        Err(ReadError::Io(error)) if error.is_denied() => Err(error),
        Err(ReadError::Io(error)) if error.is_not_found() => opened[0].lets_change(),
        _ => Ok(()),
    }
}
