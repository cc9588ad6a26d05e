//! Facts on their way in, by their numbers.
//!
//! The chain says whether those that are in are still those in the files: of a record that was rewritten, cut or
//! restored everything is read anew.

use netsky_disk::fs::Dir;
use rusqlite::{OptionalExtension, Statement};

use super::batch::Batch;
use super::refused::Row;
use crate::error::{Result, sql};
use crate::facts::{End, Fact, FactFile, file, file_name, files, numbers};

const INSERT: &str = "INSERT INTO facts VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// Takes what is new.
pub(super) fn ingest(batch: &mut Batch<'_>) -> Result<()> {
    let record = Dir::open(batch.layout.record())?;
    let numbers = numbers(&record)?;
    let mut changed = 0;
    while let Some(number) = numbers.get(changed) {
        let name = file_name(*number);
        if record.size(&name)? != Some(batch.position(&source(&name))?) {
            break;
        }
        changed += 1;
    }
    if changed == numbers.len() && follows(batch, numbers.len())? {
        return Ok(());
    }
    if !take(batch, &record, &numbers, changed)? {
        batch.run("DELETE FROM facts", [])?;
        // Put off or killed on the way, the next ingest must not take for read what is not read again yet.
        batch.run("DELETE FROM sources WHERE name GLOB 'record/facts-*'", [])?;
        batch.run("DELETE FROM source_errors WHERE file GLOB 'record/facts-*'", [])?;
        take(batch, &record, &numbers, 0)?;
    }
    batch.about("fact_files", &numbers.len().to_string())
}

/// Whether there are still as many files as the last time: those of a record that was moved away do not show.
fn follows(batch: &Batch<'_>, files: usize) -> Result<bool> {
    Ok(batch.said("fact_files")?.unwrap_or_else(|| "0".to_owned()) == files.to_string())
}

/// The name of a file among the sources.
fn source(name: &str) -> String {
    format!("record/{name}")
}

/// Takes the files from one on; false if what is in does not go together with them.
fn take(batch: &mut Batch<'_>, record: &Dir, numbers: &[u64], from: usize) -> Result<bool> {
    let mut hash = batch.prepare("SELECT hash FROM facts WHERE seq = ?1")?;
    let mut insert = batch.prepare(INSERT)?;
    let mut before = (from == 0).then(End::genesis);
    let mut last = 0;
    for (at, number) in numbers.iter().enumerate().skip(from) {
        let read = file(record, *number, before.as_ref(), numbers.get(at + 1).copied())?;
        let first = read.facts.first().filter(|first| first.seq > 1);
        if let (Some(first), None) = (first, &before)
            && known(&mut hash, first.seq - 1)?.is_none()
        {
            return Ok(false);
        }
        for fact in &read.facts {
            match known(&mut hash, fact.seq)? {
                None => put(batch, &mut insert, fact)?,
                Some(there) if there == fact.hash => {}
                Some(_) => return Ok(false),
            }
            last = fact.seq;
        }
        finish(batch, &read)?;
        // Not after the last: with it goes what is said of all of them.
        if batch.is_full() && at + 1 < numbers.len() {
            batch.turn_over()?;
        }
        before = Some(read.end);
    }
    let newest: Option<u64> =
        batch.prepare("SELECT max(seq) FROM facts")?.query_row([], |row| row.get(0)).map_err(sql("read"))?;
    Ok(newest.is_none_or(|newest| newest <= last))
}

/// Lists what is broken in a file, and says how far it was read.
fn finish(batch: &mut Batch<'_>, read: &FactFile) -> Result<()> {
    let source = source(&read.name());
    for (line, why) in &read.broken {
        batch.list(&source, *line as u64, why)?;
    }
    batch.reached(&source, read.size)
}

fn known(hash: &mut Statement<'_>, seq: u64) -> Result<Option<String>> {
    hash.query_row([seq], |row| row.get(0)).optional().map_err(sql("read"))
}

fn put(batch: &mut Batch<'_>, insert: &mut Statement<'_>, fact: &Fact) -> Result<()> {
    let Fact { seq, ts, kind, key, data, hash } = fact;
    let taken = batch.row(Row::Fact { seq: *seq }, || {
        let row = (seq, ts.to_string(), kind, key, data.to_string(), hash);
        insert.execute(row).map(drop).map_err(sql("write to"))
    })?;
    batch.done.facts += u64::from(taken);
    Ok(())
}

/// Tries a fact once more that was refused; true if it is in now.
pub(super) fn again(batch: &mut Batch<'_>, seq: u64) -> Result<bool> {
    let before = batch.done.facts;
    let mut insert = batch.prepare(INSERT)?;
    for file in files(batch.layout)? {
        if let Some(fact) = file?.facts.iter().find(|fact| fact.seq == seq) {
            put(batch, &mut insert, fact)?;
            break;
        }
    }
    Ok(batch.done.facts > before)
}
