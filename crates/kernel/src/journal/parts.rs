//! The files of a journal: the sealed ones, oldest first, and the one that is written to.
//!
//! Each but the first begins with a checkpoint, `{"v":2,"after":…,"fold":…,"prev":"<hash>","hash":"<hash>"}`: a link of the
//! chain that is no row. It bears a version of its own, so that a program which knows nothing of sealed files leaves such
//! a journal alone.

use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use netsky_disk::fs::Dir;
use netsky_disk::layout::{JOURNAL, Sealed};
use netsky_model::chain;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{JournalError, REPLAY, STRIDE, parse};
use crate::rpc::Event;

/// Version of a checkpoint as it is written. One of before is a link of the chain as well: whether what it knows is still
/// enough is for [`Fold::restored`] to say, and where it is not all files are read.
const VERSION: u64 = 2;
/// The first one; below it are rows.
const FIRST: u64 = 2;

/// What the rows so far mean to whoever goes on behind them.
pub(crate) trait Fold: Default {
    /// Takes one row in.
    fn fold(&mut self, event: &Event);

    /// All that is known.
    fn checkpoint(&self) -> Value;

    /// The same, read back; none if it does not read.
    fn restored(checkpoint: Value) -> Option<Self>;
}

/// For who does not ask what they mean.
impl Fold for () {
    fn fold(&mut self, _: &Event) {}

    fn checkpoint(&self) -> Value {
        Value::Null
    }

    fn restored(_: Value) -> Option<()> {
        Some(())
    }
}

/// The first line of a file that continues another.
pub(crate) struct Checkpoint {
    v: u64,
    /// The last row before it.
    pub(crate) after: u64,
    pub(crate) fold: Value,
    pub(crate) prev: String,
    pub(crate) hash: String,
    /// Whether `hash` is the hash of the line.
    pub(crate) holds: bool,
}

impl Checkpoint {
    /// The line, without its end, and its hash.
    pub(crate) fn line(after: u64, fold: &Value, prev: &str) -> (Vec<u8>, String) {
        chain::link(&json!({"v": VERSION, "after": after, "fold": fold}).to_string(), prev)
    }

    /// Reads one back; none if it is another line.
    pub(crate) fn of(line: &[u8]) -> Option<Checkpoint> {
        Checkpoint::of_any(line).filter(|said| said.v <= VERSION)
    }

    /// Also one of a later program: a link of the chain in any version.
    pub(crate) fn of_any(line: &[u8]) -> Option<Checkpoint> {
        #[derive(Deserialize)]
        struct Said {
            v: u64,
            after: u64,
            fold: Value,
        }
        let Said { v, after, fold } = serde_json::from_slice(line).ok()?;
        let chain::Links { prev, hash, holds } = chain::links(line)?;
        (v >= FIRST).then_some(Checkpoint { v, after, fold, prev, hash, holds })
    }

    /// The one that a file begins with, if it is as it was written.
    pub(super) fn at_begin_of(path: &Path) -> Result<Option<Checkpoint>, JournalError> {
        let mut line = Vec::new();
        let mut file = BufReader::new(netsky_disk::fs::open_to_read(path)?);
        let read = file.read_until(b'\n', &mut line);
        read.map_err(|source| JournalError::Read { path: path.to_owned(), source })?;
        let said = line.strip_suffix(b"\n").and_then(Checkpoint::of);
        Ok(said.filter(|said| said.holds))
    }
}

/// One file, and where its rows are as far as somebody has read it.
pub(super) struct Part {
    /// None: the one that is written to.
    pub(super) sealed: Option<Sealed>,
    /// `(seq, offset)` of every [`STRIDE`]th row.
    marks: Vec<(u64, u64)>,
}

impl Part {
    pub(super) fn new(sealed: Option<Sealed>) -> Part {
        Part { sealed, marks: Vec::new() }
    }

    pub(super) fn path(&self, root: &Dir) -> PathBuf {
        root.path().join(self.sealed.map_or(JOURNAL.to_owned(), Sealed::name))
    }

    /// Notes where a row is.
    pub(super) fn mark(&mut self, seq: u64, at: u64) {
        if self.marks.last().is_none_or(|(last, _)| seq >= last + STRIDE) {
            self.marks.push((seq, at));
        }
    }

    /// Up to [`REPLAY`] rows after `since`.
    pub(super) fn after(&mut self, root: &Dir, since: u64) -> Result<Vec<Rc<Event>>, JournalError> {
        let path = self.path(root);
        let read = |source| JournalError::Read { path: path.clone(), source };
        let near = self.marks.partition_point(|(seq, _)| *seq <= since).saturating_sub(1);
        let mut at = self.marks.get(near).map_or(0, |(_, at)| *at);
        let mut file = netsky_disk::fs::open_to_read(&path)?;
        file.seek(SeekFrom::Start(at)).map_err(read)?;
        let mut rows = Vec::new();
        for line in BufReader::new(file).split(b'\n') {
            let line = line.map_err(read)?;
            let begins = at;
            at += line.len() as u64 + 1;
            // A row that does not parse was reported when the journal was opened, or is for `verify` to tell.
            let Ok(row) = parse(&line) else { continue };
            let seq = row.event.seq;
            // A file under another's name has none of the rows that are looked for.
            if self.sealed.is_some_and(|sealed| !(sealed.first..=sealed.last).contains(&seq)) {
                continue;
            }
            self.mark(seq, begins);
            if seq > since {
                rows.push(Rc::new(row.event));
            }
            if rows.len() == REPLAY {
                break;
            }
        }
        Ok(rows)
    }
}
