//! How the record stands, for people: what is in the database, and whether the facts hold. Changes nothing.

use netsky_disk::layout::Layout;
use netsky_disk::state;
use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;

use crate::error::{Result, WAY_OUT, sql};
use crate::{facts, meta};

/// How the record stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Files of facts.
    pub fact_files: usize,
    /// Facts in them.
    pub facts: usize,
    /// Lines of them that do not follow from the line before.
    pub broken: Vec<Broken>,
    /// The database; none if there is none, which the next ingest makes.
    pub database: Option<Database>,
}

/// A line of a file of facts that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// Which file.
    pub file: String,
    /// Which line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
    /// Facts are appended to that file, or would be.
    #[serde(skip)]
    last: bool,
}

impl Broken {
    fn of(file: &facts::FactFile) -> impl Iterator<Item = Broken> {
        let broken = |(line, why): &(usize, String)| Broken {
            file: file.name(),
            line: *line,
            why: why.clone(),
            last: false,
        };
        file.broken.iter().map(broken)
    }

    /// Marks what is in the last of the files.
    fn mark(mut broken: Vec<Broken>, last: &str) -> Vec<Broken> {
        broken.iter_mut().for_each(|one| one.last = one.file == last);
        broken
    }

    /// What to do about it.
    pub fn way_out(&self) -> &'static str {
        if self.last { WAY_OUT } else { "it is kept as it is; a backup may have it whole" }
    }
}

/// Lines of the facts that do not follow from the line before.
///
/// # Errors
/// A file that cannot be read.
pub fn broken_facts(layout: &Layout) -> Result<Vec<Broken>> {
    let (mut broken, mut last) = (Vec::new(), String::new());
    for file in facts::files(layout)? {
        let file = file?;
        broken.extend(Broken::of(&file));
        last = file.name();
    }
    Ok(Broken::mark(broken, &last))
}

/// What the database holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Database {
    /// Whether every page is where it should be; the rest is not read of one that is not.
    pub sound: bool,
    /// When the last ingest ended.
    pub ingested_at: Option<String>,
    /// Rows of each table; none where the first ingest was ended before it had made them.
    pub tables: Vec<(String, u64)>,
}

/// Looks at the record.
///
/// # Errors
/// A file cannot be read, or the database is held by somebody else or belongs to a later program.
pub fn status(layout: &Layout) -> Result<Status> {
    let mut status = Status { fact_files: 0, facts: 0, broken: Vec::new(), database: None };
    let mut last = String::new();
    for file in facts::files(layout)? {
        let file = file?;
        status.fact_files += 1;
        status.facts += file.facts.len();
        status.broken.extend(Broken::of(&file));
        last = file.name();
    }
    status.broken = Broken::mark(status.broken, &last);
    if state::exists(layout.meta_db())? {
        status.database = match meta::readable(layout).and_then(|db| db.map(look).transpose()) {
            Err(error) if error.is_damage() => Some(Database::damaged()),
            looked => looked?,
        };
    }
    Ok(status)
}

impl Database {
    fn damaged() -> Database {
        Database { sound: false, ingested_at: None, tables: Vec::new() }
    }
}

fn look(db: Connection) -> Result<Database> {
    if !meta::sound(&db)? {
        return Ok(Database::damaged());
    }
    let mut tables = Vec::new();
    for table in meta::tables(&db)?.into_iter().filter(|table| table.kind == "table") {
        let count = format!("SELECT count(*) FROM {}", table.name);
        let rows = db.query_row(&count, [], |row| row.get(0)).map_err(sql("count the rows of"))?;
        tables.push((table.name, rows));
    }
    let ingested = "SELECT value FROM about WHERE key = 'ingested_at'";
    let ingested_at = db.query_row(ingested, [], |row| row.get(0)).optional().map_err(sql("read"))?;
    Ok(Database { sound: true, ingested_at, tables })
}
