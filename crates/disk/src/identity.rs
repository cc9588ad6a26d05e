//! Which file a path leads to: whoever works below a path sees by it that the path leads elsewhere by now.

use std::ffi::OsStr;
use std::path::Path;

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::fs::Dir;
use crate::sys::{self, Stat};

/// Which of a machine's files it is, whatever its names. Another one may get the number of one that is gone and that
/// nobody has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// What has a path now, itself and not what it may link to; none if nothing has.
    ///
    /// # Errors
    /// Its folder cannot be searched.
    pub fn at(path: impl AsRef<Path>) -> Result<Option<FileId>> {
        let path = path.as_ref();
        match sys::stat(None, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileId::of(&stat))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(e) => Err(Error::new("look at", path, e)),
        }
    }

    pub(crate) fn of(stat: &Stat) -> FileId {
        FileId { device: stat.device, inode: stat.inode }
    }
}

impl Dir {
    /// What tells a plain file of ours from others that had its name and its bytes: its number, and when it was written.
    /// It stays with the file through renames and crashes, on file systems that keep a file's number. One that gives out
    /// numbers as it goes (some of FUSE, overlays before a copy up) may tell one file from itself: it is sent twice then,
    /// and never not at all. None where the file system does not say.
    ///
    /// # Errors
    /// It is not there or no such file, or cannot be looked at.
    pub fn file_mark(&self, name: impl AsRef<OsStr>) -> Result<Option<String>> {
        let name = name.as_ref();
        let file = self.open_handle(name, OFlags::RDONLY)?;
        let version = file.version().map_err(|e| Error::new("look at", self.path().join(name), e))?;
        Ok(version.map(|(inode, written, _)| format!("{inode}:{written}")))
    }

    /// As [`Dir::version`], also of what was touched just now: for whoever changes it under a lock that others heed.
    ///
    /// # Errors
    /// As there.
    pub fn version_now(&self) -> Result<Option<String>> {
        let version = self.handle.version().map_err(|e| Error::new("look at folder", self.path(), e))?;
        Ok(version.map(|(inode, written, changed)| format!("{inode}:{written}:{changed}")))
    }

    /// What changes whenever the bytes of a name do, or something else takes it, also of what was touched just now; it is
    /// not opened, whatever it is. None where the file system does not say.
    ///
    /// # Errors
    /// It is not there, or the folder cannot be searched.
    pub fn name_version_now(&self, name: impl AsRef<std::ffi::OsStr>) -> Result<Option<String>> {
        let failed = |e| Error::new("look at", self.path().join(name.as_ref()), e);
        let version = self.handle.version_of(name.as_ref()).map_err(failed)?;
        Ok(version.map(|(inode, size, written, changed)| format!("{inode}:{size}:{written}:{changed}")))
    }

    /// As [`Dir::file_version`], also of what was touched just now: for the file's one writer, who expects no other within
    /// the same tick of its clock. None where the file system does not say.
    ///
    /// # Errors
    /// As there.
    pub fn file_version_now(&self, name: &str) -> Result<Option<String>> {
        let failed = |e| Error::new("look at", self.path().join(name), e);
        let file = self.open_handle(name.as_ref(), OFlags::RDONLY)?;
        let Stat { device, size, .. } = file.stat().map_err(failed)?;
        let version = file.version().map_err(failed)?;
        Ok(version.map(|(inode, written, changed)| format!("{device}:{inode}:{size}:{written}:{changed}")))
    }
}
