//! The journal: what the anchors of one root did and saw, in order, chained by hashes.
//!
//! Promise: one writer (the holder of the anchor's lock); rows are only appended; a torn last line is cut before the next
//! append; each row holds the hash of the one before, so that a change in the middle shows. A row that could not be
//! written for want of space is kept and written first when there is room again: order and numbers stay. A row that
//! was written and could not be synced may or may not outlive a power cut: nothing is appended after it, here it never
//! happened, and the next anchor takes what the file says.
//!
//! Format of a line: `{"v":1,"seq":…,"ts":…,…,"prev":"<hash>","hash":"<hash>"}`, chained as [`netsky_model::chain`] says.
//!
//! Left to others: what a row means to the next anchor ([`Recall`](crate::anchor), through [`Journal::open`]'s visitor).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use netsky_disk::fault;
use netsky_disk::fs::Dir;
use netsky_disk::lines::Lines;
use netsky_model::chain::{self, GENESIS};
use netsky_model::id::{AgentId, Generation, LineageId};
use serde::Deserialize;
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
    #[error("sync {}: {why}; its newest row may be lost", path.display())]
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

/// A row before it has a place.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) kind: EventKind,
    pub(crate) about: Option<About>,
    pub(crate) data: Value,
}

/// The session a row is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) session: AgentId,
    pub(crate) lineage: LineageId,
    pub(crate) generation: Generation,
}

/// What a reader of a whole journal noticed about the chain.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
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
    /// Bytes in the file.
    len: u64,
    /// `(seq, offset)` of every [`STRIDE`]th row.
    index: Vec<(u64, u64)>,
    /// The newest rows, for subscribers that keep up.
    recent: VecDeque<Rc<Event>>,
    waiting: VecDeque<Draft>,
    /// Written and not yet taken by [`Journal::take_unfolded`].
    unfolded: Vec<Rc<Event>>,
}

impl Journal {
    /// Opens the journal, repairs a torn tail, and shows every row to `visit` in order.
    pub(crate) fn open(path: &Path, mut visit: impl FnMut(Event)) -> Result<(Journal, Chain), JournalError> {
        let folder = Dir::open(path.parent().unwrap_or(path))?;
        // Before the rows: what it says of them is in there by then.
        let mut judge = Judge::open(folder.path())?;
        let file = open_lines(&folder, path)?;
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
            len: 0,
            index: Vec::new(),
            recent: VecDeque::new(),
            waiting: VecDeque::new(),
            unfolded: Vec::new(),
        };
        let mut chain = Chain::default();
        let mut line = Vec::new();
        let mut lines = BufReader::new(journal.reader(0)?);
        let read = |path: &Path, source| JournalError::Read { path: path.to_owned(), source };
        loop {
            line.clear();
            let n = lines.read_until(b'\n', &mut line).map_err(|e| read(path, e))?;
            if n == 0 {
                break;
            }
            chain.rows += 1;
            let at = journal.len;
            journal.len += n as u64;
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            match parse(text) {
                Ok(row) => {
                    if row.prev != journal.hash || !row.holds || row.event.seq <= journal.seq {
                        chain.broken.push(chain.rows);
                    }
                    judge.row(&row.event, &row.hash);
                    journal.hash = row.hash;
                    journal.remember(row.event.seq.max(journal.seq), at);
                    visit(row.event);
                }
                Err(BadRow::Newer(found)) => {
                    return Err(JournalError::Newer { path: path.to_owned(), found });
                }
                Err(BadRow::Malformed) => chain.broken.push(chain.rows),
            }
        }
        chain.heads = judge.end(journal.seq);
        Ok((journal, chain))
    }

    /// From now on rows bear this epoch, and its heads are kept; `anew` where those before do not match.
    pub(crate) fn begin(&mut self, epoch: u64, anew: bool) {
        self.epoch = epoch;
        match Heads::open(&self.folder) {
            Ok(heads) => self.heads = Some(heads),
            Err(error) => say!("the journal's heads are not kept: {error}"),
        }
        self.keep_head(anew);
    }

    /// Keeps a head of the newest row, which is synced first.
    pub(crate) fn keep_head(&mut self, anew: bool) {
        if self.heads.is_none() {
            return;
        }
        let synced = self.is_sound().map_err(|error| error.to_string());
        let synced = synced.and_then(|()| self.file.sync().map_err(|error| error.to_string()));
        match &synced {
            Ok(()) => self.synced = self.seq,
            Err(why) => self.unsynced = Some(why.clone()),
        }
        let kept = synced.and_then(|()| match &mut self.heads {
            Some(heads) => heads.keep(self.seq, &self.hash, anew).map_err(|error| error.to_string()),
            None => Ok(()),
        });
        if let Err(why) = kept {
            say!("a head of the journal was not kept: {why}");
        }
    }

    /// How the first row of an anchor names the key of its heads; none where they are not kept.
    pub(crate) fn heads_key(&self) -> Option<String> {
        self.heads.as_ref().map(Heads::key_name)
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

    /// Appends what was observed; without room it waits in memory for the next append.
    pub(crate) fn observe(&mut self, draft: Draft) {
        self.waiting.push_back(draft);
        if let Err(error) = self.flush() {
            say!("a row of the journal waits: {error}");
        }
        while self.waiting.len() > WAITING {
            let lost = self.waiting.pop_front();
            say!("lost a row of the journal: {lost:?}");
        }
    }

    /// Writes what waits for room.
    pub(crate) fn flush(&mut self) -> Result<(), JournalError> {
        while let Some(draft) = self.waiting.pop_front() {
            if let Err(error) = self.write(&draft, draft.kind.durable()) {
                self.waiting.push_front(draft);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether the journal is as the file says; an error when its newest row is unknown, and nothing more is written.
    pub(crate) fn is_sound(&self) -> Result<(), JournalError> {
        match &self.unsynced {
            None => Ok(()),
            Some(why) => Err(JournalError::Unsynced { path: self.path.clone(), why: why.clone() }),
        }
    }

    pub(crate) fn write(&mut self, draft: &Draft, synced: bool) -> Result<Rc<Event>, JournalError> {
        self.is_sound()?;
        let event = Event {
            seq: self.seq + 1,
            ts: netsky_disk::clock::wall(),
            epoch: self.epoch,
            kind: draft.kind,
            session: draft.about.as_ref().map(|about| about.session.clone()),
            lineage: draft.about.as_ref().map(|about| about.lineage.clone()),
            generation: draft.about.as_ref().map(|about| about.generation),
            data: draft.data.clone(),
        };
        let (line, hash) = row(&event, &self.hash);
        if self.torn {
            self.file = open_lines(&self.folder, &self.path)?;
            self.torn = false;
        }
        if let Err(error) = self.file.append(&line) {
            self.torn = true;
            return Err(error.into());
        }
        if synced && let Err(why) = self.sync() {
            self.unsynced = Some(why);
            self.is_sound()?;
        }
        let at = self.len;
        self.len += line.len() as u64 + 1;
        self.hash = hash;
        self.remember(event.seq, at);
        if synced {
            self.synced = self.seq;
        }
        let told = self.heads.as_ref().map(|heads| heads.newest(self.seq, &self.hash, self.synced));
        if let Some(Err(error)) = told {
            say!("how far the journal is was not told: {error}");
        }
        if Heads::is_due(self.seq) {
            self.keep_head(false);
        }
        let event = Rc::new(event);
        if self.recent.len() == LAG {
            self.recent.pop_front();
        }
        self.recent.push_back(Rc::clone(&event));
        self.unfolded.push(Rc::clone(&event));
        Ok(event)
    }

    fn sync(&self) -> Result<(), String> {
        fault::point("anchor.journal.sync").map_err(|error| error.to_string())?;
        self.file.sync().map_err(|error| error.to_string())
    }

    /// Rows written since the last time this was asked.
    pub(crate) fn take_unfolded(&mut self) -> Vec<Rc<Event>> {
        std::mem::take(&mut self.unfolded)
    }

    fn remember(&mut self, seq: u64, at: u64) {
        self.seq = seq;
        if self.index.last().is_none_or(|(last, _)| seq >= last + STRIDE) {
            self.index.push((seq, at));
        }
    }

    /// Up to [`REPLAY`] rows after `since`, oldest first; empty when there is none.
    pub(crate) fn after(&self, since: u64) -> Result<Vec<Rc<Event>>, JournalError> {
        if since >= self.seq {
            return Ok(Vec::new());
        }
        if let Some(rows) = self.recent_after(since) {
            return Ok(rows);
        }
        let read = |source| JournalError::Read { path: self.path.clone(), source };
        let near = self.index.partition_point(|(seq, _)| *seq <= since).saturating_sub(1);
        let start = self.index.get(near).map_or(0, |(_, at)| *at);
        let mut rows = Vec::new();
        for line in BufReader::new(self.reader(start)?).split(b'\n') {
            // A row that does not parse was reported when the journal was opened.
            let Ok(row) = parse(&line.map_err(read)?) else { continue };
            if row.event.seq > since {
                rows.push(Rc::new(row.event));
            }
            if rows.len() == REPLAY {
                break;
            }
        }
        Ok(rows)
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

    fn reader(&self, start: u64) -> Result<File, JournalError> {
        let mut file = netsky_disk::fs::open_to_read(&self.path)?;
        let sought = file.seek(SeekFrom::Start(start));
        sought.map_err(|source| JournalError::Read { path: self.path.clone(), source })?;
        Ok(file)
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
mod tests {
    use super::*;

    fn draft(n: u64) -> Draft {
        Draft { kind: EventKind::AnchorStarted, about: None, data: serde_json::json!({ "n": n }) }
    }

    fn open(path: &Path) -> (Journal, Chain, Vec<Event>) {
        let mut rows = Vec::new();
        let (journal, chain) = Journal::open(path, |event| rows.push(event)).expect("opens");
        (journal, chain, rows)
    }

    fn in_own_folder(folder: &tempfile::TempDir) -> PathBuf {
        let root = folder.path().join("root");
        Dir::create(&root).expect("made");
        root.join("journal.jsonl")
    }

    fn numbers(rows: &[Rc<Event>]) -> Vec<u64> {
        rows.iter().map(|event| event.seq).collect()
    }

    #[test]
    fn rows_survive_a_reopening_and_go_on_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = in_own_folder(&folder);
        let (mut journal, chain, rows) = open(&path);
        assert_eq!((chain, rows.len()), (Chain::default(), 0));
        journal.begin(4, false);
        for n in 0..3 {
            journal.commit(draft(n)).expect("room");
        }
        drop(journal);
        let (mut journal, chain, rows) = open(&path);
        assert_eq!((chain.rows, chain.broken, chain.heads.is_damage()), (3, vec![], false));
        assert_eq!(
            rows.iter().map(|event| (event.seq, event.epoch)).collect::<Vec<_>>(),
            [(1, 4), (2, 4), (3, 4)]
        );
        assert_eq!(journal.commit(draft(9)).expect("room").seq, 4);
        assert_eq!(numbers(&journal.after(1).expect("reads")), [2, 3, 4]);
        assert_eq!(numbers(&journal.after(4).expect("reads")), [] as [u64; 0]);
    }

    #[test]
    fn t14_a_torn_tail_is_cut_and_the_chain_holds() {
        use std::io::Write;
        let folder = tempfile::tempdir().expect("a folder");
        let path = in_own_folder(&folder);
        let (mut journal, ..) = open(&path);
        journal.commit(draft(1)).expect("room");
        drop(journal);
        let mut file = File::options().append(true).open(&path).expect("opens");
        file.write_all(br#"{"v":1,"seq":2,"ts":"20"#).expect("writes");
        let (mut journal, chain, _) = open(&path);
        assert_eq!(chain, Chain { rows: 1, ..Chain::default() });
        journal.commit(draft(2)).expect("room");
        drop(journal);
        let (_, chain, rows) = open(&path);
        assert_eq!((chain.rows, chain.broken.len(), rows.len()), (2, 0, 2));
    }

    #[test]
    fn a_changed_row_shows() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = in_own_folder(&folder);
        let (mut journal, ..) = open(&path);
        for n in 1..=3 {
            journal.commit(draft(n)).expect("room");
        }
        drop(journal);
        let text = std::fs::read_to_string(&path).expect("reads");
        std::fs::write(&path, text.replace(r#""n":2"#, r#""n":7"#)).expect("writes");
        assert_eq!(open(&path).1.broken, [2]);
        std::fs::write(
            &path,
            text.lines().filter(|l| !l.contains(r#""n":2"#)).fold(String::new(), |t, l| t + l + "\n"),
        )
        .expect("writes");
        assert_eq!(open(&path).1.broken, [2], "a dropped row in the middle");
    }

    #[test]
    fn a_long_replay_comes_in_pieces_from_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = in_own_folder(&folder);
        let (mut journal, ..) = open(&path);
        for n in 0..LAG as u64 + 700 {
            journal.write(&draft(n), false).expect("room");
        }
        let mut since = 3;
        let mut seen = Vec::new();
        loop {
            let rows = journal.after(since).expect("reads");
            let Some(last) = rows.last() else { break };
            since = last.seq;
            seen.extend(numbers(&rows));
        }
        assert_eq!(seen, (4..=journal.head()).collect::<Vec<_>>());
    }
}
