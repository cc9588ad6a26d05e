//! The end of the facts, where they are appended to: only under the lock.
//!
//! Promise: it was checked against its chain before anything of it is changed or follows it, by this append or by an
//! earlier one of this process with nobody between; what a process has read once it does not read again for each fact.
//! What another process wrote is written anew, and synced, before anything relies on it: whether it ever was nobody can
//! tell. A torn end is kept in a file beside it before it is cut: it may be half of what somebody wanted to say.

use std::collections::HashMap;

use netsky_disk::ReadError;
use netsky_disk::fs::{Dir, Place, write_durable};
use netsky_disk::lines::Lines;
use netsky_disk::{clock, fault};
use serde_json::{Value, json};

use super::read::{self, TORN, file_name};
use super::row::{self, End, Fact, MAX_ROW};
use super::{FILE_BYTES, OWN};
use crate::error::{Error, Result};

/// The record as this process left it, the last file written and synced by itself. It holds for as long as that is still
/// the last, and byte for byte what it was: to compare is much less than to parse and to hash.
#[derive(Debug)]
pub(super) struct Known {
    numbers: Vec<u64>,
    content: Vec<u8>,
    rows: usize,
    end: End,
    keys: Option<Keys>,
}

/// How many files hold what was recorded lately: the one that is appended to, and the one before it.
const LATELY: usize = 2;

/// The first fact of each kind and key.
type Keys = HashMap<(String, String), u64>;

/// The end of the facts, repaired and checked; only under the lock.
pub(super) struct Tail {
    record: Dir,
    /// Every file, rising.
    numbers: Vec<u64>,
    /// The last of them; none before the first fact.
    last: Option<LastFile>,
    end: End,
    /// This process was here before: what it asks a second time it may ask a thousand times.
    again: bool,
    keys: Option<Keys>,
}

/// The file that is appended to.
struct LastFile {
    lines: Lines,
    number: u64,
    content: Vec<u8>,
    rows: usize,
    /// What was cut off its end and is not noted yet.
    torn: Option<Torn>,
}

/// A torn end that was cut.
struct Torn {
    bytes: u64,
    /// The file in `record/` that holds it; none for zeros, which a power cut leaves of what was not written yet.
    kept: Option<String>,
}

impl Tail {
    pub(super) fn open(record: Dir, known: Option<Known>) -> Result<Tail> {
        let (numbers, again) = (read::numbers(&record)?, known.is_some());
        let Some(number) = numbers.last().copied() else {
            return Ok(Tail { record, numbers, last: None, end: End::genesis(), again, keys: None });
        };
        let path = record.path().join(file_name(number));
        let mut content = read::content(&record, number).map_err(|error| error.on("read", &path))?;
        let torn = content.split_off(content.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1));
        let holds = |known: &Known| known.numbers == numbers && known.content == content;
        let known = known.filter(holds);
        let (rows, end, keys, ours) = match known {
            Some(Known { rows, end, keys, .. }) => {
                // The same bytes, and maybe another file: one who wrote it anew may have been killed before its name was durable.
                record.sync()?;
                (rows, end, keys, true)
            }
            None => {
                let read = read::file(&record, number, None, None)?;
                if let Some((line, why)) = read.broken.first() {
                    return Err(Error::Broken { path, line: *line, why: why.clone() });
                }
                (read.facts.len(), read.end, None, false)
            }
        };
        let kept = keep(&record, number, content.len(), &torn)?;
        let (lines, cut) = Lines::open(&record, &file_name(number))?;
        let lines = if ours { lines } else { renewed(&record, number, &content)? };
        let torn = (cut > 0).then_some(Torn { bytes: cut, kept });
        let last = Some(LastFile { lines, number, content, rows, torn });
        Ok(Tail { record, numbers, last, end, again, keys })
    }

    /// What the next append of this process may rely on.
    pub(super) fn known(self) -> Option<Known> {
        let LastFile { content, rows, .. } = self.last?;
        Some(Known { numbers: self.numbers, content, rows, end: self.end, keys: self.keys })
    }

    /// The first fact of that kind and key.
    pub(super) fn find(&mut self, kind: &str, key: &str) -> Result<Option<u64>> {
        if self.again && self.keys.is_none() {
            self.keys = Some(self.index()?);
        }
        if let Some(keys) = &self.keys {
            return Ok(keys.get(&(kind.to_owned(), key.to_owned())).copied());
        }
        self.search(0, kind, key)
    }

    /// The same among what was recorded lately: in the last files alone, however many there are.
    pub(super) fn find_lately(&self, kind: &str, key: &str) -> Result<Option<u64>> {
        self.search(self.numbers.len().saturating_sub(LATELY), kind, key)
    }

    fn search(&self, from: usize, kind: &str, key: &str) -> Result<Option<u64>> {
        // Rows are written in one spelling, so a file without the key's text has no such fact and is not parsed.
        let text = serde_json::to_string(key).expect("a text is JSON");
        for at in from..self.numbers.len() {
            if !self.contains(at, &text)? {
                continue;
            }
            let facts = self.facts_of(at)?;
            if let Some(fact) = facts.iter().find(|fact| fact.kind == kind && fact.key == key) {
                return Ok(Some(fact.seq));
            }
        }
        Ok(None)
    }

    /// Whether a file has a text somewhere; see [`Tail::facts_of`] for one that does not read.
    fn contains(&self, at: usize, text: &str) -> Result<bool> {
        if let Some(last) = self.last.as_ref().filter(|last| last.number == self.numbers[at]) {
            return Ok(String::from_utf8_lossy(&last.content).contains(text));
        }
        match read::content(&self.record, self.numbers[at]) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).contains(text)),
            Err(ReadError::Io(error)) if !error.is_of_one_file() => Err(error.into()),
            Err(_) => Ok(false),
        }
    }

    /// The facts of a file, for who asks whether there is one. What a file does not give up, or a later format hides, is
    /// none: it is better said twice than not at all. The machine's trouble passes, and nothing is said as long as it lasts.
    fn facts_of(&self, at: usize) -> Result<Vec<Fact>> {
        match read::file(&self.record, self.numbers[at], None, self.numbers.get(at + 1).copied()) {
            Ok(file) => Ok(file.facts),
            Err(error) if error.is_of_one_file() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn index(&self) -> Result<Keys> {
        let mut keys = HashMap::new();
        for at in 0..self.numbers.len() {
            for fact in self.facts_of(at)? {
                keys.entry((fact.kind, fact.key)).or_insert(fact.seq);
            }
        }
        Ok(keys)
    }

    /// The folder of the files.
    pub(super) fn record(&self) -> &Dir {
        &self.record
    }

    pub(super) fn append(&mut self, kind: &str, key: &str, data: Value) -> Result<u64> {
        self.append_all(&[(kind, key, data)])
    }

    /// Appends some rows, with one sync for all of them; returns the place of the last.
    pub(super) fn append_all(&mut self, facts: &[(&str, &str, Value)]) -> Result<u64> {
        let mut drafts = facts.to_vec();
        if let Some(LastFile { number, torn: Some(torn), .. }) = &self.last {
            let note = json!({ "file": file_name(*number), "cut": torn.bytes, "kept": torn.kept });
            drafts.insert(0, (OWN, "torn-tail", note));
        }
        let (bytes, end) = self.rows(&drafts)?;
        if let Some(last) = &mut self.last
            && (last.content.len() + bytes.len()) as u64 <= FILE_BYTES
        {
            if let Err(error) = last.lines.append(&bytes[..bytes.len() - 1]) {
                // Half a row is cut by the next append, if it cannot be cut now.
                let _ = last.lines.cut_to(last.content.len() as u64);
                return Err(error.into());
            }
            if sync(&last.lines).is_ok() {
                last.content.extend_from_slice(&bytes);
                last.rows += drafts.len();
                return Ok(self.appended(&drafts, end));
            }
            // What a failed sync left in the file is unknown, and a second one would prove nothing.
            let _ = last.lines.cut_to(last.content.len() as u64);
        }
        self.begin(drafts)
    }

    /// Seals the last file, if there is one, and begins the next with these rows.
    fn begin(&mut self, mut drafts: Vec<(&str, &str, Value)>) -> Result<u64> {
        if let Some(LastFile { number, content, rows, .. }) = &self.last {
            let seal = json!({ "file": file_name(*number), "rows": rows, "bytes": content.len() });
            drafts.insert(0, (OWN, "sealed", seal));
        }
        let (bytes, end) = self.rows(&drafts)?;
        let tmp = Dir::make(self.record.path().join("tmp"))?;
        let number = self.numbers.last().map_or(1, |last| last + 1);
        let name = file_name(number);
        if let Err(error) = write_durable(&tmp, &self.record, &name, &bytes, Place::New) {
            // Only its folder may have refused, and then it must not be there: nothing was appended.
            let _ = self.record.remove(&name);
            return Err(error.into());
        }
        self.numbers.push(number);
        // The rows are durable; without a hold on their file nothing is known of it, and the next append reads it.
        let opened = Lines::open(&self.record, &name).ok();
        let rows = drafts.len();
        self.last = opened.map(|(lines, _)| LastFile { lines, number, content: bytes, rows, torn: None });
        Ok(self.appended(&drafts, end))
    }

    /// Rows are in the file and synced; returns the place of the last, which is the fact itself.
    fn appended(&mut self, drafts: &[(&str, &str, Value)], end: End) -> u64 {
        let first = end.seq + 1 - drafts.len() as u64;
        if let Some(keys) = &mut self.keys {
            for (seq, (kind, key, _)) in (first..).zip(drafts) {
                keys.entry(((*kind).to_owned(), (*key).to_owned())).or_insert(seq);
            }
        }
        let seq = end.seq;
        self.end = end;
        seq
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

/// A file written anew. Who wrote it may have been killed before its sync, or after one that failed: the system calls
/// such pages clean, and a second sync would find nothing to write.
fn renewed(record: &Dir, number: u64, content: &[u8]) -> Result<Lines> {
    fault::point("ledger.facts.renew").map_err(|e| netsky_disk::Error::new("write anew", "facts", e))?;
    let (tmp, name) = (Dir::make(record.path().join("tmp"))?, file_name(number));
    write_durable(&tmp, record, &name, content, Place::Over)?;
    Ok(Lines::open(record, &name)?.0)
}

/// Keeps a torn end of a file, which begins at that byte; says where.
fn keep(record: &Dir, number: u64, at: usize, torn: &[u8]) -> Result<Option<String>> {
    if torn.iter().all(|b| *b == 0) {
        return Ok(None);
    }
    let tmp = Dir::make(record.path().join("tmp"))?;
    let mut n = 0;
    loop {
        n += 1;
        let name = format!("facts-{number}{TORN}{at}.{n}");
        match write_durable(&tmp, record, &name, torn, Place::New) {
            Ok(()) => return Ok(Some(name)),
            Err(e) if !e.is_exists() => return Err(e.into()),
            // Of an append that was killed before it cut.
            Err(_) if record.read(&name, torn.len() as u64).is_ok_and(|there| there == torn) => {
                record.sync()?;
                return Ok(Some(name));
            }
            // Of an earlier end at the same place.
            Err(_) => {}
        }
    }
}

fn sync(lines: &Lines) -> Result<()> {
    fault::point("ledger.facts.sync").map_err(|e| netsky_disk::Error::new("sync", "facts", e))?;
    Ok(lines.sync()?)
}
