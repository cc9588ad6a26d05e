//! Locks: flock on files that are never unlinked.
//!
//! Why flock: it ends with the last descriptor, so a killed holder never blocks anybody; the
//! descriptor closes on exec, so no child keeps it. Why never unlinked: a file that is removed and made
//! again is another file, and two processes would each hold "the" lock. What the file holds is advice
//! for people and for the deadline of a stuck holder; the lock itself is the truth.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock;
use crate::error::{Error, Result};
use crate::fs::{Dir, UNTRUSTED, only_ours};
use crate::identity::FileId;
use crate::sys::{self, Handle};

/// Pause between two tries of a lock that is waited for: flock has no time limit of its own.
const RETRY: Duration = Duration::from_millis(20);
/// How long [`Lock::take`] waits: what it is for takes milliseconds, so this is a stopped holder or a stuck disk.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// What is failed to do where that was not enough.
pub(crate) const WAIT: &str = "wait for lock";
/// Most bytes of a holder's note.
const NOTE_CAP: u64 = 4096;

/// A held lock; released when dropped or when the process dies.
#[derive(Debug)]
pub struct Lock {
    file: Handle,
    path: PathBuf,
}

impl Lock {
    /// Take the lock if nobody has it.
    ///
    /// # Errors
    /// The file cannot be opened or locked; that somebody has it is `Ok(None)`.
    pub fn try_take(path: impl AsRef<Path>) -> Result<Option<Lock>> {
        let path = path.as_ref();
        locked(open(path, OFlags::CREATE | OFlags::RDWR)?, path)
    }

    /// Take the lock, waiting at most `limit`.
    ///
    /// # Errors
    /// As [`Lock::try_take`]; `Ok(None)` when it is still held.
    pub fn take_within(path: impl AsRef<Path>, limit: Duration) -> Result<Option<Lock>> {
        within(limit, || Lock::try_take(&path))
    }

    /// Take the lock of a folder itself, waiting at most `limit`: it need not be ours, and nothing is left in it.
    ///
    /// # Errors
    /// It is no folder, or cannot be locked; `Ok(None)` when it is still held.
    pub fn of_folder_within(path: impl AsRef<Path>, limit: Duration) -> Result<Option<Lock>> {
        within(limit, || locked(Dir::look_into(&path)?.handle, path.as_ref()))
    }

    /// Take the lock, waiting ten seconds; for locks that are only held for a few writes.
    ///
    /// # Errors
    /// The file cannot be opened or locked, or somebody keeps it: [`Error::is_kept`].
    pub fn take(path: impl AsRef<Path>) -> Result<Lock> {
        let kept = format!("another process has had it for {} s", PATIENCE.as_secs());
        Lock::take_within(&path, PATIENCE)?.ok_or_else(|| Error::because(WAIT, &path, kept))
    }

    /// Where it was taken.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file that is locked still has its name; for the few that are removed when their time is over, and
    /// for who works below a folder that anybody may remove or move. Whoever finds that it has not takes the lock again,
    /// or goes: what has the path now is not its own.
    ///
    /// # Errors
    /// The file or its folder cannot be looked at.
    pub fn has_its_name(&self) -> Result<bool> {
        let failed = |e| Error::new("look at lock", &self.path, e);
        let own = self.file.stat().map_err(failed)?;
        Ok(FileId::at(&self.path)? == Some(FileId::of(&own)))
    }

    /// Leave a note about the holder in the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn note<T: Serialize>(&mut self, holder: &T) -> Result<()> {
        let failed = |e: std::io::Error| Error::new("write lock note", &self.path, e);
        let mut text = serde_json::to_vec(holder).map_err(|e| failed(e.into()))?;
        // Over what is there, which needs no room on a disk that has none; and all of it at once: whoever dies in between leaves
        // no note that does not read.
        let size = self.file.stat().map_err(|e| failed(e.into()))?.size.min(NOTE_CAP) as usize;
        text.resize(text.len().max(size), b' ');
        self.file.write_all_at(&text, 0).map_err(failed)
    }

    /// What the file says; for locks whose file holds a decision of the holder before.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn content(&self) -> Result<Vec<u8>> {
        let failed = |e: std::io::Error| Error::new("read", &self.path, e);
        let len = self.file.stat().map_err(|e| failed(e.into()))?.size.min(NOTE_CAP);
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        Ok(bytes)
    }

    /// Make what the file says durable, whoever wrote it; not its name. Of one whose sync failed before it proves nothing.
    ///
    /// # Errors
    /// The system could not.
    pub fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|e| Error::new("sync", &self.path, e))
    }

    /// Replace what the file says, durably but for its name. A torn write must not read as a decision: that is the
    /// caller's format to ensure.
    ///
    /// # Errors
    /// It cannot be written or synced.
    pub fn keep(&mut self, bytes: &[u8]) -> Result<()> {
        let failed = |e: std::io::Error| Error::new("write", &self.path, e);
        self.file.set_len(0).map_err(|e| failed(e.into()))?;
        self.file.write_all_at(bytes, 0).map_err(failed)?;
        self.sync()
    }

    /// Put another file with these bytes in the place of the one that is locked, and hold that: of a file whose sync may
    /// have failed a second sync proves nothing, nor of its name. Durable once the folder is synced. Whoever waits for the
    /// former file finds that it has its name no more.
    ///
    /// # Errors
    /// The step that failed; the former file then has its name still, and is held.
    pub fn renew(&mut self, tmp: &Dir, folder: &Dir, bytes: &[u8]) -> Result<()> {
        let name = self.path.file_name().unwrap_or_default().to_owned();
        let scratch = crate::fs::scratch_name(&name.to_string_lossy());
        let renewed = tmp
            .open_handle(scratch.as_ref(), OFlags::CREATE | OFlags::EXCL | OFlags::RDWR)
            .and_then(|file| {
                let failed = |e: std::io::Error| Error::new("write", tmp.path().join(&scratch), e);
                file.write_all_at(bytes, 0).map_err(failed)?;
                file.sync().map_err(|e| failed(e.into()))?;
                // Held before anybody can find it.
                file.lock(FlockOperation::NonBlockingLockExclusive).map_err(|e| failed(e.into()))?;
                tmp.rename_over(&scratch, folder, &name)?;
                Ok(file)
            });
        match renewed {
            Ok(file) => self.file = file,
            Err(error) => {
                let _ = tmp.remove(&scratch);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The note that is in the file, held or not; none if there is none that reads.
    pub fn noted<T: DeserializeOwned>(path: impl AsRef<Path>) -> Option<T> {
        Lock::read_note(path).ok().flatten()
    }

    /// The same for who must not take trouble for "nobody": none if there is no file, or none whose text is a note.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub fn read_note<T: DeserializeOwned>(path: impl AsRef<Path>) -> Result<Option<T>> {
        let path = path.as_ref();
        let file = match open(path, OFlags::RDONLY) {
            Err(e) if e.is_not_found() => return Ok(None),
            opened => opened?,
        };
        let mut text = Vec::new();
        (&file).take(NOTE_CAP).read_to_end(&mut text).map_err(|e| Error::new("read lock", path, e))?;
        Ok(serde_json::from_slice(&text).ok())
    }

    /// Whether somebody holds it now.
    ///
    /// # Errors
    /// The file cannot be opened; a missing file is a lock that nobody holds.
    pub fn is_held(path: impl AsRef<Path>) -> Result<bool> {
        let path = path.as_ref();
        let file = match open(path, OFlags::RDONLY) {
            Err(e) if e.is_not_found() => return Ok(false),
            opened => opened?,
        };
        // A shared lock disturbs no other looker. It is gone with the descriptor, but for that moment it keeps a
        // `try_take` out: whoever must have the lock waits a little with `take_within`.
        match file.lock(FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(e) => Err(Error::new("look at lock", path, e)),
        }
    }
}

/// The lock on a file that goes from folder to folder: whoever has it moves the file, and nobody else does meanwhile.
///
/// It hangs on the file, not on a name, so it is only good together with the name: it is taken first, and the name looked
/// at after.
#[derive(Debug)]
pub struct Hold {
    _file: Handle,
}

/// What came of reaching for a file.
#[derive(Debug)]
pub enum Seized {
    /// It is held, and has the name.
    Held(Hold),
    /// Another process holds it.
    Busy,
    /// Nothing has the name.
    Gone,
}

impl Hold {
    /// Take hold of the file that has a name.
    ///
    /// # Errors
    /// The file cannot be opened, locked or looked at.
    pub fn take(dir: &Dir, name: &str) -> Result<Seized> {
        match dir.open_handle(name.as_ref(), OFlags::RDONLY) {
            Err(e) if e.is_not_found() => Ok(Seized::Gone),
            opened => Hold::of(opened?, dir, name),
        }
    }

    /// Take hold of a file that had the name when it was opened.
    fn of(file: Handle, dir: &Dir, name: &str) -> Result<Seized> {
        let failed = |e| Error::new("lock", dir.path().join(name), e);
        match file.lock(FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if dir.exists(name)? => Ok(Seized::Held(Hold { _file: file })),
            Ok(()) => Ok(Seized::Gone),
            Err(Errno::WOULDBLOCK) => Ok(Seized::Busy),
            Err(e) => Err(failed(e)),
        }
    }

    /// As [`Hold::take`], waiting at most `limit` for who holds it.
    ///
    /// # Errors
    /// As [`Hold::take`].
    pub fn take_within(dir: &Dir, name: &str, limit: Duration) -> Result<Seized> {
        let until = clock::boot() + limit;
        loop {
            match Hold::take(dir, name)? {
                Seized::Busy if clock::boot() < until => clock::pause(RETRY),
                seized => return Ok(seized),
            }
        }
    }
}

/// Ask until a lock is ours, for at most so long.
fn within(limit: Duration, ask: impl Fn() -> Result<Option<Lock>>) -> Result<Option<Lock>> {
    let until = clock::boot() + limit;
    loop {
        match ask()? {
            None if clock::boot() < until => clock::pause(RETRY),
            said => return Ok(said),
        }
    }
}

/// The lock of what is open; none if somebody has it.
fn locked(file: Handle, path: &Path) -> Result<Option<Lock>> {
    match file.lock(FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Lock { file, path: path.to_owned() })),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(e) => Err(Error::new("lock", path, e)),
    }
}

fn open(path: &Path, flags: OFlags) -> Result<Handle> {
    let file =
        sys::open(None, path, flags | UNTRUSTED, 0o600).map_err(|e| Error::new("open lock", path, e))?;
    only_ours(&file, path).map_err(|e| e.on("open lock", path))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_moved_on_between_its_opening_and_its_lock_is_gone() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::create(temp.path().join("dir")).unwrap();
        std::fs::write(dir.path().join("x"), "").unwrap();
        let opened = || dir.open_handle("x".as_ref(), OFlags::RDONLY).unwrap();
        let (one, other) = (opened(), opened());
        assert!(matches!(Hold::of(one, &dir, "x").unwrap(), Seized::Held(_)));
        dir.rename("x", &dir, "y").unwrap();
        assert!(matches!(Hold::of(other, &dir, "x").unwrap(), Seized::Gone));
    }
}
