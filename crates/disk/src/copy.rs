//! Files in folders that are not netsky's: the inside of the owner's repositories.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::fs::{self, Dir};

/// Write a file that is not there yet, synced; its name is durable once the folder is synced.
///
/// # Errors
/// The name is taken, or the system refuses; no part of the file is left then.
pub fn write_new(dir: &Dir, name: &str, bytes: &[u8]) -> Result<()> {
    let written = fs::write_unsynced(dir, name, bytes)
        .and_then(|file| file.sync().map_err(|e| Error::new("sync", dir.path().join(name), e)));
    if written.as_ref().is_err_and(|error| !error.is_exists()) {
        let _ = dir.remove(name);
    }
    written
}

/// As [`write_new`], where nobody misses it after a power cut.
///
/// # Errors
/// The name is taken, or the system refuses.
pub fn write_scratch(dir: &Dir, name: &str, bytes: &[u8]) -> Result<()> {
    fs::write_unsynced(dir, name, bytes).map(drop)
}

/// Copy a plain file of ours to a name that is free, synced, with the instant that it was written at: git takes a file for
/// unchanged that was written before its index.
///
/// # Errors
/// It is no such file or over `cap` bytes, the name is taken, or the system refuses.
pub fn copy_as_old(dir: &Dir, name: &str, new: &str, cap: u64) -> Result<()> {
    let failed = |e: std::io::Error| Error::new("copy", dir.path().join(name), e);
    let bytes = dir.read(name, cap).map_err(|e| e.on("copy", dir.path().join(name)))?;
    let written =
        std::fs::symlink_metadata(dir.path().join(name)).and_then(|of| of.modified()).map_err(failed)?;
    let mut file = fs::write_unsynced(dir, new, &[])?.into_std().map_err(|e| failed(e.into()))?;
    file.write_all(&bytes).and_then(|()| file.set_modified(written)).map_err(failed)?;
    file.sync_all().map_err(failed)
}

/// Read a plain file of any size in pieces; a link is none.
///
/// # Errors
/// The system refuses.
pub fn read_pieces(path: &Path, mut each: impl FnMut(&[u8])) -> Result<()> {
    let failed = |e: std::io::Error| Error::new("read", path, e);
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC | rustix::fs::OFlags::NOFOLLOW;
    let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).map_err(|e| failed(e.into()))?;
    let (mut file, mut piece) = (std::fs::File::from(file), vec![0; 1 << 20]);
    loop {
        match file.read(&mut piece).map_err(failed)? {
            0 => return Ok(()),
            length => each(&piece[..length]),
        }
    }
}

/// A file system that will be synced as a whole; for what another program writes, any number of files.
///
/// Opened before that program begins: an error of the disk is told to who had it open when it came.
#[derive(Debug)]
pub struct FileSystem {
    path: PathBuf,
    folder: std::fs::File,
}

impl FileSystem {
    /// The one that a folder is on.
    ///
    /// # Errors
    /// The folder does not open.
    pub fn of(dir: &Dir) -> Result<FileSystem> {
        let path = dir.path().to_owned();
        let folder = std::fs::File::open(&path).map_err(|e| Error::new("open", &path, e))?;
        Ok(FileSystem { path, folder })
    }

    /// Make all durable that was written to it. It waits for what others write there too.
    ///
    /// # Errors
    /// The disk could not, now or since it was opened.
    pub fn sync(&self) -> Result<()> {
        rustix::fs::syncfs(&self.folder).map_err(|e| Error::new("sync the file system of", &self.path, e))
    }
}
