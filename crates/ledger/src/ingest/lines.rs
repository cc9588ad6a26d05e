//! Lines of telemetry on their way in, each by the file it is in and the byte it begins at.
//!
//! A line about an envelope is a row of its own, and tells when the envelope came where; its state only as long as no
//! file of it is seen. A file that retention removed takes its rows along: it was the oldest, and what the newer ones tell
//! stays. Where any other is gone, was cut or is no file any more, the rest is read anew: which line about an envelope is
//! the last one now is in no table, for a removal is no move.
//!
//! How far a file was read is noted only once that much of it is durable: lines are written unsynced, and a file that a
//! power cut made shorter would grow past the place with lines that nobody reads.

use std::collections::BTreeSet;

use netsky_disk::fs::{Dir, is_plain_or_free};
use netsky_disk::lines::Reader;
use netsky_model::life::STATES;
use rusqlite::Statement;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::batch::Batch;
use super::refused::Row;
use super::told::Told;
use crate::error::{Result, sql};
use crate::logs::{self, LogFile};

/// Newest version of a line that this program understands.
const VERSION: u64 = 1;

/// The tables whose rows are lines.
const TABLES: [&str; 4] = ["envelope_events", "cli_invocations", "ticks", "watchdog_events"];

/// A line, whatever it tells of: each event has some of these.
#[derive(Deserialize)]
pub(super) struct Line<'a> {
    v: u64,
    pub(super) ts: &'a str,
    pub(super) event: &'a str,
    pub(super) boot_ms: Option<u64>,
    process: Option<Process>,
    pub(super) agent: Option<&'a str>,
    pub(super) id: Option<&'a str>,
    pub(super) hlc: Option<&'a str>,
    pub(super) to: Option<&'a str>,
    pub(super) attempt: Option<u32>,
    pub(super) from: Option<&'a str>,
    pub(super) generation: Option<u64>,
    pub(super) reason: Option<String>,
    pub(super) cause: Option<String>,
    program: Option<&'a str>,
    verb: Option<&'a str>,
    args: Option<Map<String, Value>>,
    exit: Option<u8>,
    millis: Option<u64>,
    name: Option<&'a str>,
    outcome: Option<String>,
    what: Option<&'a str>,
    why: Option<String>,
}

/// What is kept of the process that wrote a line.
#[derive(Deserialize)]
struct Process {
    pid: u32,
}

impl Line<'_> {
    /// Which process wrote it.
    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.pid)
    }
}

/// Where a line is.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) src: i64,
    pub(super) pos: u64,
}

/// Takes what is new.
pub(super) fn ingest(batch: &mut Batch<'_>) -> Result<()> {
    let files = logs::files(batch.layout, logs::TELEMETRY)?;
    if drop_removed(batch, &files)? || is_any_cut(batch, &files)? {
        forget(batch)?;
    }
    if files.is_empty() {
        return Ok(());
    }
    let logs = Dir::open(batch.layout.logs())?;
    let mut tables = Tables::prepare(batch)?;
    for file in &files {
        let (source, size) = (source(&file.name), logs.size(&file.name)?.unwrap_or(0));
        let from = batch.position(&source)?;
        // A pipe has no size, and is listed as what it is.
        if size > from || !is_plain_or_free(logs.path().join(&file.name))? {
            take(batch, &mut tables, &logs, file, from)?;
        }
    }
    Ok(())
}

/// Tries a line once more that was refused; true if it is in now.
pub(super) fn again(batch: &mut Batch<'_>, name: &str, pos: u64) -> Result<bool> {
    let files = logs::files(batch.layout, logs::TELEMETRY)?;
    let Some(file) = files.iter().find(|file| file.name == name) else { return Ok(false) };
    let mut reader = Reader::open(&Dir::open(batch.layout.logs())?, name, pos)?;
    let Some((_, line)) = reader.next_line()? else { return Ok(false) };
    let before = batch.done.lines;
    let mut tables = Tables::prepare(batch)?;
    one(batch, &mut tables, file, pos, line)?;
    Ok(batch.done.lines > before)
}

/// The name of a file among the sources.
fn source(name: &str) -> String {
    format!("logs/{name}")
}

fn take(batch: &mut Batch<'_>, tables: &mut Tables<'_>, logs: &Dir, file: &LogFile, from: u64) -> Result<()> {
    let source = source(&file.name);
    let mut reader = match Reader::open(logs, &file.name, from) {
        Ok(reader) => reader,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) if error.is_out_of_descriptors() => return Err(error.into()),
        Err(error) => return closed(batch, file, &error),
    };
    if from == 0 {
        // As long as it could not be opened it was listed so.
        batch.unlist(&source, 0)?;
    }
    while let Some((pos, line)) = reader.next_line()? {
        one(batch, tables, file, pos, line)?;
        if batch.is_full() {
            reader.settle(logs, from)?;
            batch.reached(&source, reader.at())?;
            batch.turn_over()?;
        }
    }
    if reader.at() == from {
        return Ok(());
    }
    reader.settle(logs, from)?;
    batch.reached(&source, reader.at())
}

/// Something else has the name of a file of lines, or it does not open: that is listed.
fn closed(batch: &mut Batch<'_>, file: &LogFile, error: &netsky_disk::Error) -> Result<()> {
    batch.done.unread.get_or_insert_with(|| error.to_string());
    batch.list(&source(&file.name), 0, &format!("cannot be read: {}", error.source))
}

fn one(batch: &mut Batch<'_>, tables: &mut Tables<'_>, file: &LogFile, pos: u64, line: &[u8]) -> Result<()> {
    let why = match serde_json::from_slice::<Line<'_>>(line) {
        // A writer that found a torn end made a line of it, and another may have done so too.
        _ if line.is_empty() => return Ok(()),
        Ok(read) if read.v > VERSION => format!("is in format {}", read.v),
        Ok(read) => {
            let at = At { src: file.number(), pos };
            let row = || Row::Line { file: file.name.clone(), pos };
            let mut known = true;
            let taken = batch.row(row, || tables.put(&read, at).map(|understood| known = understood))?;
            batch.done.lines += u64::from(taken && known);
            if known {
                return Ok(());
            }
            format!("does not say what a line about {:?} says", read.event)
        }
        Err(error) => format!("is no line of telemetry: {error}"),
    };
    batch.list(&source(&file.name), pos, &why)
}

/// Whether a file is shorter than it was, or none any more: somebody did that.
fn is_any_cut(batch: &Batch<'_>, files: &[LogFile]) -> Result<bool> {
    if files.is_empty() {
        return Ok(false);
    }
    let logs = Dir::open(batch.layout.logs())?;
    for file in files {
        let read = batch.position(&source(&file.name))?;
        let is_cut = || -> Result<bool> {
            let (size, place) = (logs.size(&file.name)?.unwrap_or(0), logs.path().join(&file.name));
            Ok(size < read || !is_plain_or_free(place)?)
        };
        if read > 0 && is_cut()? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Drops the rows of files that are gone; true where one of them was not older than all that are there.
fn drop_removed(batch: &mut Batch<'_>, files: &[LogFile]) -> Result<bool> {
    let there: BTreeSet<String> = files.iter().map(|file| source(&file.name)).collect();
    let mut asked = batch.prepare("SELECT name FROM sources WHERE name GLOB 'logs/telemetry-*'")?;
    let names = asked.query_map([], |row| row.get(0)).and_then(Iterator::collect);
    let names: Vec<String> = names.map_err(sql("read"))?;
    let mut not_oldest = false;
    for gone in names.iter().filter(|name| !there.contains(*name)) {
        let name = gone.trim_start_matches("logs/");
        if let Some(file) = LogFile::parse(logs::TELEMETRY, name) {
            drop_rows(batch, &file)?;
            not_oldest |= files.first().is_some_and(|oldest| *oldest < file);
        }
    }
    Ok(not_oldest)
}

/// Drops what came from one file, and the envelopes of which nothing else is left.
fn drop_rows(batch: &mut Batch<'_>, file: &LogFile) -> Result<()> {
    let (src, source) = (file.number(), source(&file.name));
    for table in TABLES {
        batch.run(&format!("DELETE FROM {table} WHERE src = ?1"), [src])?;
    }
    batch.run(
        "UPDATE envelopes SET told_src = NULL, told_pos = NULL, told_state = NULL, told_attempt = NULL,
           told_reason = NULL WHERE told_src = ?1",
        [src],
    )?;
    let lost = "FROM envelopes WHERE told_src IS NULL AND file IS NULL";
    batch.run(&format!("DELETE FROM bodies WHERE envelope IN (SELECT n {lost})"), [])?;
    batch.run(&format!("DELETE {lost}"), [])?;
    batch.run("DELETE FROM source_errors WHERE file = ?1", [&source])?;
    batch.run("DELETE FROM sources WHERE name = ?1", [&source])
}

/// Forgets all that lines have told, and has them and what hangs on them looked at anew: also what an envelope that does not
/// read has of them.
fn forget(batch: &mut Batch<'_>) -> Result<()> {
    for table in TABLES {
        batch.run(&format!("DELETE FROM {table}"), [])?;
    }
    let lost = "FROM envelopes WHERE file IS NULL OR ts_utc IS NULL";
    batch.run(&format!("DELETE FROM bodies WHERE envelope IN (SELECT n {lost})"), [])?;
    batch.run(&format!("DELETE {lost}"), [])?;
    let told = ["src", "pos", "state", "attempt", "reason"].map(|column| format!("told_{column} = NULL"));
    let times = STATES.map(|state| format!("{state}_at = NULL"));
    batch.run(&format!("UPDATE envelopes SET {}, {}", told.join(", "), times.join(", ")), [])?;
    batch.run("UPDATE sources SET version = '' WHERE name GLOB 'channels/agent/*'", [])?;
    batch.run("DELETE FROM source_errors WHERE file GLOB 'logs/telemetry-*'", [])?;
    batch.run("DELETE FROM sources WHERE name GLOB 'logs/telemetry-*'", [])
}

/// Where each sort of line goes.
struct Tables<'db> {
    told: Told<'db>,
    invocations: Statement<'db>,
    ticks: Statement<'db>,
    watchdog: Statement<'db>,
}

impl<'db> Tables<'db> {
    fn prepare(batch: &Batch<'db>) -> Result<Tables<'db>> {
        Ok(Tables {
            told: Told::prepare(batch)?,
            invocations: batch
                .prepare("INSERT INTO cli_invocations VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?,
            ticks: batch.prepare("INSERT INTO ticks VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?,
            watchdog: batch.prepare("INSERT INTO watchdog_events VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?,
        })
    }

    /// False for a line that lacks what its event says. Events that have no table are let pass.
    fn put(&mut self, line: &Line<'_>, at: At) -> Result<bool> {
        let At { src, pos } = at;
        let ts = line.ts;
        let put = match line.event {
            "transition" | "surfaced" | "removed" => return self.told.put(line, at),
            "invocation" => {
                let (Some(program), Some(verb)) = (line.program, line.verb) else { return Ok(false) };
                let args = line.args.as_ref().map(|args| Value::Object(args.clone()).to_string());
                self.invocations.execute((
                    ts,
                    program,
                    verb,
                    args,
                    line.agent,
                    line.exit,
                    line.millis,
                    line.pid(),
                    src,
                    pos,
                ))
            }
            "tick" => {
                let (Some(name), Some(outcome)) = (line.name, &line.outcome) else { return Ok(false) };
                self.ticks.execute((ts, name, outcome, line.millis, src, pos))
            }
            "watchdog" => {
                let Some(what) = line.what else { return Ok(false) };
                self.watchdog.execute((ts, what, line.agent, &line.why, src, pos))
            }
            _ => Ok(0),
        };
        put.map(|_| true).map_err(sql("write to"))
    }
}
