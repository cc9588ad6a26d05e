//! The journal: what the anchors of one root did and saw, in order, chained by hashes.
//!
//! Promise: one writer (the holder of the anchor's lock); rows are only appended; a torn last line is cut before the next
//! append; each row holds the hash of the one before, so that a change in the middle shows. A row that could not be
//! written for want of space is kept and written first when there is room again: order and numbers stay. A row that
//! was written and could not be synced may or may not outlive a power cut: nothing is appended after it, here it never
//! happened, and the next anchor takes what the file says; that is another one by then, written anew, as no sync of this one
//! would prove anything any more.
//!
//! Format of a line: `{"v":1,"seq":…,"ts":…,…,"prev":"<hash>","hash":"<hash>"}`, chained as [`netsky_model::chain`] says.
//!
//! Left to others: what a row means to the next anchor ([`Recall`](crate::anchor), through [`Fold`]).

mod parts; // its files, and what each begins with
mod rotate; // from one to the next

pub(crate) use parts::{Checkpoint, Fold};

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use netsky_disk::fault;
use netsky_disk::fs::Dir;
use netsky_disk::layout::{JOURNAL, Sealed};
use netsky_disk::lines::{self, Lines};
use netsky_model::chain::{self, GENESIS};
use netsky_model::id::{AgentId, Generation, LineageId};
use parts::Part;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::heads::{Findings, Heads, Judge};
use crate::log::say;
use crate::rpc::subscribe::LAG;
use crate::rpc::{Event, EventKind};

/// Version of a row.
const VERSION: u64 = 1;
/// A remembered offset every so many rows: a replay reads at most this many rows too much.
const STRIDE: u64 = 256;
/// Rows handed out at once by a replay.
pub(crate) const REPLAY: usize = 256;
/// Rows that wait for room on the disk; beyond it the oldest observation is lost, and said so in the anchor's log.
const WAITING: usize = 1_024;

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The disk said no.
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
    /// Reading failed.
    #[error("read {}: {source}", path.display())]
    Read {
        /// The journal.
        path: PathBuf,
        /// How.
        source: io::Error,
    },
    /// A row was appended and may not survive: syncing failed, and what a second try says would prove nothing.
    #[error("go on with {}: {why}; its newest row may be lost", path.display())]
    Unsynced {
        /// The journal.
        path: PathBuf,
        /// How.
        why: String,
    },
    /// A later program wrote it; this one must not append.
    #[error("{} is in format {found}, this program knows {VERSION}", path.display())]
    Newer {
        /// The journal.
        path: PathBuf,
        /// The version found.
        found: u64,
    },
}

impl JournalError {
    /// Whether it is for want of room on the disk.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, JournalError::Disk(error) if error.is_full())
    }

    /// Whether it is for want of a descriptor.
    fn is_out_of_descriptors(&self) -> bool {
        matches!(self, JournalError::Disk(error) if error.is_out_of_descriptors())
    }
}

/// A row before it has a place.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) kind: EventKind,
    pub(crate) about: Option<About>,
    pub(crate) data: Value,
}

impl Draft {
    /// A row of an anchor; but for a release it stops at one that is not what the reference says of its kind.
    pub(crate) fn of(kind: EventKind, about: Option<About>, data: impl Serialize) -> Draft {
        let data = serde_json::to_value(data).unwrap_or_default();
        debug_assert!(kind.fits(&data), "a row of {} says {data}", kind.word());
        Draft { kind, about, data }
    }
}

/// The session a row is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) session: AgentId,
    pub(crate) lineage: LineageId,
    pub(crate) generation: Generation,
}

/// What a reader of a whole journal noticed about the chain.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Chain {
    /// Rows read.
    pub(crate) rows: u64,
    /// Line numbers (from 1) that do not parse or do not follow from the line before.
    pub(crate) broken: Vec<u64>,
    /// What its heads say that it does not.
    pub(crate) heads: Findings,
}

/// The open journal.
pub(crate) struct Journal {
    path: PathBuf,
    /// Its folder, whatever has the path of that by now.
    folder: Dir,
    file: Lines,
    /// How far it went, told beside it; none before it is written to, and where that cannot be told.
    heads: Option<Heads>,
    /// A write failed and may have left half a line.
    torn: bool,
    /// Why the last row could not be synced; there is no other after it.
    unsynced: Option<String>,
    /// The newest row that was synced here.
    synced: u64,
    epoch: u64,
    seq: u64,
    hash: String,
    /// The first row of the file that is written to.
    first: u64,
    /// Bytes in it.
    len: u64,
    /// How many it may have before it is sealed.
    full_at: u64,
    /// The same, behind its checkpoint.
    limit: u64,
    /// The files it is in; that one is the last.
    parts: Vec<Part>,
    /// The newest rows, for subscribers that keep up.
    recent: VecDeque<Rc<Event>>,
    waiting: VecDeque<Draft>,
    /// Written, or waiting, and not yet taken by [`Journal::take_unfolded`].
    unfolded: Vec<Rc<Event>>,
}

impl Journal {
    /// Opens the journal, repairs a torn tail, and takes every row into what it returns, in order: those before the
    /// file that is written to by its checkpoint, and one by one where that has none that holds.
    pub(crate) fn open<F: Fold>(path: &Path) -> Result<(Journal, Chain, F), JournalError> {
        let folder = Dir::open(path.parent().unwrap_or(path))?;
        // Before the rows: what it says of them is in there by then.
        let mut judge = Judge::open(folder.path())?;
        rotate::take_back(&folder)?;
        let file = open_lines(&folder, path)?;
        // Names that whoever made or took them back did not live to make durable.
        folder.sync()?;
        let sealed = Sealed::all(&folder)?;
        let mut journal = Journal {
            path: path.to_owned(),
            folder,
            file,
            heads: None,
            torn: false,
            unsynced: None,
            synced: 0,
            epoch: 0,
            seq: 0,
            hash: GENESIS.to_owned(),
            first: 0,
            len: 0,
            full_at: 0,
            limit: crate::start::journal_limit(),
            parts: sealed.iter().copied().map(Some).chain([None]).map(Part::new).collect(),
            recent: VecDeque::new(),
            waiting: VecDeque::new(),
            unfolded: Vec::new(),
        };
        let (mut chain, mut fold) = (Chain::default(), F::default());
        let checkpoint = Checkpoint::at_begin_of(path)?;
        let known = checkpoint.and_then(|Checkpoint { after, fold, prev, .. }| {
            F::restored(fold).map(|known| (known, after, prev))
        });
        let mut parts = 0..journal.parts.len();
        if let Some((known, after, prev)) = known {
            (fold, journal.seq, journal.hash) = (known, after, prev);
            parts = sealed.len()..parts.end;
        }
        for part in parts {
            journal.begins_after(journal.seq, 0);
            match journal.read(part, &mut chain, &mut judge, &mut fold) {
                // What is behind it still counts; that its rows are not there shows by the numbers. They are where only
                // this machine has no room for another file just now.
                Err(error) if part < sealed.len() && !error.is_out_of_descriptors() => say!("{error}"),
                read => read?,
            }
        }
        chain.heads = judge.end(journal.seq)?;
        Ok((journal, chain, fold))
    }

    /// Takes the rows of one file in.
    fn read(
        &mut self,
        part: usize,
        chain: &mut Chain,
        judge: &mut Judge,
        fold: &mut impl Fold,
    ) -> Result<(), JournalError> {
        let path = self.parts[part].path(&self.folder);
        let read = |source| JournalError::Read { path: path.clone(), source };
        let mut lines = BufReader::new(netsky_disk::fs::open_to_read(&path)?);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).map_err(read)? > 0 {
            chain.rows += 1;
            let (at, text) = (self.len, line.strip_suffix(b"\n").unwrap_or(&line));
            let checkpoint = if at == 0 { Checkpoint::of(text) } else { None };
            if let Some(Checkpoint { after, prev, hash, holds, .. }) = checkpoint {
                if prev != self.hash || !holds || after != self.seq {
                    chain.broken.push(chain.rows);
                }
                (self.seq, self.hash) = (after.max(self.seq), hash);
                self.begins_after(self.seq, line.len() as u64);
                line.clear();
                continue;
            }
            self.len += line.len() as u64;
            match parse(text) {
                Ok(row) => {
                    if row.prev != self.hash || !row.holds || row.event.seq <= self.seq {
                        chain.broken.push(chain.rows);
                    }
                    judge.row(&row.event, &row.hash);
                    self.hash = row.hash;
                    self.seq = row.event.seq.max(self.seq);
                    self.parts[part].mark(self.seq, at);
                    fold.fold(&row.event);
                }
                Err(BadRow::Newer(found)) => return Err(JournalError::Newer { path, found }),
                Err(BadRow::Malformed) => chain.broken.push(chain.rows),
            }
            line.clear();
        }
        Ok(())
    }

    /// From now on rows bear this epoch, and its heads are kept; `anew` where those before do not match.
    pub(crate) fn begin(&mut self, epoch: u64, anew: bool) {
        self.epoch = epoch;
        self.keep_head(anew);
    }

    /// Keeps a head of the newest row, which is synced first. Where there was no room for their files there may be now.
    pub(crate) fn keep_head(&mut self, anew: bool) {
        if self.heads.is_none() && self.epoch > 0 {
            match Heads::open(&self.folder) {
                Ok(heads) => self.heads = Some(heads),
                Err(error) => say!("the journal's heads are not kept: {error}"),
            }
        }
        if self.heads.is_none() {
            return;
        }
        let synced = self.is_sound().map_err(|error| error.to_string());
        let synced = synced.and_then(|()| {
            let synced = self.file.sync().map_err(|error| error.to_string());
            synced.inspect_err(|why| self.leave_file(why.clone()))
        });
        if synced.is_ok() {
            self.synced = self.seq;
        }
        let kept = synced.and_then(|()| match &mut self.heads {
            Some(heads) => heads.keep(self.seq, &self.hash, anew).map_err(|error| error.to_string()),
            None => Ok(()),
        });
        if let Err(why) = kept {
            say!("a head of the journal was not kept: {why}");
        }
    }

    /// How the first row of an anchor, or of a file, names the key of its heads, which says that they are there; none while
    /// there is no room for the first ones, which are then kept without.
    pub(crate) fn heads_key(&self) -> Option<String> {
        let heads = self.heads.as_ref()?;
        match heads.stand(self.seq, &self.hash, self.synced) {
            Ok(true) => return Some(heads.key_name()),
            Ok(false) => say!("no row names the journal's heads: there was no room for the first one"),
            Err(error) => say!("no row names the journal's heads: {error}"),
        }
        None
    }

    /// The newest row's number.
    pub(crate) fn head(&self) -> u64 {
        self.seq
    }

    /// Appends a row and syncs it: it is there before its effect, and after a power cut. Without that it did not happen
    /// as far as this anchor is concerned.
    pub(crate) fn commit(&mut self, draft: Draft) -> Result<Rc<Event>, JournalError> {
        self.flush()?;
        self.write(&draft, true)
    }

    /// Appends what was observed; without room it waits in memory for the next append. It has happened, so that what it
    /// means counts from here on: [`Journal::take_unfolded`] has it now, and not once more when it is written.
    pub(crate) fn observe(&mut self, draft: Draft) {
        let written = self.flush().and_then(|()| self.write(&draft, draft.kind.durable()));
        if let Err(error) = written {
            say!("a row of the journal waits: {error}");
            self.unfolded.push(Rc::new(self.event(&draft)));
            self.waiting.push_back(draft);
        }
        while self.waiting.len() > WAITING {
            // What was wished goes last.
            let oldest = self.waiting.iter().position(|draft| !draft.kind.durable());
            let lost = self.waiting.remove(oldest.unwrap_or(0));
            // A checkpoint of this anchor would say what no row says.
            self.full_at = u64::MAX;
            say!("lost a row of the journal: {lost:?}");
        }
    }

    /// Writes what waits for room.
    pub(crate) fn flush(&mut self) -> Result<(), JournalError> {
        while let Some(draft) = self.waiting.pop_front() {
            if let Err(error) = self.append(&draft, draft.kind.durable()) {
                self.waiting.push_front(draft);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Rows that wait for room.
    pub(crate) fn waits(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the journal is as the file says; an error when its newest row is unknown, and nothing more is written.
    pub(crate) fn is_sound(&self) -> Result<(), JournalError> {
        match &self.unsynced {
            None => Ok(()),
            Some(why) => Err(JournalError::Unsynced { path: self.path.clone(), why: why.clone() }),
        }
    }

    pub(crate) fn write(&mut self, draft: &Draft, synced: bool) -> Result<Rc<Event>, JournalError> {
        let event = self.append(draft, synced)?;
        self.unfolded.push(Rc::clone(&event));
        Ok(event)
    }

    fn append(&mut self, draft: &Draft, synced: bool) -> Result<Rc<Event>, JournalError> {
        self.is_sound()?;
        let event = self.event(draft);
        let (line, hash) = row(&event, &self.hash);
        if self.torn {
            self.file = open_lines(&self.folder, &self.path)?;
            self.torn = false;
        }
        if let Err(error) = self.file.append(&line) {
            self.torn = true;
            return Err(error.into());
        }
        if synced {
            self.sync_or_end()?;
        }
        let event = self.took(event, hash, line.len(), synced);
        if Heads::is_due(self.seq) {
            self.keep_head(false);
        }
        Ok(event)
    }

    /// The next row.
    fn event(&self, draft: &Draft) -> Event {
        Event {
            seq: self.seq + 1,
            ts: netsky_disk::clock::wall(),
            epoch: self.epoch,
            kind: draft.kind,
            session: draft.about.as_ref().map(|about| about.session.clone()),
            lineage: draft.about.as_ref().map(|about| about.lineage.clone()),
            generation: draft.about.as_ref().map(|about| about.generation),
            data: draft.data.clone(),
        }
    }

    /// A row of that many bytes is in the file.
    fn took(&mut self, event: Event, hash: String, bytes: usize, synced: bool) -> Rc<Event> {
        if let Some(part) = self.parts.last_mut() {
            part.mark(event.seq, self.len);
        }
        self.len += bytes as u64 + 1;
        (self.seq, self.hash) = (event.seq, hash);
        if synced {
            self.synced = self.seq;
        }
        let told = self.heads.as_ref().map(|heads| heads.newest(self.seq, &self.hash, self.synced));
        if let Some(Err(error)) = told {
            say!("how far the journal is was not told: {error}");
        }
        let event = Rc::new(event);
        if self.recent.len() == LAG {
            self.recent.pop_front();
        }
        self.recent.push_back(Rc::clone(&event));
        event
    }

    /// Syncs what was appended; where that fails, nothing more is written.
    fn sync_or_end(&mut self) -> Result<(), JournalError> {
        if let Err(why) = self.sync() {
            self.leave_file(why);
        }
        self.is_sound()
    }

    /// After a sync that failed nothing more is written, and what is there is written anew, for the next anchor: what of the
    /// file is on the disk nobody can tell any more.
    fn leave_file(&mut self, why: String) {
        self.unsynced = Some(why);
        let tmp = Dir::make(self.folder.path().join("tmp"));
        if let Err(error) = tmp.and_then(|tmp| lines::renew(&tmp, &self.folder, JOURNAL)) {
            say!("{error}: what the next anchor finds may not outlive a power cut");
        }
    }

    fn sync(&self) -> Result<(), String> {
        fault::point("anchor.journal.sync").map_err(|error| error.to_string())?;
        self.file.sync().map_err(|error| error.to_string())
    }

    /// What happened since the last time this was asked, each once: what is written, and what waits for room.
    pub(crate) fn take_unfolded(&mut self) -> Vec<Rc<Event>> {
        std::mem::take(&mut self.unfolded)
    }

    /// Up to [`REPLAY`] rows after `since`, oldest first; empty when there is none. Those of a sealed file that is gone,
    /// or does not read, are passed over.
    pub(crate) fn after(&mut self, since: u64) -> Result<Vec<Rc<Event>>, JournalError> {
        if since >= self.seq {
            return Ok(Vec::new());
        }
        if let Some(rows) = self.recent_after(since) {
            return Ok(rows);
        }
        for part in &mut self.parts {
            if part.sealed.is_some_and(|sealed| sealed.last <= since) {
                continue;
            }
            match part.after(&self.folder, since) {
                Ok(rows) if rows.is_empty() => {}
                Err(error) if part.sealed.is_some() => say!("{error}"),
                read => return read,
            }
        }
        Ok(Vec::new())
    }

    /// The oldest row a subscriber can get without reading the file.
    pub(crate) fn oldest_recent(&self) -> u64 {
        self.recent.front().map_or(self.seq + 1, |event| event.seq)
    }

    fn recent_after(&self, since: u64) -> Option<Vec<Rc<Event>>> {
        (since + 1 >= self.oldest_recent()).then(|| {
            let skip = self.recent.partition_point(|event| event.seq <= since);
            self.recent.iter().skip(skip).take(REPLAY).cloned().collect()
        })
    }
}

fn open_lines(folder: &Dir, path: &Path) -> netsky_disk::Result<Lines> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (lines, cut) = Lines::open(folder, name)?;
    if cut > 0 {
        say!("cut {cut} torn bytes off the end of {}", path.display());
    }
    Ok(lines)
}

/// A parsed line.
pub(crate) struct Row {
    pub(crate) event: Event,
    pub(crate) prev: String,
    pub(crate) hash: String,
    /// Whether `hash` is the hash of the line.
    pub(crate) holds: bool,
}

pub(crate) enum BadRow {
    Newer(u64),
    Malformed,
}

/// The bytes of a row, without the line end, and its hash.
fn row(event: &Event, prev: &str) -> (Vec<u8>, String) {
    let event = serde_json::to_string(event).expect("an event holds only string keys and plain data");
    let inner = event.strip_prefix('{').expect("an event is a JSON object");
    chain::link(&format!(r#"{{"v":{VERSION},{inner}"#), prev)
}

pub(crate) fn parse(line: &[u8]) -> Result<Row, BadRow> {
    #[derive(Deserialize)]
    struct Version {
        v: u64,
    }
    let malformed = |_| BadRow::Malformed;
    let Version { v } = serde_json::from_slice(line).map_err(malformed)?;
    if v > VERSION {
        return Err(BadRow::Newer(v));
    }
    let event: Event = serde_json::from_slice(line).map_err(malformed)?;
    let links = chain::links(line).ok_or(BadRow::Malformed)?;
    Ok(Row { event, prev: links.prev, hash: links.hash, holds: links.holds })
}

#[cfg(test)]
mod tests;
