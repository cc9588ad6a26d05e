//! The floors: what nobody can leave out, by bare system calls.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::fs::{Mode, OFlags, RenameFlags};

/// A text of the size of a usual message.
pub(crate) const TEXT: &str =
    "gate is green: 412 tests, 0 failures; branch task/inventory is ready to harvest";

/// Bytes of the envelope that such a text becomes, so that the floor writes as much as we do.
pub(crate) const ENVELOPE_BYTES: usize = 330;

/// Bytes of one journal row.
const ROW_BYTES: usize = 400;

/// A folder pair for the bare durable write, and a file for bare synced rows.
pub(crate) struct Folders {
    tmp: OwnedFd,
    target: OwnedFd,
    rows: OwnedFd,
}

/// Makes a folder, and opens it.
pub(crate) fn folder(path: &Path) -> Result<OwnedFd> {
    std::fs::create_dir_all(path)?;
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).with_context(|| format!("open {}", path.display()))
}

impl Folders {
    pub(crate) fn make(at: &Path) -> Result<Folders> {
        let (tmp, target) = (folder(&at.join("tmp"))?, folder(&at.join("target"))?);
        let flags = OFlags::CREATE | OFlags::APPEND | OFlags::WRONLY | OFlags::CLOEXEC;
        let rows = rustix::fs::openat(&target, "rows", flags, Mode::from_raw_mode(0o600))?;
        Ok(Folders { tmp, target, rows })
    }

    /// Create, write, fsync, rename without replace, fsync the folder.
    pub(crate) fn write(&self, round: usize) -> Result<()> {
        let name = format!("{round:020}.json");
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.tmp, &name, flags, Mode::from_raw_mode(0o600))?;
        rustix::io::write(&file, &[b'x'; ENVELOPE_BYTES])?;
        rustix::fs::fsync(&file)?;
        rustix::fs::renameat_with(&self.tmp, &name, &self.target, &name, RenameFlags::NOREPLACE)?;
        rustix::fs::fsync(&self.target)?;
        Ok(())
    }
}

impl Folders {
    /// Take what was written: rename, fsync the folder that has it then.
    pub(crate) fn take(&self, round: usize) -> Result<()> {
        let name = format!("{round:020}.json");
        rustix::fs::renameat_with(&self.target, &name, &self.tmp, &name, RenameFlags::NOREPLACE)?;
        Ok(rustix::fs::fsync(&self.tmp)?)
    }

    /// Append a row and sync its bytes.
    pub(crate) fn row(&self) -> Result<()> {
        rustix::io::write(&self.rows, &[b'x'; ROW_BYTES])?;
        Ok(rustix::fs::fdatasync(&self.rows)?)
    }
}

/// Start the smallest program there is and wait for it.
pub(crate) fn bare_process() -> Result<()> {
    let status = Command::new("/bin/true").env_clear().stdin(Stdio::null()).status().context("run true")?;
    ensure!(status.success(), "true failed");
    Ok(())
}
