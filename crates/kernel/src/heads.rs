//! Keyed heads of a journal, kept beside it: `heads/key`, `heads/heads.jsonl`, `heads/last`.
//!
//! A chain of hashes shows a changed row, but not that its end is gone, nor that somebody wrote all
//! of it anew. So after each row `last` says how far the journal went and with which hash, and
//! every [`STRIDE`] rows, at each start and each stop of an anchor a head is appended to
//! `heads.jsonl` and synced, behind the synced row it is about. Each bears a hash keyed with `key`.
//!
//! The first row of each anchor, and of each file, names the key, so that heads which are
//! gone or emptied, all or one of their files, or are another's, show by the journal:
//! `last` too was synced once before that row. An anchor that finds damage tells of it in
//! a row and counts anew, which a head says too: it is found by either from then on.
//!
//! What this proves: whoever changed the journal and nothing else is found. A program
//! of the same user can read the key too. Rows that were never synced may go with the
//! power: `last` of an earlier boot is proof only of those that it says were.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use netsky_disk::fs::{self, Dir, Place};
use netsky_disk::layout::JOURNAL;
use netsky_disk::lines::{self, Lines, Reader};
use netsky_disk::{ReadError, Result};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::rpc::event_data::Damaged;
use crate::rpc::{Event, EventKind};

/// Version of a head.
const VERSION: u64 = 1;
/// Rows between two heads that are synced.
const STRIDE: u64 = 1_000;
/// Fixed size of `last`: the longest head fits, and a write never moves its end.
const LAST: usize = 512;
const FOLDER: &str = "heads";
const KEY: &str = "key";
const KEPT: &str = "heads.jsonl";
const NEWEST: &str = "last";

/// How far a journal went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    v: u64,
    seq: u64,
    hash: String,
    boot_id: String,
    /// The newest row that was synced by then; heads of the first programs do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    synced: Option<u64>,
    /// What was kept before does not match any more, and was said so: from here on it counts anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    anew: bool,
    mac: String,
}

type Key = [u8; 32];

impl Head {
    fn new(key: &Key, seq: u64, hash: &str, boot_id: &str, synced: u64, anew: bool) -> Head {
        let mut head = Head {
            v: VERSION,
            seq,
            hash: hash.to_owned(),
            boot_id: boot_id.to_owned(),
            synced: Some(synced),
            anew,
            mac: String::new(),
        };
        head.mac = head.mac_by(key);
        head
    }

    fn mac_by(&self, key: &Key) -> String {
        let Head { v, seq, hash, boot_id, synced, anew, .. } = self;
        let synced = synced.map(|synced| format!(" {synced}")).unwrap_or_default();
        let text = format!("{v} {seq} {hash} {boot_id} {anew}{synced}");
        blake3::keyed_hash(key, text.as_bytes()).to_hex().to_string()
    }

    fn read(key: &Key, line: &[u8]) -> Option<Head> {
        let head: Head = serde_json::from_slice(line.trim_ascii_end()).ok()?;
        (head.mac == head.mac_by(key)).then_some(head)
    }

    fn to_line(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain data with string keys becomes JSON")
    }
}

/// What the heads say that a journal does not.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Findings {
    /// Heads that were held against the journal.
    pub heads: u64,
    /// Rows whose hash is another than it was.
    pub rewritten: Vec<u64>,
    /// The journal went up to this row, and does not any more.
    pub cut: Option<u64>,
    /// The same, where it may have gone with the power before it was synced.
    pub unsynced: Option<u64>,
    /// Files of the heads that do not read, and why.
    pub unread: Vec<String>,
    /// Files of the heads that must be there by the rows, and are not.
    pub gone: Vec<String>,
    /// What anchors found and told of, and may not be seen otherwise any more.
    pub told: Vec<Told>,
    /// Rows behind which the heads count anew: what was kept up to there did not match.
    pub anew: Vec<u64>,
}

/// Damage of the journal as an anchor told of it in a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Told {
    /// That row.
    pub row: u64,
    /// What it says.
    #[serde(flatten)]
    pub damage: Damaged,
}

impl Findings {
    /// Whether somebody touched the journal, or its heads, since that was told last.
    pub fn is_damage(&self) -> bool {
        !self.rewritten.is_empty() || self.cut.is_some() || !self.unread.is_empty() || !self.gone.is_empty()
    }

    /// Whether somebody ever did: what an anchor has told of does not become whole by what follows it.
    pub fn was_damage(&self) -> bool {
        self.is_damage() || !self.told.is_empty() || !self.anew.is_empty()
    }
}

/// Heads on their way past the rows of a journal.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    synced: BTreeMap<u64, String>,
    last: Option<Head>,
    boot_id: String,
    folder: PathBuf,
    /// The newest row that names a key, and which.
    named: Option<(u64, String)>,
    findings: Findings,
}

impl Judge {
    /// Reads what is kept of the journal in `root`; before the journal itself, which may be growing.
    pub(crate) fn open(root: &Path) -> Result<Judge> {
        let (boot_id, folder) = (netsky_disk::clock::stamp().boot_id, root.join(FOLDER));
        let mut judge = Judge { boot_id, folder, ..Judge::default() };
        let dir = match Dir::open(&judge.folder) {
            Err(error) if error.is_not_found() => return Ok(judge),
            Err(error) if is_of_this_moment(&error) => return Err(error),
            Err(error) => {
                judge.findings.unread.push(error.to_string());
                return Ok(judge);
            }
            Ok(dir) => dir,
        };
        let key = match key(&dir)? {
            Ok(key) => key,
            Err(why) => {
                judge.findings.unread.push(format!("{FOLDER}/{KEY}: {why}"));
                return Ok(judge);
            }
        };
        if dir.exists(KEPT)? {
            let (mut lines, mut n) = (Reader::open(&dir, KEPT, 0)?, 0);
            while let Some((_, line)) = lines.next_line()? {
                n += 1;
                let Some(head) = Head::read(&key, line) else {
                    judge.findings.unread.push(format!("{FOLDER}/{KEPT}:{n}"));
                    continue;
                };
                if head.anew {
                    judge.synced.clear();
                    judge.findings.anew.push(head.seq);
                }
                judge.synced.insert(head.seq, head.hash);
            }
        }
        match dir.read(NEWEST, LAST as u64) {
            // Just made, or emptied: the rows tell which.
            Ok(bytes) if bytes.iter().all(|byte| *byte == 0) => {}
            Ok(bytes) => match Head::read(&key, &bytes) {
                Some(head) => judge.last = Some(head),
                None => judge.findings.unread.push(format!("{FOLDER}/{NEWEST}")),
            },
            Err(ReadError::Io(error)) if error.is_not_found() => {}
            Err(ReadError::Io(error)) => return Err(error),
            Err(error) => judge.findings.unread.push(format!("{FOLDER}/{NEWEST}: {error}")),
        }
        Ok(judge)
    }

    /// Holds a row against the heads.
    pub(crate) fn row(&mut self, event: &Event, hash: &str) {
        let seq = event.seq;
        if matches!(event.kind, EventKind::AnchorStarted | EventKind::Rotated)
            && let Some(key) = event.data["heads"].as_str()
        {
            self.named = Some((seq, key.to_owned()));
        }
        if event.kind == EventKind::Damaged
            && let Ok(damage) = Damaged::deserialize(&event.data)
            && damage.file == JOURNAL
        {
            self.findings.told.push(Told { row: seq, damage });
        }
        self.hash(seq, hash);
    }

    /// Holds what is known of a row in any format against the heads: which it is, and its hash.
    pub(crate) fn hash(&mut self, seq: u64, hash: &str) {
        let last = self.last.as_ref().filter(|last| last.seq == seq).map(|last| &last.hash);
        let said: Vec<&String> = self.synced.get(&seq).into_iter().chain(last).collect();
        self.findings.heads += said.len() as u64;
        if said.iter().any(|said| *said != hash) {
            self.findings.rewritten.push(seq);
        }
    }

    /// Both have their names and a head before any row names the key.
    fn look_for_files(&mut self, dir: &Dir, key: &Key) {
        for (name, had_head) in [(KEPT, !self.synced.is_empty()), (NEWEST, self.last.is_some())] {
            let file = format!("{FOLDER}/{name}");
            if dir.exists(name).is_ok_and(|there| !there) {
                self.findings.gone.push(file);
            } else if !had_head
                && !self.findings.unread.iter().any(|unread| unread.starts_with(&file))
                && lines::read(dir.path().join(name))
                    .is_ok_and(|lines| lines.iter().all(|line| Head::read(key, line).is_none()))
            {
                let is_empty = dir.size(name).is_ok_and(|size| size.is_none_or(|bytes| bytes == 0));
                let why = if is_empty { "it is empty" } else { "no head in it reads" };
                self.findings.unread.push(format!("{file}: {why}"));
            }
        }
    }

    /// What was found, after the last row.
    pub(crate) fn end(mut self, newest: u64) -> Result<Findings> {
        if let Some((row, named)) = self.named.take() {
            // Looked at only now: an anchor may have made it while the rows were read.
            let found = match Dir::open(&self.folder) {
                Err(error) if is_of_this_moment(&error) => return Err(error),
                Err(error) => Err(error.to_string()),
                Ok(dir) => key(&dir)?.map(|key| (key, dir)),
            };
            match found {
                Ok((key, dir)) if name_of(&key) == named => self.look_for_files(&dir, &key),
                Ok(_) => self.findings.unread.push(format!("{FOLDER}/{KEY}: row {row} names another")),
                // Said already.
                Err(_) if !self.findings.unread.is_empty() => {}
                Err(why) => {
                    self.findings.unread.push(format!("{FOLDER}/{KEY}, which row {row} names: {why}"))
                }
            }
        }
        let told = self.last.as_ref().and_then(|last| last.synced);
        let synced = self.synced.keys().next_back().copied().max(told).filter(|seq| *seq > newest);
        let last = self.last.filter(|last| last.seq > newest);
        self.findings.cut = match &last {
            Some(last) if last.boot_id == self.boot_id => Some(last.seq),
            _ => synced,
        };
        self.findings.unsynced = last.filter(|_| self.findings.cut.is_none()).map(|last| last.seq);
        Ok(self.findings)
    }
}

/// How a row names a key: a hash that does not give it away.
fn name_of(key: &Key) -> String {
    blake3::derive_key("netsky journal heads, name of a key", key)
        .iter()
        .take(8)
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// Whether it is the machine's trouble of this moment: what is kept is there.
fn is_of_this_moment(error: &netsky_disk::Error) -> bool {
    error.is_full() || error.is_out_of_descriptors()
}

/// The key, or why there is none that reads.
///
/// # Errors
/// The disk does not hand it out: it may be whole.
fn key(dir: &Dir) -> Result<std::result::Result<Key, String>> {
    let bytes = match dir.read(KEY, 32) {
        Ok(bytes) => bytes,
        Err(ReadError::Io(error)) if !error.is_not_found() => return Err(error),
        Err(error) => return Ok(Err(error.to_string())),
    };
    Ok(Key::try_from(bytes).map_err(|bytes| format!("it has {} bytes, not 32", bytes.len())))
}

/// What a reboot leaves of the newest head: the same, said in an earlier boot.
#[cfg(test)]
pub(crate) fn of_another_boot(root: &Path) {
    let dir = Dir::open(root.join(FOLDER)).expect("there");
    let key = key(&dir).expect("reads").expect("a key");
    let mut head = Head::read(&key, &dir.read(NEWEST, LAST as u64).expect("reads")).expect("a head");
    head.boot_id = "before".to_owned();
    head.mac = head.mac_by(&key);
    std::fs::write(dir.path().join(NEWEST), head.to_line()).expect("written");
}

/// The heads of an anchor's own journal.
pub(crate) struct Heads {
    dir: Dir,
    key: Key,
    boot_id: String,
    kept: Lines,
    /// A sync of these failed, and they were not written anew since.
    unsynced: bool,
    newest: File,
}

impl Heads {
    /// Opens them, made first where there are none. A key that does not read is set aside: with another one nothing before
    /// can be judged, which the journal's opening has found and said.
    pub(crate) fn open(root: &Dir) -> Result<Heads> {
        let dir = Dir::make(root.path().join(FOLDER))?;
        let key = match key(&dir)? {
            Ok(key) => key,
            Err(_) => {
                for name in [KEY, KEPT] {
                    if dir.exists(name)? {
                        netsky_disk::state::set_aside(dir.path().join(name))?;
                    }
                }
                let key = netsky_disk::random::key();
                fs::write_durable(&Dir::make(dir.path().join("tmp"))?, &dir, KEY, &key, Place::Over)?;
                key
            }
        };
        let (kept, _torn) = Lines::open(&dir, KEPT)?;
        let newest = dir.open_file(NEWEST, OFlags::CREATE | OFlags::RDWR)?;
        dir.sync()?;
        let boot_id = netsky_disk::clock::stamp().boot_id;
        Ok(Heads { dir, key, boot_id, kept, unsynced: false, newest })
    }

    /// How a row names the key of these.
    pub(crate) fn key_name(&self) -> String {
        name_of(&self.key)
    }

    /// Whether the row of that number is synced and gets a head that is.
    pub(crate) fn is_due(seq: u64) -> bool {
        seq.is_multiple_of(STRIDE)
    }

    /// Says how far the journal is, and up to where it is synced.
    pub(crate) fn newest(&self, seq: u64, hash: &str, synced: u64) -> io::Result<()> {
        let mut line = Head::new(&self.key, seq, hash, &self.boot_id, synced, false).to_line();
        line.resize(LAST - 1, b' ');
        line.push(b'\n');
        self.newest.write_all_at(&line, 0)
    }

    /// Whether both files have a head on the disk, so that a row may name the key; `last` gets its first one.
    pub(crate) fn stand(&self, seq: u64, hash: &str, synced: u64) -> io::Result<bool> {
        if self.newest.metadata()?.len() < LAST as u64 {
            self.newest(seq, hash, synced)?;
        }
        self.newest.sync_data()?;
        Ok(self.kept.len().is_ok_and(|bytes| bytes > 0))
    }

    /// Keeps a head of a row that is synced; `anew` where what was kept before is damage that was said.
    pub(crate) fn keep(&mut self, seq: u64, hash: &str, anew: bool) -> Result<()> {
        if self.unsynced {
            self.write_anew()?;
        }
        let line = Head::new(&self.key, seq, hash, &self.boot_id, seq, anew).to_line();
        if let Err(error) = self.kept.append(&line) {
            // Half a head on a full disk would make the next one unreadable too, which is damage to whoever verifies.
            self.kept.mend()?;
            return Err(error);
        }
        self.kept.sync().or_else(|_| self.write_anew())
    }

    /// After a sync that failed: what of the file is on the disk nobody can tell any more, and another would prove nothing.
    fn write_anew(&mut self) -> Result<()> {
        self.unsynced = true;
        lines::renew(&Dir::make(self.dir.path().join("tmp"))?, &self.dir, KEPT)?;
        (self.kept, _) = Lines::open(&self.dir, KEPT)?;
        self.unsynced = false;
        Ok(())
    }
}
