//! A question in SQL, from anybody (faults A15): it may read the record and nothing else, not for long, not without end.
//!
//! Promise: a connection of its own, opened for reading, that refuses what is no question before it runs: an authorizer
//! lets pass reads, a list of functions that only compute, and the pragmas that describe tables. One statement, in
//! bounded time, memory and rows; what was left out is said.
//! Leaves to others: bringing the record up to date first (`ingest`), and printing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::layout::Layout;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode};

use crate::error::{ASK, Error, Result, sql};
use crate::meta;

/// Most rows of an answer.
pub const MAX_ROWS: usize = 100_000;

/// How long a question may take unless its asker says otherwise.
pub const TIME: Duration = Duration::from_secs(5);

/// Most bytes of all cells of an answer, each with what of its column's name is long: it is held in memory until it is
/// printed, and printed with its names.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of a column's name that are not counted with each cell. The name of one that has none is its whole expression.
const NAME: usize = 64;

/// Most bytes that SQLite may use for a question: sorting is done in memory, nothing is written.
const MAX_HEAP: i64 = 256 * 1024 * 1024;

/// Steps of SQLite's machine between two looks at the clock: well under a millisecond.
const STEPS: i32 = 1_000;

/// Sizes and depths that no honest question comes near.
const LIMITS: [(Limit, i32); 9] = [
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    (Limit::SQLITE_LIMIT_LENGTH, 16 * 1024 * 1024),
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 100_000),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 100),
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
    (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 0),
    (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
    (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
];

/// Pragmas that only describe.
const PRAGMAS: [&str; 6] =
    ["table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"];

/// Functions that only compute from what they are given, or from the clock.
const FUNCTIONS: &str = " -> ->> abs avg char coalesce concat concat_ws count cume_dist current_date current_time \
    current_timestamp date datetime dense_rank first_value format glob group_concat hex if ifnull iif instr json \
    json_array json_array_length json_each json_error_position json_extract json_group_array json_group_object \
    json_insert json_object json_patch json_pretty json_quote json_remove json_replace json_set json_tree json_type \
    json_valid julianday lag last_value lead length like likelihood likely lower ltrim max min nth_value ntile nullif \
    octet_length percent_rank printf quote random rank replace round row_number rtrim sign soundex sqlite_version \
    strftime string_agg substr substring subtype sum time timediff total trim typeof unhex unicode unistr unixepoch \
    unlikely upper ";

/// How far an answer may go.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most rows, at most [`MAX_ROWS`].
    pub rows: usize,
    /// Most time.
    pub time: Duration,
}

/// One value of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing.
    Null,
    /// A whole number.
    Int(i64),
    /// A number.
    Real(f64),
    /// A text; bytes that are no text have U+FFFD in their place.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// What a question was answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Names of the columns, as the question has them.
    pub columns: Vec<String>,
    /// Rows, in the order of the question.
    pub rows: Vec<Vec<Cell>>,
    /// There was more than the limits let through.
    pub more: bool,
}

/// Asks the record. None where there is no database yet.
///
/// # Errors
/// It is no question, or not one that may be asked; it took too long; somebody else holds the database.
pub fn query(layout: &Layout, question: &str, limits: Limits) -> Result<Option<Answer>> {
    let Some(mut db) = meta::readable(layout)? else { return Ok(None) };
    let denied = guard(&mut db, limits.time)?;
    match ask(&db, question, limits) {
        Err(Error::Sql { source, .. })
            if source.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) =>
        {
            Err(Error::TooSlow(limits.time))
        }
        Err(error) => {
            let what = denied.lock().unwrap_or_else(PoisonError::into_inner).take();
            Err(what.map_or(error, Error::Denied))
        }
        Ok(answer) => Ok(Some(answer)),
    }
}

fn ask(db: &Connection, question: &str, limits: Limits) -> Result<Answer> {
    let failed = sql(ASK);
    let mut statement = db.prepare(question).map_err(failed)?;
    if statement.column_count() == 0 || !statement.readonly() {
        return Err(Error::Denied("this".to_owned()));
    }
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut answer = Answer { columns, rows: Vec::new(), more: false };
    let (mut bytes, most) = (0, limits.rows.min(MAX_ROWS));
    let mut rows = statement.query([]).map_err(failed)?;
    'rows: while let Some(row) = rows.next().map_err(failed)? {
        if answer.rows.len() == most {
            answer.more = true;
            break;
        }
        let mut cells = Vec::with_capacity(answer.columns.len());
        for column in 0..answer.columns.len() {
            let cell = Cell::from(row.get_ref(column).map_err(failed)?);
            bytes += cell.bytes() + answer.columns[column].len().saturating_sub(NAME);
            // By the cell and not by the row, which may have thousands of them, each as large as SQLite lets it be.
            if bytes > MAX_BYTES {
                answer.more = true;
                break 'rows;
            }
            cells.push(cell);
        }
        answer.rows.push(cells);
    }
    Ok(answer)
}

/// What was refused, in words; filled while a statement is prepared.
type Denied = Arc<Mutex<Option<String>>>;

/// Takes from a connection everything but answering.
fn guard(db: &mut Connection, time: Duration) -> Result<Denied> {
    let failed = sql("guard");
    for (name, value) in [("query_only", 1), ("temp_store", 2), ("hard_heap_limit", MAX_HEAP)] {
        db.pragma_update(None, name, value).or_else(has_answered).map_err(failed)?;
    }
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true).map_err(failed)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false).map_err(failed)?;
    for (limit, most) in LIMITS {
        db.set_limit(limit, most).map_err(failed)?;
    }
    let until = clock::boot() + time;
    db.progress_handler(STEPS, Some(move || clock::boot() > until)).map_err(failed)?;
    let denied = Denied::default();
    let told = Arc::clone(&denied);
    db.authorizer(Some(move |asked: AuthContext<'_>| match refusal(&asked.action) {
        None => Authorization::Allow,
        Some(what) => {
            told.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
            Authorization::Deny
        }
    }))
    .map_err(failed)?;
    Ok(denied)
}

/// A pragma that says its new value has set it.
fn has_answered(error: rusqlite::Error) -> rusqlite::Result<()> {
    match error {
        rusqlite::Error::ExecuteReturnedResults => Ok(()),
        other => Err(other),
    }
}

/// What of a statement may not be; none if it may.
fn refusal(action: &AuthAction<'_>) -> Option<String> {
    match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => None,
        AuthAction::Function { function_name } => {
            let known = FUNCTIONS.contains(&format!(" {} ", function_name.to_lowercase()));
            (!known).then(|| format!("the function {function_name}"))
        }
        AuthAction::Pragma { pragma_name, .. } => {
            let known = PRAGMAS.contains(&pragma_name.to_lowercase().as_str());
            (!known).then(|| format!("the pragma {pragma_name}"))
        }
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => Some("another database".to_owned()),
        _ => Some("this".to_owned()),
    }
}

impl From<ValueRef<'_>> for Cell {
    fn from(value: ValueRef<'_>) -> Cell {
        match value {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(number) => Cell::Int(number),
            ValueRef::Real(number) => Cell::Real(number),
            ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(bytes) => Cell::Blob(bytes.to_vec()),
        }
    }
}

impl Cell {
    fn bytes(&self) -> usize {
        match self {
            Cell::Null | Cell::Int(_) | Cell::Real(_) => size_of::<Cell>(),
            Cell::Text(text) => size_of::<Cell>() + text.len(),
            Cell::Blob(bytes) => size_of::<Cell>() + bytes.len(),
        }
    }
}
