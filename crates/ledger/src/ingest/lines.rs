//! Lines of telemetry on their way in, each by the file it is in and the byte it begins at.
//!
//! A line about an envelope is a row of its own, and tells when the envelope came where; its state only as long as no
//! file of it is seen. A file that retention removed takes its rows along.
//!
//! How far a file was read is noted only once that much of it is durable: lines are written unsynced, and a file that a
//! power cut made shorter would grow past the place with lines that nobody reads.

use std::collections::BTreeSet;

use netsky_disk::fs::{Dir, is_plain_or_free};
use netsky_disk::lines::Reader;
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
    drop_removed(batch, &files)?;
    if files.is_empty() {
        return Ok(());
    }
    let logs = Dir::open(batch.layout.logs())?;
    let mut tables = Tables::prepare(batch)?;
    for file in &files {
        let (source, size) = (source(&file.name), logs.size(&file.name)?.unwrap_or(0));
        let mut from = batch.position(&source)?;
        if size < from {
            // Cut by somebody: what was in it is told by what is left of it.
            drop_rows(batch, file)?;
            from = 0;
        }
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

/// Something else has the name of a file of lines: that is listed, and what was in the file is told no more.
fn closed(batch: &mut Batch<'_>, file: &LogFile, error: &netsky_disk::Error) -> Result<()> {
    let source = source(&file.name);
    if batch.position(&source)? > 0 {
        drop_rows(batch, file)?;
    }
    batch.list(&source, 0, &format!("cannot be read: {}", error.source))
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

/// Drops the rows of files that are gone.
fn drop_removed(batch: &mut Batch<'_>, files: &[LogFile]) -> Result<()> {
    let there: BTreeSet<String> = files.iter().map(|file| source(&file.name)).collect();
    let mut asked = batch.prepare("SELECT name FROM sources WHERE name GLOB 'logs/telemetry-*'")?;
    let names = asked.query_map([], |row| row.get(0)).and_then(Iterator::collect);
    let names: Vec<String> = names.map_err(sql("read"))?;
    for gone in names.iter().filter(|name| !there.contains(*name)) {
        let name = gone.trim_start_matches("logs/");
        if let Some(file) = LogFile::parse(logs::TELEMETRY, name) {
            drop_rows(batch, &file)?;
        }
    }
    Ok(())
}

/// Drops what came from one file, and the envelopes of which nothing else is left; what is left of the others says how
/// they ended.
fn drop_rows(batch: &mut Batch<'_>, file: &LogFile) -> Result<()> {
    let (src, source) = (file.number(), source(&file.name));
    for table in TABLES {
        batch.run(&format!("DELETE FROM {table} WHERE src = ?1"), [src])?;
    }
    batch.run(
        "UPDATE envelopes SET (told_src, told_pos, told_state, told_attempt, told_reason) =
           (SELECT e.src, e.pos, e.state, e.attempt, e.reason FROM envelope_events e
            WHERE e.id = envelopes.id AND e.to_agent = envelopes.to_agent AND e.hlc = envelopes.hlc
              AND e.event = 'transition' ORDER BY e.src DESC, e.pos DESC LIMIT 1)
         WHERE told_src = ?1",
        [src],
    )?;
    let lost = "FROM envelopes WHERE told_src IS NULL AND file IS NULL";
    batch.run(&format!("DELETE FROM bodies WHERE envelope IN (SELECT n {lost})"), [])?;
    batch.run(&format!("DELETE {lost}"), [])?;
    batch.run(
        "UPDATE envelopes SET state = told_state, attempt = told_attempt, reason = told_reason
         WHERE file IS NULL AND (state, attempt, reason) IS NOT (told_state, told_attempt, told_reason)",
        [],
    )?;
    batch.run("DELETE FROM source_errors WHERE file = ?1", [&source])?;
    batch.run("DELETE FROM sources WHERE name = ?1", [&source])
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
