//! One error for every outside effect: what was tried, on what, and what the system said.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// What every call of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// An outside effect that did not happen.
#[derive(Debug, thiserror::Error)]
#[error("{op} {}: {source}", path.display())]
pub struct Error {
    /// The operation, as a verb: reads after "failed to".
    pub op: &'static str,
    /// What it was done to.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl Error {
    /// Wrap what the system said.
    pub fn new(op: &'static str, path: impl AsRef<Path>, source: impl Into<io::Error>) -> Error {
        Error { op, path: path.as_ref().to_owned(), source: source.into() }
    }

    /// An error with our own words instead of the system's.
    pub fn because(op: &'static str, path: impl AsRef<Path>, why: impl Into<String>) -> Error {
        Error::new(op, path, io::Error::other(why.into()))
    }

    /// The same trouble, told once more.
    pub fn again(&self) -> Error {
        let source = match self.source.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(self.source.kind(), self.source.to_string()),
        };
        Error { op: self.op, path: self.path.clone(), source }
    }

    /// Whether the object was not there.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// A file was there and did not read.
    pub fn damaged(path: impl AsRef<Path>, why: impl Into<String>) -> Error {
        Error::because(crate::state::UNDERSTAND, path, why)
    }

    /// Whether a file was there and did not read: damaged, not newer.
    pub fn is_damage(&self) -> bool {
        self.op == crate::state::UNDERSTAND
    }

    /// Whether a lock stayed with another process for longer than its work takes.
    pub fn is_kept(&self) -> bool {
        self.op == crate::lock::WAIT
    }

    /// Whether something stands where a folder would have to be, or a link to one.
    pub fn is_no_folder(&self) -> bool {
        let is_link = self.source.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
        is_link || self.source.kind() == io::ErrorKind::NotADirectory
    }

    /// Whether the object was there already.
    pub fn is_exists(&self) -> bool {
        self.source.kind() == io::ErrorKind::AlreadyExists
    }

    /// Whether the system says that this user may not.
    pub fn is_denied(&self) -> bool {
        self.source.kind() == io::ErrorKind::PermissionDenied
    }

    /// Whether there was no room: the disk, a quota, a limit on files.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(self.source.kind(), StorageFull | QuotaExceeded | FileTooLarge)
    }

    /// EMFILE and ENFILE, which have no kind of their own.
    pub fn is_out_of_descriptors(&self) -> bool {
        self.is_one_of(&[Errno::MFILE, Errno::NFILE])
    }

    /// Whether the machine had nothing left for it, which passes: room, descriptors, or a lock.
    pub fn is_busy(&self) -> bool {
        self.is_full() || self.is_out_of_descriptors() || self.is_kept()
    }

    /// Whether the next file may fare better: the trouble is this file's, not the machine's.
    pub fn is_of_one_file(&self) -> bool {
        self.is_denied()
            || self.is_one_of(&[
                Errno::IO,
                Errno::BUSY,
                Errno::ISDIR,
                Errno::XDEV,
                Errno::NAMETOOLONG,
                Errno::BADMSG,
                Errno::UCLEAN,
                Errno::NOTEMPTY,
            ])
    }

    pub(crate) fn is_one_of(&self, numbers: &[Errno]) -> bool {
        let number = self.source.raw_os_error();
        number.is_some_and(|number| numbers.iter().any(|errno| errno.raw_os_error() == number))
    }
}

/// For whoever may only say an [`io::Error`]: its kind stays, so that a full disk is still known as one.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(error.source.kind(), error)
    }
}

/// Why a file that somebody dropped was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] Error),
    /// A folder, a pipe, a socket, a device or a symbolic link.
    #[error("not a regular file")]
    NotRegular,
    /// Owned by somebody else.
    #[error("owned by uid {uid}, not by this user")]
    Foreign {
        /// The owner.
        uid: u32,
    },
    /// Has a second name somewhere, under which it could change.
    #[error("has {links} hard links")]
    Linked {
        /// How many names.
        links: u64,
    },
    /// Larger than the caller reads.
    #[error("{size} bytes are over the limit of {cap}")]
    TooLarge {
        /// Bytes found.
        size: u64,
        /// Bytes allowed.
        cap: u64,
    },
}

impl ReadError {
    /// As an error of what was tried with the file at `path`, which should be one of ours; with the way out.
    pub fn on(self, op: &'static str, path: impl AsRef<Path>) -> Error {
        let way_out = match &self {
            ReadError::Io(_) => "",
            ReadError::NotRegular => ", move it away or put a plain file in its place",
            ReadError::Foreign { .. } => ", make it yours with chown",
            ReadError::Linked { .. } => ", put a copy of it in its place",
            ReadError::TooLarge { .. } => ", move it away",
        };
        match self {
            ReadError::Io(error) => error,
            other => Error::because(op, path.as_ref(), format!("{other}{way_out}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enospc_a_full_disk_is_known_through_an_io_error() {
        let full = Error::new("write", "/a", rustix::io::Errno::NOSPC);
        let passed_on = Error::new("tell", "/b", io::Error::from(full));
        assert!(passed_on.is_full(), "{passed_on}");
    }
}
