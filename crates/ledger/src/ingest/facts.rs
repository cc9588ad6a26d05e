//! Facts on their way in, by their numbers.
//!
//! A file that is as it was is not read again. The chain says whether those that are in are still those in the files: of
//! a record that was damaged, rewritten, cut or restored everything is read anew.

use std::collections::HashSet;

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
    let mut same = 0;
    while let Some(number) = numbers.get(same) {
        let name = file_name(*number);
        let known = batch.version(&source(&name))?;
        if known.is_none() || known != version(&record, &name) {
            break;
        }
        same += 1;
    }
    let there = !any_gone(batch, &numbers)?;
    if same == numbers.len() && there {
        return Ok(());
    }
    // The one before says where the first that changed begins.
    if !there || !take(batch, &record, &numbers, same.saturating_sub(1), false)? {
        batch.run("DELETE FROM facts", [])?;
        // Put off or killed on the way, the next ingest must not take for read what is not read again yet.
        batch.run("DELETE FROM sources WHERE name GLOB 'record/facts-*'", [])?;
        batch.run("DELETE FROM source_errors WHERE file GLOB 'record/facts-*'", [])?;
        take(batch, &record, &numbers, 0, true)?;
    }
    Ok(())
}

/// What a file is like; none where that cannot be told, and it is read again.
fn version(record: &Dir, name: &str) -> Option<String> {
    record.file_version(name).ok().flatten()
}

/// Whether a file that was read is there no more: of a record that was moved away nothing else shows.
fn any_gone(batch: &Batch<'_>, numbers: &[u64]) -> Result<bool> {
    let there: HashSet<String> = numbers.iter().map(|number| source(&file_name(*number))).collect();
    let mut asked = batch.prepare("SELECT name FROM sources WHERE name GLOB 'record/facts-*'")?;
    let names = asked.query_map([], |row| row.get::<_, String>(0)).and_then(Iterator::collect);
    let names: Vec<String> = names.map_err(sql("read"))?;
    Ok(names.iter().any(|name| !there.contains(name)))
}

/// The name of a file among the sources.
fn source(name: &str) -> String {
    format!("record/{name}")
}

/// Takes the files from one on; false if what is in does not go together with them. Where `anew`, nothing is in but what came
/// from them: of two facts with one number the first stays, and the second does not follow and is listed.
fn take(batch: &mut Batch<'_>, record: &Dir, numbers: &[u64], from: usize, anew: bool) -> Result<bool> {
    let mut known = Known::prepare(batch)?;
    let mut insert = batch.prepare(INSERT)?;
    let mut before = (from == 0).then(End::genesis);
    // The number after the last fact that was met: what is in from there to the next one is in no file.
    let mut next = (from == 0).then_some(1);
    for (at, number) in numbers.iter().enumerate().skip(from) {
        let version = version(record, &file_name(*number));
        let read = file(record, *number, before.as_ref(), numbers.get(at + 1).copied())?;
        for fact in &read.facts {
            if !anew && known.any(next.unwrap_or(fact.seq), fact.seq)? {
                return Ok(false);
            }
            match known.hash(fact.seq)? {
                None => put(batch, &mut insert, fact)?,
                Some(there) if there != fact.hash && !anew => return Ok(false),
                Some(_) => {}
            }
            next = Some(fact.seq + 1);
        }
        finish(batch, &read, version)?;
        // Not after the last: with it goes what is said of all of them.
        if batch.is_full() && at + 1 < numbers.len() {
            batch.turn_over()?;
        }
        before = Some(read.end);
    }
    Ok(anew || !known.any(next.unwrap_or_default(), u64::MAX >> 1)?)
}

/// Lists what is broken in a file and nothing else of it, and says how far it was read.
fn finish(batch: &mut Batch<'_>, read: &FactFile, version: Option<String>) -> Result<()> {
    let source = source(&read.name());
    batch.list_all(&source, &read.broken)?;
    batch.reached_as(&source, read.size, version.as_deref())
}

/// What is in.
struct Known<'db> {
    hash: Statement<'db>,
    any: Statement<'db>,
}

impl<'db> Known<'db> {
    fn prepare(batch: &Batch<'db>) -> Result<Known<'db>> {
        let hash = batch.prepare("SELECT hash FROM facts WHERE seq = ?1")?;
        let any = batch.prepare("SELECT 1 FROM facts WHERE seq >= ?1 AND seq < ?2")?;
        Ok(Known { hash, any })
    }

    fn hash(&mut self, seq: u64) -> Result<Option<String>> {
        self.hash.query_row([seq], |row| row.get(0)).optional().map_err(sql("read"))
    }

    /// Whether there is any fact from one number to before another.
    fn any(&mut self, from: u64, to: u64) -> Result<bool> {
        if from >= to {
            return Ok(false);
        }
        self.any.exists([from, to]).map_err(sql("read"))
    }
}

fn put(batch: &mut Batch<'_>, insert: &mut Statement<'_>, fact: &Fact) -> Result<()> {
    let Fact { seq, ts, kind, key, data, hash } = fact;
    let taken = batch.row(
        || Row::Fact { seq: *seq },
        || {
            let row = (seq, ts.to_string(), kind, key, data.to_string(), hash);
            insert.execute(row).map(drop).map_err(sql("write to"))
        },
    )?;
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
