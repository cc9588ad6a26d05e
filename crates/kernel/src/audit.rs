//! A root read by somebody who is not its anchor: nothing is repaired, and an anchor may be appending meanwhile.
//!
//! Promise: every whole row is shown with its number, rows outside the chain too, those of the sealed files first; what
//! does not follow from the row before is named. A last line without its end is being written or torn, which is not damage.
//!
//! What a row of a later format says nobody knows here, but the chain is the same in all of them: such a row is held
//! against its neighbours and the heads like any other, so that no version which a line claims hides anything.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use netsky_disk::Error;
use netsky_disk::fs::{Dir, open_to_read};
use netsky_disk::layout::{JOURNAL, Sealed};
use netsky_model::chain::{self, GENESIS, Links};
use netsky_model::id::{Generation, LineageId};

use crate::heads::Judge;
pub use crate::heads::{Findings, Told};
use crate::journal::{BadRow, Checkpoint, Row, parse};
use crate::rpc::Event;

/// What reading a whole journal showed about its chain.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Audit {
    /// Whole lines, over all its files; a checkpoint is none.
    pub rows: u64,
    /// Lines, counted like that from 1, that do not parse or do not follow from the line before.
    pub broken: Vec<u64>,
    /// What is wrong with a file as a whole, in words.
    pub files: Vec<String>,
    /// The last line has no end.
    pub torn: bool,
    /// The first line of a later format: what such lines say was left alone.
    pub newer: Option<u64>,
    /// The number of the newest row that reads.
    pub head: u64,
    /// What its heads say that it does not.
    pub heads: Findings,
}

impl Audit {
    /// Whether a row was changed, dropped, added or moved, or an anchor found that one had been.
    pub fn is_damage(&self) -> bool {
        !self.broken.is_empty() || !self.files.is_empty() || self.heads.was_damage()
    }
}

/// Reads the journal at `path` and the sealed files before it, showing each row with its line; none if there is no journal.
///
/// # Errors
/// The file cannot be read.
pub fn journal(path: &Path, visit: impl FnMut(u64, Event)) -> Result<Option<Audit>, Error> {
    let root = path.parent().unwrap_or(path);
    // Before the rows, which may be growing.
    let judge = Judge::open(root)?;
    let (sealed, live) = files(root)?;
    if sealed.is_empty() && live.is_none() {
        let heads = judge.end(0)?;
        return Ok((heads != Findings::default()).then(|| Audit { heads, ..Audit::default() }));
    }
    let audit = Audit::default();
    let mut reading = Reading { audit, judge, visit, prev: Some(GENESIS.to_owned()), seq: 0 };
    for sealed in sealed {
        let path = root.join(sealed.name());
        let read = open_to_read(&path).and_then(|file| {
            reading.file(Some(sealed), file).map_err(|error| Error::new("read", &path, error))
        });
        if let Err(error) = read {
            reading.audit.files.push(error.to_string());
            (reading.seq, reading.prev) = (sealed.last, None);
        }
    }
    if let Some(live) = live {
        reading.file(None, live).map_err(|error| Error::new("read", path, error))?;
    }
    let Reading { mut audit, judge, seq, .. } = reading;
    audit.heads = judge.end(seq)?;
    Ok(Some(audit))
}

/// The sealed files, and the one that goes on behind them; between two names it has none for a moment.
fn files(root: &Path) -> Result<(Vec<Sealed>, Option<File>), Error> {
    let dir = match Dir::look_into(root) {
        Err(error) if error.is_not_found() => return Ok((Vec::new(), None)),
        opened => opened?,
    };
    let mut sealed = Sealed::all(&dir)?;
    loop {
        let live = match open_to_read(&root.join(JOURNAL)) {
            Err(error) if error.is_not_found() => None,
            opened => Some(opened?),
        };
        // What was opened may have been sealed since, and would be read twice.
        let now = Sealed::all(&dir)?;
        if std::mem::replace(&mut sealed, now.clone()) == now {
            return Ok((sealed, live));
        }
    }
}

/// A journal, as far as it was read.
struct Reading<F> {
    audit: Audit,
    judge: Judge,
    visit: F,
    /// The hash that the next line must name; none behind lines that were not read.
    prev: Option<String>,
    seq: u64,
}

impl<F: FnMut(u64, Event)> Reading<F> {
    fn file(&mut self, part: Option<Sealed>, file: File) -> io::Result<()> {
        let (mut lines, mut line) = (BufReader::new(file), Vec::new());
        let (mut at_begin, mut first) = (true, None);
        while lines.read_until(b'\n', &mut line)? > 0 {
            let Some(text) = line.strip_suffix(b"\n") else {
                self.audit.torn = true;
                break;
            };
            let checkpoint = if at_begin { Checkpoint::of_any(text) } else { None };
            at_begin = false;
            if let Some(checkpoint) = checkpoint {
                self.checkpoint(part, checkpoint);
                line.clear();
                continue;
            }
            self.audit.rows += 1;
            match parse(text) {
                Ok(Row { event, prev, hash, holds }) => {
                    self.judge.row(&event, &hash);
                    self.link(event.seq, Links { prev, hash, holds });
                    self.audit.head = self.seq;
                    first = first.or(Some(self.seq));
                    (self.visit)(self.audit.rows, event);
                }
                Err(BadRow::Newer(_)) => {
                    self.newer(text);
                    first = first.or(Some(self.seq));
                }
                Err(BadRow::Malformed) => self.audit.broken.push(self.audit.rows),
            }
            line.clear();
        }
        if let Some(sealed) = part
            && (first != Some(sealed.first) || self.seq != sealed.last)
        {
            let held = first.map_or("no row".to_owned(), |first| format!("rows {first} to {}", self.seq));
            self.audit.files.push(format!("{} holds {held}", sealed.name()));
        }
        Ok(())
    }

    /// Holds the row of that number against the one before.
    fn link(&mut self, seq: u64, Links { prev, hash, holds }: Links) {
        let follows = self.prev.as_ref().is_none_or(|last| *last == prev);
        if !follows || !holds || seq != self.seq + 1 {
            self.audit.broken.push(self.audit.rows);
        }
        (self.prev, self.seq) = (Some(hash), seq);
    }

    /// A row of a later format, whose number is known by counting.
    fn newer(&mut self, text: &[u8]) {
        self.audit.newer.get_or_insert(self.audit.rows);
        let seq = self.seq + 1;
        let links = chain::links(text);
        self.judge.hash(seq, links.as_ref().map_or("", |links| &links.hash));
        match links {
            Some(links) => self.link(seq, links),
            None => {
                self.audit.broken.push(self.audit.rows);
                self.seq = seq;
            }
        }
    }

    /// Holds what a file begins with against the rows before it.
    fn checkpoint(&mut self, part: Option<Sealed>, checkpoint: Checkpoint) {
        let Checkpoint { after, prev, hash, holds, .. } = checkpoint;
        let name = part.map_or(JOURNAL.to_owned(), Sealed::name);
        if self.prev.as_ref().is_some_and(|last| *last != prev || after != self.seq) || !holds {
            let gone = || format!("{name} has no rows {} to {after} before it", self.seq + 1);
            let other = || format!("{name} does not begin as it was written");
            self.audit.files.push(if after > self.seq { gone() } else { other() });
        }
        (self.prev, self.seq) = (Some(hash), after);
    }
}

/// Reads an environment mark back: whose tree, and which generation of it.
pub fn unmark(mark: &str) -> Option<(LineageId, Generation)> {
    let (lineage, generation) = mark.rsplit_once(".g")?;
    Some((lineage.parse().ok()?, Generation(generation.parse().ok()?)))
}

#[cfg(test)]
mod tests;
