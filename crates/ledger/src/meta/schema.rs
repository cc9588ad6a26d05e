//! The tables, and how a database comes to its present version.

use rusqlite::Connection;

use crate::error::{Error, MIGRATE, Result, sql};

/// What brings a database from one version to the next; the first makes it. Their texts stay as they are: a database whose
/// tables read otherwise is none of ours.
const MIGRATIONS: [&str; 3] = [include_str!("v1.sql"), include_str!("v2.sql"), include_str!("v3.sql")];

/// What is tried where a database is asked for its tables.
const READ: &str = "read the tables of";

/// One table or view.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// `table` or `view`.
    pub kind: String,
    /// How it is declared, with what its columns mean.
    pub sql: String,
    /// Its columns.
    pub columns: Vec<String>,
}

/// The version of a database.
fn version(db: &Connection) -> Result<usize> {
    let version: i64 =
        db.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(sql("read the version of"))?;
    usize::try_from(version).map_err(|_| Error::Unsuited(format!("its version is {version}")))
}

/// Refuses a database of a later program.
pub(super) fn check(db: &Connection) -> Result<usize> {
    let version = version(db)?;
    if version > MIGRATIONS.len() {
        return Err(Error::Unsuited(format!("its version {version} is newer than this program")));
    }
    Ok(version)
}

/// Runs what is missing; nothing where the version is equal.
pub(super) fn migrate(db: &Connection) -> Result<()> {
    migrate_to(MIGRATIONS.len(), db)
}

/// Whether a database has what this program makes for its version, and nothing else: tables, indexes, views and triggers.
pub(super) fn is_ours(db: &Connection) -> Result<bool> {
    let ours = Connection::open_in_memory().map_err(sql("open"))?;
    migrate_to(check(db)?, &ours)?;
    Ok(objects(db)? == objects(&ours)?)
}

/// What a database has: sort, name, whose it is, how it is declared.
type Object = (String, String, String, Option<String>);

fn objects(db: &Connection) -> Result<Vec<Object>> {
    let asked = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name";
    let mut statement = db.prepare(asked).map_err(sql(READ))?;
    statement.query_map([], |row| row.try_into()).and_then(Iterator::collect).map_err(sql(READ))
}

fn migrate_to(newest: usize, db: &Connection) -> Result<()> {
    for (version, migration) in MIGRATIONS[..newest].iter().enumerate().skip(check(db)?) {
        let next = version + 1;
        let steps = format!("BEGIN IMMEDIATE;\n{migration}\nPRAGMA user_version = {next};\nCOMMIT;");
        if let Err(error) = db.execute_batch(&steps) {
            // Already over where it was the commit that failed.
            let _ = db.execute_batch("ROLLBACK");
            return Err(sql(MIGRATE)(error));
        }
    }
    Ok(())
}

/// The tables and views that may be asked, by name, as this program makes them.
///
/// # Errors
/// SQLite has no memory.
pub fn schema() -> Result<Vec<Table>> {
    let db = Connection::open_in_memory().map_err(sql("open"))?;
    migrate(&db)?;
    tables(&db)
}

/// The tables and views of a database.
pub(crate) fn tables(db: &Connection) -> Result<Vec<Table>> {
    let asked = "SELECT name, type, sql, (SELECT group_concat(c.name, ',') FROM pragma_table_xinfo(m.name) c)
        FROM sqlite_schema m WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let row = |row: &rusqlite::Row<'_>| {
        let columns: String = row.get(3)?;
        let columns = columns.split(',').map(str::to_owned).collect();
        Ok(Table { name: row.get(0)?, kind: row.get(1)?, sql: row.get(2)?, columns })
    };
    let mut statement = db.prepare(asked).map_err(sql(READ))?;
    statement.query_map([], row).and_then(Iterator::collect).map_err(sql(READ))
}
