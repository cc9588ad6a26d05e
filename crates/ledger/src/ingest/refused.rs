//! Rows that the database refused: kept in `logs/meta-db-errors-<date>.jsonl` by where they come from, with the error,
//! and tried once more by the next ingest. What is refused twice is listed as an error of its source.

use jiff::Timestamp;
use netsky_disk::clock;
use netsky_disk::fs::Dir;
use netsky_disk::lines::Reader;
use serde::{Deserialize, Serialize};

use super::batch::Batch;
use super::{facts, lines, mail};
use crate::error::{Error, Result};
use crate::logs;

/// Version of a line.
const VERSION: u64 = 1;

/// Where a row comes from.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Row {
    /// A line of telemetry.
    Line { file: String, pos: u64 },
    /// A fact.
    Fact { seq: u64 },
    /// A file of an envelope, by its path in the home.
    Envelope { path: String },
}

impl Row {
    /// The source that is to blame if it is refused again.
    fn source(&self) -> (String, u64) {
        match self {
            Row::Line { file, pos } => (format!("logs/{file}"), *pos),
            Row::Fact { seq } => ("record".to_owned(), *seq),
            Row::Envelope { path } => (path.clone(), 0),
        }
    }
}

/// One line.
#[derive(Debug, Serialize, Deserialize)]
struct Refusal {
    v: u64,
    ts: Timestamp,
    error: String,
    row: Row,
}

/// Keeps a row for one more try; one that was refused twice before is kept no more.
pub(super) fn keep(batch: &mut Batch<'_>, row: Row, error: &Error) -> Result<()> {
    let (file, position) = row.source();
    if batch.is_listed(&file, position)? {
        return Ok(());
    }
    let refusal = Refusal { v: VERSION, ts: clock::wall(), error: error.to_string(), row };
    let line = serde_json::to_vec(&refusal).expect("a refusal holds only plain data");
    match logs::append(batch.layout, logs::REFUSED, refusal.ts, &line) {
        Err(error) if error.is_out_of_descriptors() => Err(error.into()),
        // Nowhere to keep it: it is listed at once, and tried by the next rebuild.
        Err(_) => batch.list(&file, position, &why(&refusal)),
        Ok(()) => Ok(()),
    }
}

/// Tries once more what the ingest before was refused.
pub(super) fn retry(batch: &mut Batch<'_>) -> Result<()> {
    let files = logs::files(batch.layout, logs::REFUSED)?;
    if let Ok(logs) = Dir::open(batch.layout.logs()) {
        batch.unlist_gone("logs", &logs.names()?)?;
    }
    for file in files {
        let from = batch.position(&source(&file.name))?;
        each_line(batch, &file.name, from, |batch, line| {
            // A line that does not read is no loss: what it was about is still where it was.
            serde_json::from_slice::<Refusal>(line).map_or(Ok(()), |refusal| again(batch, &refusal))
        })?;
    }
    Ok(())
}

/// Leaves what was refused before to an ingest that reads everything anyway.
pub(super) fn forget(batch: &mut Batch<'_>) -> Result<()> {
    for file in logs::files(batch.layout, logs::REFUSED)? {
        each_line(batch, &file.name, 0, |_, _| Ok(()))?;
    }
    Ok(())
}

fn source(name: &str) -> String {
    format!("logs/{name}")
}

/// Hands over each line from a place on, and notes how far that came. What does not read is listed and stops nothing:
/// what was refused is lost to no rebuild.
fn each_line(
    batch: &mut Batch<'_>,
    name: &str,
    from: u64,
    mut take: impl FnMut(&mut Batch<'_>, &[u8]) -> Result<()>,
) -> Result<()> {
    let source = source(name);
    let logs = match Dir::open(batch.layout.logs()) {
        Err(e) if e.is_not_found() => return Ok(()),
        opened => opened?,
    };
    let mut reader = match Reader::open(&logs, name, from) {
        Ok(reader) => reader,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return closed(batch, &source, error),
    };
    let read = loop {
        match reader.next_line() {
            Ok(Some((_, line))) => take(batch, line)?,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let mut settled = Ok(());
    if reader.at() > from {
        settled = reader.settle(&logs, from);
        // What is not on disk for certain is read again by the next ingest.
        if settled.is_ok() {
            batch.reached(&source, reader.at())?;
        }
    }
    match read.and(settled) {
        Err(error) => closed(batch, &source, error),
        Ok(()) => batch.unlist(&source, 0),
    }
}

/// Something else has the name of such a file, or it does not read.
fn closed(batch: &mut Batch<'_>, source: &str, error: netsky_disk::Error) -> Result<()> {
    match error.is_out_of_descriptors() {
        true => Err(error.into()),
        false => batch.list(source, 0, &format!("failed to {}: {}", error.op, error.source)),
    }
}

fn why(refusal: &Refusal) -> String {
    format!("refused by the database: {}", refusal.error)
}

fn again(batch: &mut Batch<'_>, refusal: &Refusal) -> Result<()> {
    let (file, position) = refusal.row.source();
    let errors = batch.done.errors;
    // Before the try: refused again, it is kept no more.
    batch.list(&file, position, &why(refusal))?;
    let taken = match &refusal.row {
        Row::Line { file, pos } => lines::again(batch, file, *pos)?,
        Row::Fact { seq } => facts::again(batch, *seq)?,
        Row::Envelope { path } => mail::again(batch, path)?,
    };
    if taken {
        batch.unlist(&file, position)?;
        batch.done.errors = errors;
    }
    Ok(())
}
