//! Folders held open, and the one durable write.
//!
//! Promise: when [`write_durable`] returns, the file is there under its name, whole, after a power cut
//! at any later moment; when it fails, the name is untouched and no part of the file is left.
//! Everything goes by the descriptor of an opened folder, follows no link, and closes on exec.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::error::{Error, ReadError, Result};
use crate::sys::{self, Handle, Stat};
use crate::{clock, env, fault, process};

/// Folders are ours alone.
const FOLDER_MODE: u32 = 0o700;
/// A folder that was not touched for so long gets another time when it is touched again: file systems stamp by the tick
/// of a coarse clock.
const SETTLED: std::time::Duration = std::time::Duration::from_secs(2);
/// Files are ours alone.
const FILE_MODE: u32 = 0o600;

/// What the wall clock said, in seconds, when something happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Its bytes were written.
    pub written: i64,
    /// Anything of it changed: it was moved, say.
    pub changed: i64,
}

/// An opened folder.
#[derive(Debug)]
pub struct Dir {
    pub(crate) handle: Handle,
    path: PathBuf,
}

impl Dir {
    /// Open a folder that exists.
    ///
    /// # Errors
    /// It is no folder, a link, not ours, or open to others; nothing is changed to make it fit.
    pub fn open(path: impl AsRef<Path>) -> Result<Dir> {
        let dir = Dir::look_into(&path)?;
        let path = path.as_ref();
        let Stat { uid, mode, .. } = dir.handle.stat().map_err(|e| dir.error("look at folder", e))?;
        if uid != env::user() {
            return Err(Error::because(
                "trust folder",
                path,
                format!("it belongs to uid {uid}, not to this user"),
            ));
        }
        if mode & 0o077 != 0 {
            let why = format!("its mode {mode:04o} lets others in; make it 0700");
            return Err(Error::because("trust folder", path, why));
        }
        Ok(dir)
    }

    /// Open a folder to look at the names in it, whoever else may write there.
    ///
    /// # Errors
    /// It is no folder, or a link.
    pub fn look_into(path: impl AsRef<Path>) -> Result<Dir> {
        let path = path.as_ref();
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let handle = sys::open(None, path, flags, 0).map_err(|e| no_folder(path, e))?;
        Ok(Dir { handle, path: path.to_owned() })
    }

    /// Open a folder, made first if it is missing, its missing parents too.
    ///
    /// # Errors
    /// As [`Dir::open`], and whatever making it met.
    pub fn create(path: impl AsRef<Path>) -> Result<Dir> {
        let path = path.as_ref();
        match Dir::open(path) {
            Err(e) if e.is_not_found() => {}
            done => return done,
        }
        if sys::stat(None, holder(path), AtFlags::empty()).is_err() {
            Dir::create(holder(path))?;
        }
        Dir::made(path)
    }

    /// Open a folder, made first if it is missing. What holds it must be there: whoever works below a folder does not
    /// make that anew when somebody has removed it.
    ///
    /// # Errors
    /// As [`Dir::create`].
    pub fn make(path: impl AsRef<Path>) -> Result<Dir> {
        let path = path.as_ref();
        match Dir::open(path) {
            Err(e) if e.is_not_found() => {}
            done => return done,
        }
        Dir::made(path)
    }

    /// Open a folder that was not there a moment ago, made unless somebody was faster.
    fn made(path: &Path) -> Result<Dir> {
        Dir::make_new(path).or_else(|e| if e.is_exists() { Dir::open(path) } else { Err(e) })
    }

    /// Open a folder that this call has made: of many who try, one succeeds.
    ///
    /// # Errors
    /// It is there, or what making it met.
    pub fn make_new(path: impl AsRef<Path>) -> Result<Dir> {
        let path = path.as_ref();
        sys::mkdir(path, FOLDER_MODE).map_err(|e| Error::new("create folder", path, e))?;
        sync_folder(holder(path))?;
        Dir::open(path)
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn error(&self, op: &'static str, source: Errno) -> Error {
        Error::new(op, &self.path, source)
    }

    fn file_error(&self, op: &'static str, name: impl AsRef<OsStr>, source: Errno) -> Error {
        Error::new(op, self.path.join(name.as_ref()), source)
    }

    /// Why a name was not moved: of two folders the system does not say which one refused.
    fn not_moved(&self, name: &OsStr, to: &Dir, source: Errno) -> Error {
        match [self, to].into_iter().find(|dir| dir.handle.shut().is_some()) {
            Some(shut) if matches!(source, Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
                shut.error("change folder", source)
            }
            _ => self.file_error("move", name, source),
        }
    }

    /// # Errors
    /// That of any move into or out of it, where it is known that the folder, or its file system, lets nothing change.
    pub fn lets_change(&self) -> Result<()> {
        self.handle.shut().map_or(Ok(()), |why| Err(self.error("change folder", why)))
    }

    /// Names in it, sorted as bytes. A name that is not UTF-8 comes with U+FFFD in its place.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        Ok(self.raw_names()?.iter().map(|name| name.to_string_lossy().into_owned()).collect())
    }

    /// Names in it as they are, sorted as bytes.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn raw_names(&self) -> Result<Vec<std::ffi::OsString>> {
        let mut names = Vec::new();
        self.each_name(|name| names.push(name.to_owned()))?;
        names.sort();
        Ok(names)
    }

    fn look(&self, name: &OsStr) -> std::result::Result<Stat, Errno> {
        sys::stat(Some(&self.handle), name.as_ref(), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// As `look`; none if nothing has the name.
    fn look_if_there(&self, name: &OsStr) -> Result<Option<Stat>> {
        match self.look(name) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(self.file_error("look at", name, e)),
        }
    }

    /// What changes whenever a name comes or goes; none while that cannot be told yet: a folder that was touched just
    /// now may be touched again within the same tick of its clock.
    ///
    /// # Errors
    /// The folder cannot be looked at.
    pub fn version(&self) -> Result<Option<String>> {
        let version = self.handle.version().map_err(|e| self.error("look at folder", e))?;
        Ok(version.filter(settled).map(|(inode, written, changed)| format!("{inode}:{written}:{changed}")))
    }

    /// As [`Dir::version`], of a plain file of ours in it: what changes whenever its bytes do, or another file takes its
    /// name.
    ///
    /// # Errors
    /// It is not there or no such file, or cannot be looked at.
    pub fn file_version(&self, name: impl AsRef<OsStr>) -> Result<Option<String>> {
        let name = name.as_ref();
        let failed = |e| self.file_error("look at", name, e);
        let file = self.open_handle(name, OFlags::RDONLY)?;
        let Stat { device, size, .. } = file.stat().map_err(failed)?;
        let version = file.version().map_err(failed)?.filter(settled);
        Ok(version.map(|(inode, written, changed)| format!("{device}:{inode}:{size}:{written}:{changed}")))
    }

    /// Whether a name is there, whatever it is.
    ///
    /// # Errors
    /// The folder cannot be searched.
    pub fn exists(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        Ok(self.look_if_there(name.as_ref())?.is_some())
    }

    /// Bytes of what has a name; none if nothing has.
    ///
    /// # Errors
    /// The folder cannot be searched.
    pub fn size(&self, name: impl AsRef<OsStr>) -> Result<Option<u64>> {
        Ok(self.look_if_there(name.as_ref())?.map(|stat| stat.size))
    }

    /// When a name was last written and last changed; none if it is not there.
    ///
    /// # Errors
    /// The folder cannot be searched.
    pub fn times(&self, name: impl AsRef<OsStr>) -> Result<Option<Times>> {
        let stat = self.look_if_there(name.as_ref())?;
        Ok(stat.map(|Stat { written, changed, .. }| Times { written, changed }))
    }

    /// Whether a name is a folder's; one that is gone is none.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn is_folder(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        Ok(self.look_if_there(name.as_ref())?.is_some_and(|stat| stat.kind == FileType::Directory))
    }

    /// Whether a name could be moved to another folder as far as its own mode says: a folder must let us write it.
    ///
    /// # Errors
    /// The folder cannot be searched.
    pub fn is_movable(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        let name = name.as_ref();
        let stat = self.look_if_there(name)?;
        Ok(stat.is_some_and(|stat| stat.kind != FileType::Directory || self.handle.may_write(name)))
    }

    /// Names in it, sorted as bytes, and how long ago each was last written, in whole seconds of the wall clock.
    ///
    /// # Errors
    /// The folder cannot be read; a name that is gone meanwhile is left out.
    pub fn ages(&self) -> Result<Vec<(std::ffi::OsString, std::time::Duration)>> {
        let now = crate::clock::wall().as_second();
        let age = |written| std::time::Duration::from_secs(u64::try_from(now - written).unwrap_or(0));
        let names = self.raw_names()?.into_iter();
        Ok(names.filter_map(|name| self.look(&name).ok().map(|stat| (name, age(stat.written)))).collect())
    }

    /// Read a whole file that may have been put there by anybody with our uid.
    ///
    /// # Errors
    /// Everything that is not a regular file of ours with one name and at most `cap` bytes; none of
    /// it is read past the cap, and no pipe is waited for.
    pub fn read(&self, name: impl AsRef<OsStr>, cap: u64) -> std::result::Result<Vec<u8>, ReadError> {
        let name = name.as_ref();
        let file = match sys::open(Some(&self.handle), name.as_ref(), OFlags::RDONLY | UNTRUSTED, 0) {
            Ok(file) => file,
            // A link, a socket, a device without a driver: there, but nothing to read.
            Err(Errno::LOOP | Errno::NXIO) => return Err(ReadError::NotRegular),
            Err(e) => return Err(self.file_error("open", name, e).into()),
        };
        let size = only_ours(&file, &self.path.join(name))?;
        read_capped(&file, &self.path.join(name), size, cap)
    }

    /// Move a name to another folder (or the same) without replacing; not durable until `to` is synced.
    ///
    /// # Errors
    /// The name is gone, the new one is taken, or the system refuses.
    pub fn rename(&self, name: impl AsRef<OsStr>, to: &Dir, new: impl AsRef<OsStr>) -> Result<()> {
        self.move_by(name.as_ref(), to, new.as_ref(), RenameFlags::NOREPLACE)
    }

    /// As [`Dir::rename`], but takes the place of what has the new name.
    ///
    /// # Errors
    /// The name is gone or the system refuses.
    pub fn rename_over(&self, name: impl AsRef<OsStr>, to: &Dir, new: impl AsRef<OsStr>) -> Result<()> {
        self.move_by(name.as_ref(), to, new.as_ref(), RenameFlags::empty())
    }

    /// Have two names change places; not durable until both folders are synced.
    ///
    /// # Errors
    /// One of them is gone or the system refuses.
    pub fn exchange(&self, name: impl AsRef<OsStr>, to: &Dir, other: impl AsRef<OsStr>) -> Result<()> {
        self.move_by(name.as_ref(), to, other.as_ref(), RenameFlags::EXCHANGE)
    }

    fn move_by(&self, name: &OsStr, to: &Dir, new: &OsStr, flags: RenameFlags) -> Result<()> {
        sys::rename(&self.handle, name, &to.handle, new, flags).map_err(|e| self.not_moved(name, to, e))
    }

    /// Remove a file; one that is not there is no error. Not durable until synced.
    ///
    /// # Errors
    /// The system refuses.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        let name = name.as_ref();
        match self.handle.unlink(name) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(self.file_error("remove", name, e)),
        }
    }

    /// As [`Dir::remove`], but a folder goes too if it is empty.
    ///
    /// # Errors
    /// The system refuses.
    pub fn remove_any(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        let name = name.as_ref();
        match self.handle.unlink(name) {
            Err(Errno::ISDIR) => self.handle.rmdir(name).map(|()| true),
            Err(Errno::NOENT) => Ok(false),
            removed => removed.map(|()| true),
        }
        .map_err(|e| self.file_error("remove", name, e))
    }

    /// Make every earlier change of names in this folder durable.
    ///
    /// # Errors
    /// The system could not; what is on disk is then unknown, and a second sync proves nothing.
    pub fn sync(&self) -> Result<()> {
        self.handle.sync().map_err(|e| self.error("sync folder", e))
    }

    /// Make a file durable that something else wrote.
    ///
    /// # Errors
    /// It is not there or no plain file of ours, or the system could not.
    pub fn sync_file(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let name = name.as_ref();
        self.open_handle(name, OFlags::RDWR)?.sync().map_err(|e| self.file_error("sync", name, e))
    }

    /// Open a file for writing, made if it is missing.
    ///
    /// # Errors
    /// It is no regular file of ours with one name (what is written to it would be written elsewhere too), or the system
    /// refuses.
    pub fn open_file(&self, name: impl AsRef<OsStr>, flags: OFlags) -> Result<std::fs::File> {
        let name = name.as_ref();
        self.open_handle(name, flags)?.into_std().map_err(|e| self.file_error("open", name, e))
    }

    /// As [`Dir::open_file`], for the rest of this crate.
    pub(crate) fn open_handle(&self, name: &OsStr, flags: OFlags) -> Result<Handle> {
        let file = sys::open(Some(&self.handle), name.as_ref(), flags | UNTRUSTED, FILE_MODE)
            .map_err(|e| self.file_error("open", name, e))?;
        // What was made just now is nobody else's.
        if !flags.contains(OFlags::EXCL) {
            let path = self.path.join(name);
            only_ours(&file, &path).map_err(|e| e.on("open", &path))?;
        }
        Ok(file)
    }
}

/// Whether what is touched from now on gets another time than these.
fn settled((_inode, written, changed): &(u64, i128, i128)) -> bool {
    *written.max(changed) < (crate::clock::wall() - SETTLED).as_nanosecond()
}

/// The folder that a path is in.
fn holder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// How a file is opened that others may have put there: no link is followed, no pipe waited for.
pub(crate) const UNTRUSTED: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// The size of an opened file that is a regular one of ours under one name.
///
/// # Errors
/// It is anything else.
pub(crate) fn only_ours(file: &Handle, path: &Path) -> std::result::Result<u64, ReadError> {
    let Stat { kind, uid, links, size, .. } = file.stat().map_err(|e| Error::new("look at", path, e))?;
    if kind != FileType::RegularFile {
        return Err(ReadError::NotRegular);
    }
    if uid != env::user() {
        return Err(ReadError::Foreign { uid });
    }
    if links > 1 {
        return Err(ReadError::Linked { links });
    }
    Ok(size)
}

/// Open a file of ours to be read piece by piece, however long it is.
///
/// # Errors
/// It is no regular file of ours with one name, or the system refuses.
pub fn open_to_read(path: &Path) -> Result<std::fs::File> {
    let file =
        sys::open(None, path, OFlags::RDONLY | UNTRUSTED, 0).map_err(|e| Error::new("open", path, e))?;
    only_ours(&file, path).map_err(|e| e.on("open", path))?;
    file.into_std().map_err(|e| Error::new("open", path, e))
}

/// Whether a path leads to a folder.
pub fn is_folder(path: impl AsRef<Path>) -> bool {
    sys::stat(None, path.as_ref(), AtFlags::empty()).is_ok_and(|stat| stat.kind == FileType::Directory)
}

/// Whether a path is a folder's itself: a link to one is none.
pub fn is_real_folder(path: impl AsRef<Path>) -> bool {
    sys::stat(None, path.as_ref(), AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| stat.kind == FileType::Directory)
}

/// Whether a path is a plain file's, or nobody's; for who hands it to a library that would wait for a pipe.
///
/// # Errors
/// What the system refuses.
pub fn is_plain_or_free(path: impl AsRef<Path>) -> Result<bool> {
    let path = path.as_ref();
    match sys::stat(None, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(stat.kind == FileType::RegularFile),
        Err(Errno::NOENT) => Ok(true),
        Err(e) => Err(Error::new("look at", path, e)),
    }
}

/// Read a file that the user named: wherever it is and whoever owns it, but a plain one and bounded.
///
/// # Errors
/// It is no regular file, is over `cap` bytes, or the system refuses.
pub fn read_users_file(path: &Path, cap: u64) -> std::result::Result<Vec<u8>, ReadError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = match sys::open(None, path, flags, 0) {
        Ok(file) => file,
        Err(Errno::NXIO) => return Err(ReadError::NotRegular),
        Err(e) => return Err(Error::new("open", path, e).into()),
    };
    let stat = file.stat().map_err(|e| Error::new("look at", path, e))?;
    if stat.kind != FileType::RegularFile {
        return Err(ReadError::NotRegular);
    }
    read_capped(&file, path, stat.size, cap)
}

/// All bytes of an opened file that had `size` of them, but never more than `cap`.
fn read_capped(
    mut file: &Handle,
    path: &Path,
    size: u64,
    cap: u64,
) -> std::result::Result<Vec<u8>, ReadError> {
    let failed = |e| Error::new("read", path, e);
    if size > cap {
        return Err(ReadError::TooLarge { size, cap });
    }
    // Asked for one byte more than there are: who gets no more than that has met the end, by one call.
    let mut bytes = vec![0; size as usize + 1];
    let read = file.read(&mut bytes).map_err(failed)?;
    bytes.truncate(read);
    if read as u64 != size {
        // It changed after it was looked at. One byte more than allowed shows that it grew too far.
        file.take((cap + 1).saturating_sub(read as u64)).read_to_end(&mut bytes).map_err(failed)?;
    }
    match bytes.len() as u64 {
        size if size > cap => Err(ReadError::TooLarge { size, cap }),
        _ => Ok(bytes),
    }
}

/// What to do with a file that already has the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Refuse.
    New,
    /// Take its place.
    Over,
}

/// Write a file so that it survives: in `tmp`, synced, moved to its name, the folder synced.
///
/// `tmp` and `target` are folders of one file system. A file is synced once: after a failed sync the
/// kernel may call lost pages clean, so a retry must write again under a new name.
///
/// # Errors
/// The step that failed; the target's name is then untouched, and the file in `tmp` is removed. Only
/// when the last step fails (the folder's sync) the file may already have its name.
pub fn write_durable(tmp: &Dir, target: &Dir, name: &str, bytes: &[u8], place: Place) -> Result<()> {
    let scratch = scratch_name(name);
    let written = write_synced(tmp, &scratch, bytes).and_then(|()| match place {
        Place::New => tmp.rename(&scratch, target, name),
        Place::Over => tmp.rename_over(&scratch, target, name),
    });
    if let Err(error) = written {
        // The first error is the one to tell; a file that stays in tmp is swept later.
        let _ = tmp.remove(&scratch);
        return Err(error);
    }
    fault::point("disk.write.renamed").map_err(|e| Error::new("sync folder", target.path(), e))?;
    target.sync()
}

fn write_synced(dir: &Dir, name: &str, bytes: &[u8]) -> Result<()> {
    let file = write_unsynced(dir, name, bytes)?;
    let path = dir.path.join(name);
    fault::point("disk.write.written").map_err(|e| Error::new("sync", &path, e))?;
    file.sync().map_err(|e| Error::new("sync", &path, e))
}

/// A new file with these bytes, which nothing makes durable yet.
pub(crate) fn write_unsynced(dir: &Dir, name: &str, bytes: &[u8]) -> Result<Handle> {
    let file = dir.open_handle(name.as_ref(), OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY)?;
    (&file).write_all(bytes).map_err(|e| Error::new("write", dir.path.join(name), e))?;
    Ok(file)
}

/// Why a folder was not opened; where something else stands in its way, what.
fn no_folder(path: &Path, why: Errno) -> Error {
    if why != Errno::NOTDIR {
        return Error::new("open folder", path, why);
    }
    let is_there = |path: &&Path| sys::stat(None, path, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    let in_the_way = path.ancestors().find(is_there).unwrap_or(path);
    let why = std::io::Error::new(std::io::ErrorKind::NotADirectory, "not a folder, move it away");
    Error::new("open folder", in_the_way, why)
}

/// Sync a folder by path; for parents that are not ours to hold.
fn sync_folder(path: &Path) -> Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let folder = sys::open(None, path, flags, 0).map_err(|e| Error::new("open folder", path, e))?;
    folder.sync().map_err(|e| Error::new("sync folder", path, e))
}

/// Make the names durable by which a folder is reached, as far as they may be ours: up to its file system's root, past
/// what is not ours to read.
pub(crate) fn sync_ancestors(folder: &Path) -> Result<()> {
    let device = |path: &Path| {
        let stat = sys::stat(None, path, AtFlags::empty()).map_err(|e| Error::new("look at folder", path, e));
        stat.map(|stat| stat.device)
    };
    let own = device(folder)?;
    for parent in folder.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
        if device(parent)? != own {
            break;
        }
        match sync_folder(parent) {
            Err(e) if e.is_denied() => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// A name in a `tmp` folder that nobody else takes and that says when it was taken, on the clock that never steps: a wall
/// clock that is set while the file is written must not make it look like one that was left behind.
pub(crate) fn scratch_name(name: &str) -> String {
    let chance = crate::random::short();
    match process::known_boot_id() {
        Ok(boot) => format!("{name}.{boot}-{}-{chance}", clock::boot().as_secs()),
        // Out of descriptors. The wall clock has to judge it.
        Err(_) => format!("{name}.{chance}"),
    }
}

/// The boot and the time since boot at which a scratch name was taken; none if it does not say.
fn taken_at(name: &str) -> Option<(&str, Duration)> {
    let mut parts = name.rsplit('.').next()?.split('-');
    let (boot, secs, _chance) = (parts.next()?, parts.next()?, parts.next()?);
    (boot.len() == 8 && parts.next().is_none()).then_some((boot, Duration::from_secs(secs.parse().ok()?)))
}

/// Remove what dead writers left in a `tmp` folder; returns how many files went.
///
/// Only files older than `age` go, or of another boot: a writer may be at work.
///
/// # Errors
/// The folder cannot be read, or which boot this is; a single file that resists is skipped.
pub fn sweep_tmp(tmp: &Dir, age: Duration) -> Result<usize> {
    let (boot, now, wall) = (process::known_boot_id()?, clock::boot(), clock::wall().as_second());
    let mut strays = tmp.raw_names()?;
    strays.retain(|name| match name.to_str().and_then(taken_at) {
        Some((of, at)) => of != boot || now.saturating_sub(at) > age,
        None => tmp.look(name).is_ok_and(|stat| wall - stat.written > age.as_secs() as i64),
    });
    Ok(strays.iter().filter(|name| tmp.remove(name).unwrap_or(false)).count())
}
