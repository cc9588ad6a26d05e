//! A file of rows that is derived from others: rewritten in place, never synced, and of no use to who finds it torn. Its
//! reader says by its first bytes whether it is whole.

use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::fs::Dir;
use crate::sys::Handle;

/// Longest file that is read: rows of some million things.
const CAP: u64 = 256 * 1024 * 1024;

/// Such a file, opened.
#[derive(Debug)]
pub struct Rows {
    file: Handle,
    path: PathBuf,
}

impl Rows {
    /// Opens it; an empty one is made where there is none.
    ///
    /// # Errors
    /// It is no plain file of ours, or the system refuses.
    pub fn open(folder: &Dir, name: &str) -> Result<Rows> {
        let file = folder.open_handle(name.as_ref(), OFlags::CREATE | OFlags::RDWR)?;
        Ok(Rows { file, path: folder.path().join(name) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Everything that is in it; nothing of one that is too long.
    ///
    /// # Errors
    /// The system refuses.
    pub fn read(&self) -> Result<Vec<u8>> {
        let size = self.file.stat().map_err(|e| Error::new("look at", &self.path, e))?.size;
        let mut bytes = vec![0; if size > CAP { 0 } else { size as usize }];
        self.file.read_exact_at(&mut bytes, 0).map_err(|e| Error::new("read", &self.path, e))?;
        Ok(bytes)
    }

    /// Writes over what is at a place, or behind the end.
    ///
    /// # Errors
    /// The system refuses; what is there then may be torn.
    pub fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.file.write_all_at(bytes, at).map_err(|e| Error::new("write", &self.path, e))
    }

    /// Ends it there.
    ///
    /// # Errors
    /// The system refuses.
    pub fn cut(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(|e| Error::new("write", &self.path, e))
    }
}
