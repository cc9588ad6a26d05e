//! The facts read back, by whoever only looks: nothing is repaired, and somebody may be appending meanwhile.
//!
//! A file ends where the next one says: its first row names, by `prev`, the last row that counts. What stands beyond it
//! was never synced (the disk refused), and its writer went on in the next file.
//! Promise: what does not read, does not have its own hash, or does not follow from the row before, is named by its line
//! and spoils no other. What does not have its own hash is not what was recorded, and no fact.

use netsky_disk::ReadError;
use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use serde::{Deserialize, Serialize};

use super::row::{BadRow, End, Fact, Row, parse};
use crate::error::{Error, Result};

/// Most bytes of a file that are read: rotation keeps it far below.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// What stands in the name of a file that holds a torn end, between whose end it is and where it was.
pub(super) const TORN: &str = ".torn-";

/// What one file of facts holds.
#[derive(Debug)]
pub struct FactFile {
    /// Its number.
    pub number: u64,
    /// The facts that count, in order.
    pub facts: Vec<Fact>,
    /// Lines, from 1, that are no row or do not follow from the one before, and why.
    pub broken: Vec<(usize, String)>,
    /// Rows beyond the end that the next file names.
    pub void: usize,
    /// Bytes in it.
    pub(crate) size: u64,
    /// Bytes of the whole lines that count.
    pub(super) bytes: u64,
    pub(crate) end: End,
}

impl FactFile {
    /// Its name in `record/`.
    pub fn name(&self) -> String {
        file_name(self.number)
    }
}

/// The numbers of the files there are, rising.
pub(crate) fn numbers(record: &Dir) -> Result<Vec<u64>> {
    let number = |name: &String| {
        let number: u64 = name.strip_prefix("facts-")?.strip_suffix(".jsonl")?.parse().ok()?;
        (file_name(number) == *name).then_some(number)
    };
    let mut numbers: Vec<u64> = record.names()?.iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The files that hold torn ends, which were cut.
pub(crate) fn torn(record: &Dir) -> Result<Vec<String>> {
    let mut names = record.names()?;
    names.retain(|name| name.starts_with("facts-") && name.contains(TORN));
    Ok(names)
}

pub(crate) fn file_name(number: u64) -> String {
    format!("facts-{number}.jsonl")
}

/// All files of facts of a home, in order; none where nothing was ever recorded.
///
/// # Errors
/// A file cannot be read, or a later program wrote it.
pub fn files(layout: &Layout) -> Result<impl Iterator<Item = Result<FactFile>>> {
    let record = match Dir::open(layout.record()) {
        Err(e) if e.is_not_found() => None,
        opened => Some(opened?),
    };
    let numbers = record.as_ref().map(numbers).transpose()?.unwrap_or_default();
    let mut before = End::genesis();
    let mut at = 0;
    Ok(std::iter::from_fn(move || {
        let number = *numbers.get(at)?;
        at += 1;
        let record = record.as_ref().expect("its files were listed");
        let next = numbers.get(at).copied();
        let read = file(record, number, Some(&before), next);
        if let Ok(read) = &read {
            before = read.end.clone();
        }
        Some(read)
    }))
}

/// How far somebody has read the facts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The last file that was read, and its size then: one that has not grown is not read again.
    file: u64,
    bytes: u64,
    /// The last fact.
    seq: u64,
}

impl Mark {
    /// The mark of who took the facts up to one alone, and reads those behind it again.
    #[must_use]
    pub fn up_to(self, seq: u64) -> Mark {
        Mark { bytes: 0, seq, ..self }
    }

    /// Up to which fact somebody has read. A record that was begun anew has it again.
    pub fn seq(self) -> u64 {
        self.seq
    }

    /// Whether whole files lie between this and a later one: whoever never moves on reads them at each look.
    pub fn is_behind(self, now: Mark) -> bool {
        now.file > self.file.max(1)
    }
}

/// The mark of who needs nothing of what there is: the last file alone is read.
///
/// # Errors
/// It cannot be read, or a later program wrote it.
pub fn end_of_facts(layout: &Layout) -> Result<Mark> {
    let record = match Dir::open(layout.record()) {
        Err(e) if e.is_not_found() => return Ok(Mark::default()),
        opened => opened?,
    };
    let Some(last) = numbers(&record)?.last().copied() else { return Ok(Mark::default()) };
    let read = file(&record, last, None, None)?;
    Ok(Mark { file: last, bytes: read.size, seq: read.facts.last().map_or(0, |fact| fact.seq) })
}

/// The facts after a mark, where the reader stands then, and what it passed by. A record that was begun anew is read from its
/// beginning.
///
/// # Errors
/// The record cannot be listed, or a later program wrote it.
pub fn facts_after(layout: &Layout, mark: Mark) -> Result<(Vec<Fact>, Mark, Vec<String>)> {
    let record = match Dir::open(layout.record()) {
        Err(e) if e.is_not_found() => return Ok((Vec::new(), Mark::default(), Vec::new())),
        opened => opened?,
    };
    let numbers = numbers(&record)?;
    let Some(last) = numbers.last() else { return Ok((Vec::new(), Mark::default(), Vec::new())) };
    if *last == mark.file && record.size(file_name(mark.file))? == Some(mark.bytes) {
        return Ok((Vec::new(), mark, Vec::new()));
    }
    let (mut found, mut now, mut passed) = (Vec::new(), mark, Vec::new());
    let mut highest = 0;
    for (at, number) in numbers.iter().enumerate().filter(|(_, number)| **number >= mark.file) {
        match file(&record, *number, None, numbers.get(at + 1).copied()) {
            Ok(read) => {
                passed.extend(
                    read.broken.first().map(|(line, why)| format!("line {line} of {} {why}", read.name())),
                );
                now = Mark { file: *number, bytes: read.size, ..now };
                highest = read.facts.last().map_or(highest, |fact| fact.seq);
                found.extend(read.facts);
            }
            Err(error) if error.is_of_one_file() => passed.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    if highest < mark.seq && passed.is_empty() && mark != Mark::default() {
        return facts_after(layout, Mark::default());
    }
    found.retain(|fact| fact.seq > mark.seq);
    now.seq = highest.max(mark.seq);
    Ok((found, now, passed))
}

/// Every fact that counts, in order; what is broken is left out.
///
/// # Errors
/// A file cannot be read, or a later program wrote it.
pub fn facts(layout: &Layout) -> Result<Vec<Fact>> {
    let mut all = Vec::new();
    for file in files(layout)? {
        all.extend(file?.facts);
    }
    Ok(all)
}

/// One file after `before` (as it says itself, where that is none), as far as the file `next` says that it goes.
pub(crate) fn file(record: &Dir, number: u64, before: Option<&End>, next: Option<u64>) -> Result<FactFile> {
    let (bytes, unread) = match content(record, number) {
        Ok(bytes) => (bytes, None),
        // Somebody put another thing in its place: that is damage of this file, and no other's.
        Err(ReadError::Io(error)) if !error.is_denied() => return Err(error.into()),
        Err(error) => (Vec::new(), Some((1, format!("cannot be read: {error}")))),
    };
    let until = next.map(|next| first_prev(record, next)).transpose()?.flatten();
    let newer = |found| Error::Newer { path: record.path().join(file_name(number)), found };
    let mut read = FactFile {
        number,
        facts: Vec::new(),
        broken: unread.into_iter().collect(),
        void: 0,
        size: bytes.len() as u64,
        bytes: 0,
        end: before.cloned().unwrap_or_else(End::genesis),
    };
    let mut ended = until.as_ref().is_some_and(|until| *until == read.end.hash);
    let mut lines = 0;
    for (at, line) in whole_lines(&bytes).enumerate() {
        if ended {
            read.void += 1;
            continue;
        }
        read.bytes += line.len() as u64 + 1;
        lines = at + 1;
        match parse(line) {
            Ok(row) => {
                if at == 0 && before.is_none() {
                    read.end = said_before(&row);
                }
                if let Some(why) = row.fault_after(&read.end) {
                    read.broken.push((at + 1, why));
                }
                read.end = row.end_after(&read.end);
                ended = until.as_ref().is_some_and(|until| *until == read.end.hash);
                if row.links.holds {
                    read.facts.push(row.fact);
                }
            }
            Err(BadRow::Newer(found)) => return Err(newer(found)),
            Err(BadRow::Malformed) => read.broken.push((at + 1, "is no row".to_owned())),
        }
    }
    if read.facts.is_empty() && read.broken.is_empty() && read.void == 0 {
        // A file begins with a row: what it had is lost.
        read.broken.push((1, "is missing: there is no whole row in it".to_owned()));
    }
    if until.is_some() && !ended {
        read.broken.push((lines, "is not the one that the next file follows".to_owned()));
    }
    Ok(read)
}

/// What a row says came before it.
fn said_before(row: &Row) -> End {
    End { seq: row.fact.seq.saturating_sub(1), hash: row.links.prev.clone() }
}

/// What the first row of a file says it follows; none if it has no row yet, or is damaged.
fn first_prev(record: &Dir, number: u64) -> Result<Option<String>> {
    let bytes = match content(record, number) {
        Ok(bytes) => bytes,
        // Without it, rows that do not count would.
        Err(ReadError::Io(error)) if !error.is_denied() => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let row = whole_lines(&bytes).next().and_then(|line| parse(line).ok());
    Ok(row.map(|row| row.links.prev))
}

/// A file's bytes.
pub(super) fn content(record: &Dir, number: u64) -> std::result::Result<Vec<u8>, ReadError> {
    record.read(file_name(number), MAX_BYTES)
}

/// The lines that have an end.
pub(super) fn whole_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|b| *b == b'\n').filter_map(|line| line.strip_suffix(b"\n"))
}
