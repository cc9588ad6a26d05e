//! `record/facts-<n>.jsonl`: what exists in no other file, appended under one lock and synced before it is said.
//!
//! Promise: when an append returns, the fact is there after `kill -9` and a power cut; when it fails, nothing was
//! appended. Each is decided after all earlier ones are applied: the lock is taken, the tail is repaired and checked
//! against its chain, then the decision is made, then the row is written. A broken chain is never appended to: the file
//! stays as it is. A file that could not be synced is not synced again: the row goes into a new one, which says where
//! the former ended.
//! Leaves to others: what a kind means, and answering questions about many of them (the ingester).

mod read;
mod row;

use std::time::Duration;

use netsky_disk::fs::{Dir, Place, write_durable};
use netsky_disk::layout::Layout;
use netsky_disk::lines::Lines;
use netsky_disk::lock::Lock;
use netsky_disk::{clock, fault};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use row::MAX_ROW;

pub use read::{FactFile, facts, files};
pub(crate) use read::{file, file_name, numbers};
pub(crate) use row::End;
pub use row::Fact;

/// A file that would grow past this is sealed: every append reads and checks the file it appends to.
const FILE_BYTES: u64 = 1024 * 1024;

/// How long the lock is waited for: it is held for one write and one sync.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The kind of the rows that the record writes about itself.
const OWN: &str = "record";

/// Appends facts to one home.
#[derive(Debug, Clone)]
pub struct Facts {
    layout: Layout,
}

/// What became of a fact that is recorded at most once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Its place among all facts.
    pub seq: u64,
    /// It was there already, and is as durable as if it had been appended now.
    pub repeated: bool,
}

impl Facts {
    /// The facts of the home at `layout`; opens nothing yet.
    pub fn new(layout: &Layout) -> Facts {
        Facts { layout: layout.clone() }
    }

    /// Appends a fact; returns its place among all facts.
    ///
    /// # Errors
    /// Nothing was appended: the lock is held, the chain is broken, the row is too long, or the disk refuses.
    pub fn append(&self, kind: &str, key: &str, data: Value) -> Result<u64> {
        self.under_lock(kind, key, |tail| tail.append(kind, key, data))
    }

    /// As [`Facts::append`], unless there is one of that kind and key already.
    ///
    /// # Errors
    /// As [`Facts::append`].
    pub fn append_once(&self, kind: &str, key: &str, data: Value) -> Result<Appended> {
        self.under_lock(kind, key, |tail| {
            if let Some(seq) = tail.find(kind, key)? {
                // Whoever wrote it may have been killed before its sync.
                return tail.settle().map(|()| Appended { seq, repeated: true });
            }
            Ok(Appended { seq: tail.append(kind, key, data)?, repeated: false })
        })
    }

    fn under_lock<T>(&self, kind: &str, key: &str, act: impl FnOnce(Tail) -> Result<T>) -> Result<T> {
        if !row::is_kind(kind) || !row::is_key(key) {
            return Err(Error::Invalid(format!("{kind} {key}")));
        }
        let record = Dir::create(self.layout.record())?;
        let path = self.layout.record_lock();
        let _held = Lock::take_within(&path, LOCK_WAIT)?.ok_or(Error::Busy(path))?;
        act(Tail::open(record)?)
    }
}

/// The end of the facts, repaired and checked; only under the lock.
struct Tail {
    record: Dir,
    /// Every file, rising.
    numbers: Vec<u64>,
    /// The last of them; none before the first fact.
    last: Option<LastFile>,
    end: End,
}

/// The file that is appended to.
struct LastFile {
    lines: Lines,
    read: FactFile,
    /// Torn bytes that were cut off its end and are not noted yet.
    cut: u64,
}

impl Tail {
    fn open(record: Dir) -> Result<Tail> {
        let numbers = read::numbers(&record)?;
        let Some(number) = numbers.last().copied() else {
            return Ok(Tail { record, numbers, last: None, end: End::genesis() });
        };
        let (lines, cut) = Lines::open(&record, &file_name(number))?;
        let read = read::file(&record, number, None, None)?;
        if let Some((line, why)) = read.broken.first() {
            let path = record.path().join(file_name(number));
            return Err(Error::Broken { path, line: *line, why: why.clone() });
        }
        let end = read.end.clone();
        Ok(Tail { record, numbers, last: Some(LastFile { lines, read, cut }), end })
    }

    /// The first fact of that kind and key.
    fn find(&self, kind: &str, key: &str) -> Result<Option<u64>> {
        // Rows are written in one spelling, so a file without the key's text has no such fact and is not parsed.
        let text = serde_json::to_string(key).expect("a text is JSON");
        for (at, number) in self.numbers.iter().enumerate() {
            let bytes = read::content(&self.record, *number)?;
            if !String::from_utf8_lossy(&bytes).contains(&text) {
                continue;
            }
            let file = read::file(&self.record, *number, None, self.numbers.get(at + 1).copied())?;
            if let Some(fact) = file.facts.iter().find(|fact| fact.kind == kind && fact.key == key) {
                return Ok(Some(fact.seq));
            }
        }
        Ok(None)
    }

    /// Makes what is there as durable as what is appended now.
    fn settle(self) -> Result<()> {
        match &self.last {
            Some(last) => sync(&last.lines),
            None => Ok(()),
        }
    }

    fn append(mut self, kind: &str, key: &str, data: Value) -> Result<u64> {
        let mut drafts = vec![(kind, key, data)];
        if let Some(LastFile { read, cut: cut @ 1.., .. }) = &self.last {
            let note = json!({ "file": file_name(read.number), "cut": cut });
            drafts.insert(0, (OWN, "torn-tail", note));
        }
        let (bytes, end) = self.rows(&drafts)?;
        if let Some(last) = &mut self.last
            && last.read.bytes + bytes.len() as u64 <= FILE_BYTES
        {
            if let Err(error) = last.lines.append(&bytes[..bytes.len() - 1]) {
                // Half a row is cut by the next append, if it cannot be cut now.
                let _ = last.lines.cut_to(last.read.bytes);
                return Err(error.into());
            }
            if sync(&last.lines).is_ok() {
                return Ok(end.seq);
            }
            // What a failed sync left in the file is unknown, and a second one would prove nothing.
            let _ = last.lines.cut_to(last.read.bytes);
        }
        self.begin(drafts)
    }

    /// Seals the last file, if there is one, and begins the next with these rows.
    fn begin(&self, mut drafts: Vec<(&str, &str, Value)>) -> Result<u64> {
        if let Some(LastFile { read, .. }) = &self.last {
            let seal =
                json!({ "file": file_name(read.number), "rows": read.facts.len(), "bytes": read.bytes });
            drafts.insert(0, (OWN, "sealed", seal));
        }
        let (bytes, end) = self.rows(&drafts)?;
        let tmp = Dir::create(self.record.path().join("tmp"))?;
        let name = file_name(self.numbers.last().map_or(1, |last| last + 1));
        if let Err(error) = write_durable(&tmp, &self.record, &name, &bytes, Place::New) {
            // Only its folder may have refused, and then it must not be there: nothing was appended.
            let _ = self.record.remove(&name);
            return Err(error.into());
        }
        Ok(end.seq)
    }

    /// The lines of some rows after the end, and the end after them.
    fn rows(&self, drafts: &[(&str, &str, Value)]) -> Result<(Vec<u8>, End)> {
        let (mut bytes, mut end) = (Vec::new(), self.end.clone());
        let ts = clock::wall();
        for (kind, key, data) in drafts {
            let fact = Fact {
                seq: end.seq + 1,
                ts,
                kind: (*kind).to_owned(),
                key: (*key).to_owned(),
                data: data.clone(),
                hash: String::new(),
            };
            let (line, next) = row::line(&fact, &end);
            if line.len() > MAX_ROW {
                return Err(Error::TooLong { bytes: line.len(), cap: MAX_ROW });
            }
            bytes.extend_from_slice(&line);
            bytes.push(b'\n');
            end = next;
        }
        Ok((bytes, end))
    }
}

fn sync(lines: &Lines) -> Result<()> {
    fault::point("ledger.facts.sync").map_err(|e| netsky_disk::Error::new("sync", "facts", e))?;
    Ok(lines.sync()?)
}
