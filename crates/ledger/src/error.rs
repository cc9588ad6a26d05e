//! What this crate's calls answer when they cannot do their work.

use std::path::PathBuf;

/// What every call of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something was not recorded or not read back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk said no.
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
    /// Somebody has held the record's lock for too long.
    #[error("{} is held by another process", .0.display())]
    Busy(PathBuf),
    /// The chain of the facts does not hold; the file is kept as it is.
    #[error("{} is damaged: line {line} {why}", path.display())]
    Broken {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A later program wrote it; this one must not append.
    #[error("{} is in format {found}, newer than this program", path.display())]
    Newer {
        /// Which file.
        path: PathBuf,
        /// The version found.
        found: u64,
    },
    /// A row that no reader would take.
    #[error("a fact of {bytes} bytes is over the limit of {cap}")]
    TooLong {
        /// Bytes of the row.
        bytes: usize,
        /// Bytes allowed.
        cap: usize,
    },
    /// A kind or a key that is none.
    #[error("{0:?} is no kind or key of a fact")]
    Invalid(String),
}
