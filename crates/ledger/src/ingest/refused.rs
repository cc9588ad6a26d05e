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
pub(super) fn keep(batch: &Batch<'_>, row: Row, error: &Error) -> Result<()> {
    let (file, position) = row.source();
    if batch.is_listed(&file, position)? {
        return Ok(());
    }
    let refusal = Refusal { v: VERSION, ts: clock::wall(), error: error.to_string(), row };
    let line = serde_json::to_vec(&refusal).expect("a refusal holds only plain data");
    Ok(logs::append(batch.layout, logs::REFUSED, refusal.ts, &line)?)
}

/// Tries once more what the ingest before was refused.
pub(super) fn retry(batch: &mut Batch<'_>) -> Result<()> {
    for file in logs::files(batch.layout, logs::REFUSED)? {
        let source = format!("logs/{}", file.name);
        let logs = match Dir::open(batch.layout.logs()) {
            Err(e) if e.is_not_found() => return Ok(()),
            opened => opened?,
        };
        let mut reader = Reader::open(&logs, &file.name, batch.position(&source)?)?;
        let from = reader.at();
        while let Some((_, line)) = reader.next_line()? {
            // A line that does not read is no loss: what it was about is still where it was.
            let Ok(refusal) = serde_json::from_slice::<Refusal>(line) else { continue };
            again(batch, &refusal)?;
        }
        if reader.at() > from {
            reader.settle(&logs, from)?;
            batch.reached(&source, reader.at())?;
        }
    }
    Ok(())
}

/// Leaves what was refused before to an ingest that reads everything anyway.
pub(super) fn forget(batch: &mut Batch<'_>) -> Result<()> {
    for file in logs::files(batch.layout, logs::REFUSED)? {
        let logs = Dir::open(batch.layout.logs())?;
        let mut reader = Reader::open(&logs, &file.name, 0)?;
        while reader.next_line()?.is_some() {}
        reader.settle(&logs, 0)?;
        batch.reached(&format!("logs/{}", file.name), reader.at())?;
    }
    Ok(())
}

fn again(batch: &mut Batch<'_>, refusal: &Refusal) -> Result<()> {
    let (file, position) = refusal.row.source();
    let errors = batch.done.errors;
    // Before the try: refused again, it is kept no more.
    batch.list(&file, position, &format!("refused by the database: {}", refusal.error))?;
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
