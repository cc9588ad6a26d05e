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

/// Opens one for the ingester, made and brought to the present version where it is not.
pub(crate) fn writable(path: &Path) -> Result<Connection> {
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
    let db = connect(&layout.meta_db(), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
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
    let db = match Connection::open_with_flags(path, flags) {
        Ok(db) => db,
        Err(error) => {
            denied(path)?;
            return Err(sql("open")(error));
        }
    };
    db.busy_timeout(BUSY).map_err(sql("open"))?;
    Ok(db)
}

/// Fails where this user may not read the database at all: SQLite says of that only that it cannot be opened.
fn denied(path: &Path) -> Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    match Dir::open(folder)?.read(name, 0) {
        Err(ReadError::Io(error)) if error.is_denied() => Err(error.into()),
        _ => Ok(()),
    }
}
