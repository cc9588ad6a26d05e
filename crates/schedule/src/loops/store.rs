//! The folder of loops: read, changed under one lock, and the index kept in step.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::time::Duration;

use netsky_disk::fs::{Dir, Place, write_durable};
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{ReadError, clock, random};
use netsky_model::id::EnvelopeId;
use netsky_model::stamp::Stamp;

use super::entry::{BROKEN, Loop, LoopId, VERSION, located};
use super::index::{Index, Row, hash, tag};
use crate::Coming;

/// Largest file of a loop.
pub const MAX_FILE: u64 = 72 * 1024;
/// Longest wait for whoever changes loops now: a tick lets go after each few of them.
const PATIENCE: Duration = Duration::from_secs(10);
/// After so long each file is looked at again: one that was edited in place changes no folder.
const RESCAN: Duration = Duration::from_secs(10 * 60);
/// The index, beside the ticks.
const INDEX: &str = "loops.index";
/// How a file of a loop ends.
const TOML: &str = ".toml";

/// Why a loop could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk refuses.
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
    /// Somebody else changes loops.
    #[error("somebody else changes loops since {} s", PATIENCE.as_secs())]
    Busy,
    /// There is no such loop.
    #[error("there is no {0}")]
    Unknown(LoopId),
    /// Its file is none.
    #[error("{0}")]
    Broken(Broken),
}

/// Result of the store.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// A file that is no loop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {why}")]
pub struct Broken {
    /// Its name in `state/loops/`.
    pub name: String,
    /// Line, column and reason, on one line.
    pub why: String,
    /// What becomes of it.
    pub fate: Fate,
}

/// What becomes of a file that is no loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is put out of the way.
    Aside,
    /// A newer program wrote it: it stays.
    Stays,
    /// It cannot be read now: the next look may fare better.
    Unread,
}

/// The loops of a home, for whoever changes them.
pub struct Store {
    folder: Dir,
    tmp: Dir,
    index: Index,
    /// Whether the index is of the folder, but for what is changed here.
    is_in_step: bool,
    /// The folder as it was when it was opened, or as the last change here left it: as another it was changed by others.
    left: Option<u64>,
    now: Stamp,
    boot: u32,
    lock: Lock,
}

impl Store {
    /// Opens it, alone.
    ///
    /// # Errors
    /// Somebody else has it for long, or the system refuses.
    pub fn open(layout: &Layout) -> Result<Store> {
        let lock = Lock::take_within(layout.loops_lock(), PATIENCE)?.ok_or(Error::Busy)?;
        let folder = Dir::make(layout.loops())?;
        let tmp = Dir::make(layout.loops().join("tmp"))?;
        let now = clock::stamp();
        // Derived: without it each file is looked at.
        let index = Dir::make(layout.tick_folder()).and_then(|tick| Index::open(&tick, INDEX, &now));
        let index = index.unwrap_or_else(|_| Index::nowhere(&now));
        let left = version(&folder);
        let is_in_step = index.is_of(left);
        let boot = tag(&now.boot_id);
        Ok(Store { folder, tmp, index, is_in_step, left, now, boot, lock })
    }

    /// When it was opened: everything that is done with it is done then.
    pub fn now(&self) -> &Stamp {
        &self.now
    }

    /// A loop.
    ///
    /// # Errors
    /// There is none of that name, or its file is none.
    pub fn get(&self, id: LoopId) -> Result<Loop> {
        get(&self.folder, id)
    }

    /// Makes a loop; false if there is one of its name.
    ///
    /// # Errors
    /// What the system refuses; there is none then.
    pub fn create(&mut self, entry: &Loop) -> Result<bool> {
        match self.write(entry, Place::New) {
            Err(error) if error.is_exists() => Ok(false),
            written => Ok(written.map(|()| true)?),
        }
    }

    /// Saves a loop, durably.
    ///
    /// # Errors
    /// What the system refuses; the one before stays.
    pub fn save(&mut self, entry: &Loop) -> Result<()> {
        Ok(self.write(entry, Place::Over)?)
    }

    fn write(&mut self, entry: &Loop, place: Place) -> netsky_disk::Result<()> {
        let name = entry.id.file();
        let refused = |why: String| netsky_disk::Error::because("write", self.folder.path().join(&name), why);
        let text = entry.text().map_err(|e| refused(e.to_string()))?;
        if text.len() as u64 > MAX_FILE {
            let why =
                format!("it would have {} bytes, and one of more than {MAX_FILE} is not read", text.len());
            return Err(refused(why));
        }
        self.step_out();
        write_durable(&self.tmp, &self.folder, &name, text.as_bytes(), place)?;
        let file = version_of(&self.folder, name.as_ref())?;
        self.put(Row::of(entry, file));
        Ok(())
    }

    /// Removes a loop.
    ///
    /// # Errors
    /// There is none of that name, or the system refuses.
    pub fn remove(&mut self, id: LoopId) -> Result<()> {
        self.step_out();
        if !self.folder.remove(id.file())? {
            return Err(Error::Unknown(id));
        }
        self.folder.sync()?;
        self.put(Row::asleep(id, 0));
        Ok(())
    }

    /// What was edited by hand is read anew.
    ///
    /// # Errors
    /// There is no such loop, or its file is none.
    pub fn touched(&mut self, id: LoopId) -> Result<Loop> {
        let entry = self.get(id)?;
        self.step_out();
        let file = version_of(&self.folder, id.file().as_ref())?;
        self.put(Row::of(&entry, file));
        Ok(entry)
    }

    /// What is due, the earliest first, and the files that were found to be none since the last time.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn due(&mut self) -> Result<(Vec<LoopId>, Vec<Broken>)> {
        let broken = self.look()?;
        let due = self.index.rows.iter().filter(|row| row.is_due(&self.now, self.boot));
        let mut due: Vec<(Option<u64>, LoopId)> =
            due.map(|row| (row.left_ms(&self.now, self.boot), row.id)).collect();
        due.sort();
        Ok((due.into_iter().map(|(_, id)| id).collect(), broken))
    }

    /// Puts a file that is no loop out of the way, where it stays for people.
    ///
    /// # Errors
    /// The system refuses.
    pub fn put_aside(&mut self, broken: &Broken) -> netsky_disk::Result<()> {
        self.step_out();
        let aside = Dir::make(self.folder.path().join(BROKEN))?;
        match self.folder.rename(&broken.name, &aside, &broken.name) {
            Err(error) if error.is_exists() => {
                self.folder.rename(&broken.name, &aside, format!("{}.{}", broken.name, random::short()))?;
            }
            moved => moved?,
        }
        self.left = version(&self.folder);
        aside.sync()?;
        self.folder.sync()
    }

    /// Leaves word in the lock that whoever saw to what is due came to the end of it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn note_end(&mut self) -> netsky_disk::Result<()> {
        self.lock.note(&self.now)
    }

    /// Says that the index is of the folder as it was left. Without that the next one who opens it looks at each file.
    ///
    /// # Errors
    /// The system refuses; nothing is lost.
    pub fn close(mut self) -> netsky_disk::Result<()> {
        // Of the folder as the last change here left it: what others did since shows.
        let is_behind = self.is_in_step && !self.index.is_of(self.left);
        if is_behind { self.index.seal(self.left) } else { Ok(()) }
    }

    /// Before a change: who dies behind it leaves an index of no folder, and so does who finds that others changed it.
    fn step_out(&mut self) {
        // Where it cannot be written, the folder is another than the one it says by the change.
        self.is_in_step &= version(&self.folder) == self.left && self.index.open_up().is_ok();
    }

    fn put(&mut self, row: Row) {
        self.left = version(&self.folder);
        if self.is_in_step {
            let place = self.index.rows.iter().position(|old| old.id == row.id);
            // What cannot be noted is found by the next look at all.
            self.is_in_step = self.index.put(place, row).is_ok();
        }
    }

    /// What writers left that were killed: nobody else writes now.
    fn sweep(&self) {
        for name in self.tmp.raw_names().unwrap_or_default() {
            let _ = self.tmp.remove(&name);
        }
    }

    /// Reads what changed since the index was written.
    fn look(&mut self) -> Result<Vec<Broken>> {
        let age = self.now.boot_ms.saturating_sub(self.index.scanned_ms);
        if self.is_in_step && u128::from(age) < RESCAN.as_millis() {
            return Ok(Vec::new());
        }
        self.sweep();
        let known: HashMap<LoopId, Row> = self.index.rows.iter().map(|row| (row.id, *row)).collect();
        let (mut rows, mut broken) = (Vec::new(), Vec::new());
        let folder = version(&self.folder);
        for name in self.folder.raw_names()? {
            let Some(text) = named(&name) else { continue };
            let Ok(id) = text.trim_end_matches(TOML).parse::<LoopId>() else {
                broken.extend(no_loop(&name));
                continue;
            };
            // One that is gone meanwhile was none.
            let Ok(file) = version_of(&self.folder, &name) else { continue };
            if let Some(row) = known.get(&id).filter(|row| row.file == file && file != 0) {
                rows.push(*row);
                continue;
            }
            match read(&self.folder, text) {
                Ok(None) => {}
                Ok(Some(entry)) => rows.push(Row::of(&entry, file)),
                Err(flaw) => {
                    rows.push(Row::asleep(id, if flaw.fate == Fate::Unread { 0 } else { file }));
                    broken.push(flaw);
                }
            }
        }
        let is_all = broken.iter().all(|one| one.fate != Fate::Unread);
        let folder = folder.filter(|_| is_all);
        let written = self.index.replace(rows, self.now.boot_ms).and_then(|()| self.index.seal(folder));
        // What is in memory is right, whatever became of the file.
        self.is_in_step = written.is_ok() && is_all;
        self.left = folder;
        Ok(broken)
    }
}

/// The names of files that were put out of the way.
pub fn set_aside(layout: &Layout) -> Vec<String> {
    let names = Dir::open(layout.loops().join(BROKEN)).and_then(|aside| aside.raw_names());
    names.unwrap_or_default().iter().map(|name| name.to_string_lossy().into_owned()).collect()
}

/// The name of a file that should be a loop.
fn named(name: &OsStr) -> Option<&str> {
    let text = name.to_str()?;
    // What an editor or a writer leaves beside it is none of ours.
    (text.ends_with(TOML) && !text.starts_with('.')).then_some(text)
}

fn no_loop(name: &OsStr) -> Option<Broken> {
    let name = name.to_str()?.to_owned();
    let why = "its name is not loop-<8 hex digits>.toml".to_owned();
    Some(Broken { name, why, fate: Fate::Aside })
}

/// None where the file system does not say.
fn version(folder: &Dir) -> Option<u64> {
    folder.version_now().ok().flatten().map(|version| hash(&version))
}

/// 0 where the file system does not say: it is read each time.
fn version_of(folder: &Dir, name: &OsStr) -> netsky_disk::Result<u64> {
    Ok(folder.name_version_now(name)?.map_or(0, |version| hash(&version)))
}

fn get(folder: &Dir, id: LoopId) -> Result<Loop> {
    match read(folder, &id.file()) {
        Ok(None) => Err(Error::Unknown(id)),
        Ok(Some(entry)) => Ok(entry),
        Err(broken) => Err(Error::Broken(broken)),
    }
}

/// One loop. Nothing is changed, and nobody is waited for.
///
/// # Errors
/// There is none of that name, or its file is none.
pub fn read_one(layout: &Layout, id: LoopId) -> Result<Loop> {
    match Dir::open(layout.loops()) {
        Err(error) if error.is_not_found() => Err(Error::Unknown(id)),
        opened => get(&opened?, id),
    }
}

/// Reads a file; none if it is not there.
fn read(folder: &Dir, name: &str) -> std::result::Result<Option<Loop>, Broken> {
    let broken = |why: String, fate| Broken { name: name.to_owned(), why, fate };
    let bytes = match folder.read(name, MAX_FILE) {
        Ok(bytes) => bytes,
        Err(ReadError::Io(error)) if error.is_not_found() => return Ok(None),
        Err(ReadError::Io(error)) => return Err(broken(error.to_string(), Fate::Unread)),
        // Another's, a link, a bomb.
        Err(error) => return Err(broken(error.to_string(), Fate::Aside)),
    };
    let text =
        String::from_utf8(bytes).map_err(|_| broken("it is not UTF-8 text".to_owned(), Fate::Aside))?;
    let newer = toml::from_str::<Version>(&text).ok().filter(|version| version.v > VERSION);
    if let Some(Version { v }) = newer {
        return Err(broken(format!("it is of version {v}, newer than this program"), Fate::Stays));
    }
    let entry: Loop = toml::from_str(&text).map_err(|error| broken(located(&text, &error), Fate::Aside))?;
    if entry.id.file() != name {
        return Err(broken(format!("its id is {}, and its name another", entry.id), Fate::Aside));
    }
    match entry.flaw() {
        Some(flaw) => Err(broken(flaw, Fate::Aside)),
        None => Ok(Some(entry)),
    }
}

#[derive(serde::Deserialize)]
struct Version {
    v: u64,
}

/// Whether there is any file of a loop: without one nobody has to look for what is due.
pub fn is_any(layout: &Layout) -> bool {
    let mut any = false;
    let listed =
        Dir::open(layout.loops()).and_then(|folder| folder.each_name(|name| any |= named(name).is_some()));
    // A folder that does not read is looked at, which says why.
    any || listed.is_err_and(|error| !error.is_not_found())
}

/// What changes whenever a loop is made, saved or removed; none where that cannot be told.
pub fn changes(layout: &Layout) -> Option<String> {
    Dir::open(layout.loops()).and_then(|folder| folder.version_now()).ok().flatten()
}

/// When the first loop comes that was not due at `since`, by the index alone.
pub fn coming(layout: &Layout, since: &Stamp) -> Coming {
    let index = Dir::open(layout.tick_folder()).and_then(|tick| Index::open(&tick, INDEX, since));
    // In this order: whoever changes a loop changes the folder before the index.
    let folder = Dir::open(layout.loops()).ok().and_then(|folder| version(&folder));
    match index {
        Ok(index) if index.is_of(folder) => {
            let left = index.rows.iter().filter_map(|row| row.left_ms(since, tag(&since.boot_id)));
            Coming::first(left.map(Duration::from_millis))
        }
        _ => Coming::Unknown,
    }
}

/// Every loop, those that come first first, and what is none. Nothing is changed, and nobody is waited for.
///
/// # Errors
/// The folder cannot be listed; one that is not there has none.
pub fn read_all(layout: &Layout) -> netsky_disk::Result<(Vec<Loop>, Vec<Broken>)> {
    let folder = match Dir::open(layout.loops()) {
        Err(error) if error.is_not_found() => return Ok(Default::default()),
        opened => opened?,
    };
    let (mut loops, mut broken) = (Vec::new(), Vec::new());
    for name in folder.raw_names()? {
        let Some(text) = named(&name) else { continue };
        match read(&folder, text) {
            Ok(entry) => loops.extend(entry),
            Err(flaw) => broken.push(flaw),
        }
    }
    loops.sort_by_key(|entry: &Loop| (entry.next_fire_utc, entry.id));
    Ok((loops, broken))
}

/// How many instants of a loop passed while this envelope of it was not read; none of another one.
pub(crate) fn missed(layout: &Layout, id: &str, envelope: &EnvelopeId) -> Option<u64> {
    let entry = read_one(layout, id.parse().ok()?).ok()?;
    (entry.last_id.as_ref() == Some(envelope) && entry.missed > 0).then_some(entry.missed)
}

#[cfg(test)]
#[path = "tests/store.rs"]
mod tests;
