//! What this crate's calls answer when they cannot do their work.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::ErrorCode;

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
    /// The database did not do what was asked.
    #[error("{op} meta.db: {source}")]
    Sql {
        /// What was tried, as a verb.
        op: &'static str,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The database is none that this program may use; it is left as it is.
    #[error("meta.db is left alone: {0}")]
    Unsuited(String),
    /// A question that may not be asked: what of it is refused.
    #[error("the record answers questions and nothing else: {0} is refused")]
    Denied(String),
    /// An ingest was to end between two batches; never leaves this crate.
    #[error("put off")]
    PutOff,
    /// A copy of the home's record that would be a part of the home itself.
    #[error("{} is in the home that it would be a copy of", .0.display())]
    Inside(PathBuf),
    /// A backup goes into a folder of its own.
    #[error("make a backup in {}: it is there already", .0.display())]
    Occupied(PathBuf),
    /// A question that takes too long.
    #[error("the question takes longer than {0:?}")]
    TooSlow(Duration),
}

/// What to do about damage in the file that facts are appended to.
pub const WAY_OUT: &str = "it is kept as it is, and takes no more facts until it is restored, or moved out of record/: the \
    record goes on without it then";

/// What our own statements are tried to: they fit the tables that this program makes.
pub(crate) const PREPARE: &str = "use the tables of";

/// What makes a database's tables, or brings them to this program's version.
pub(crate) const MIGRATE: &str = "make the tables of";

/// What a question is tried to.
pub(crate) const ASK: &str = "ask";

/// Names what was tried where SQLite refuses.
pub(crate) fn sql(op: &'static str) -> impl Fn(rusqlite::Error) -> Error + Copy {
    move |source| Error::Sql { op, source }
}

impl Error {
    fn code(&self) -> Option<ErrorCode> {
        match self {
            Error::Sql { source: rusqlite::Error::SqlInputError { error, .. }, .. } => Some(error.code),
            Error::Sql { source, .. } => source.sqlite_error_code(),
            _ => None,
        }
    }

    fn extended(&self) -> Option<i32> {
        match self {
            Error::Sql { source: rusqlite::Error::SqliteFailure(failure, _), .. } => {
                Some(failure.extended_code)
            }
            _ => None,
        }
    }

    /// Whether the database does not read, or is not as this program makes it: it can be made again.
    pub fn is_damage(&self) -> bool {
        match self.code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => true,
            // A table of ours that is not there, or another's in its place: its version says otherwise.
            Some(ErrorCode::Unknown) => matches!(self, Error::Sql { op: PREPARE | MIGRATE, .. }),
            _ => false,
        }
    }

    /// Whether it is the trouble of one file, and lasts: a bad sector, another owner, a later format.
    pub fn is_of_one_file(&self) -> bool {
        match self {
            Error::Disk(error) => error.is_of_one_file(),
            Error::Newer { .. } => true,
            _ => false,
        }
    }

    /// Whether the database failed by itself, and not for somebody who holds it or for want of room.
    pub(crate) fn is_of_the_database(&self) -> bool {
        matches!(self, Error::Sql { .. }) && !self.is_busy() && !self.is_full()
    }

    /// Whether this user may not write the database, or open it.
    pub fn is_denied(&self) -> bool {
        match self {
            Error::Disk(error) => error.is_denied(),
            _ if self.is_unfinished() => false,
            _ => matches!(self.code(), Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied)),
        }
    }

    /// Whether this process had too many files open to go on.
    pub fn is_out_of_descriptors(&self) -> bool {
        matches!(self, Error::Disk(error) if error.is_out_of_descriptors())
    }

    /// Whether SQLite could not open a file; it does not say why.
    pub(crate) fn is_unopened(&self) -> bool {
        self.code() == Some(ErrorCode::CannotOpen)
    }

    /// Whether whoever made the database was killed before it was one: who only reads cannot put back what is half done.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.extended() == Some(rusqlite::ffi::SQLITE_READONLY_ROLLBACK)
    }

    /// Whether somebody else holds the database.
    pub fn is_busy(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Whether the disk had no room for the database. SQLite says so of its pages, not of what it keeps beside them.
    pub fn is_full(&self) -> bool {
        use rusqlite::ffi::{SQLITE_FULL, SQLITE_IOERR_SHMSIZE};
        match self {
            Error::Disk(error) => error.is_full(),
            _ => self.extended().is_some_and(|code| [SQLITE_FULL, SQLITE_IOERR_SHMSIZE].contains(&code)),
        }
    }

    /// Whether SQLite does not understand the question, or what it asks for is too large.
    pub fn is_wrong_question(&self) -> bool {
        let asked = matches!(self, Error::Sql { op: ASK, .. });
        asked && !self.is_damage() && !self.is_busy() && self.code() != Some(ErrorCode::OutOfMemory)
    }

    /// Whether it is this row that the database does not take, and the next may fare better.
    pub(crate) fn is_of_one_row(&self) -> bool {
        use ErrorCode::{
            AuthorizationForStatementDenied, ConstraintViolation, TooBig, TypeMismatch, Unknown,
        };
        let code = self.code();
        matches!(
            code,
            Some(ConstraintViolation | TooBig | TypeMismatch | AuthorizationForStatementDenied | Unknown)
        )
    }
}
