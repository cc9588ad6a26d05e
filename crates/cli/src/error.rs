//! What a verb answers when it could not do its work: a kind (the exit code), one fragment, and what to do about it.
//!
//! Errors of the crates below become this type here and nowhere else, so that the exit codes of `formats.md` are decided
//! in one file.

use std::fmt;

/// How a verb ended badly; the number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(dead_code, reason = "the table of exit codes is whole before every verb that uses it exists")]
pub(crate) enum Kind {
    /// Failed, nothing lost.
    Failed = 1,
    /// Words this program does not understand: a bad id, an oversized text.
    Usage = 2,
    /// No such agent, envelope or session.
    NotFound = 3,
    /// Permission, an unknown target, a reserved sender.
    Refused = 4,
    /// Busy, full or timed out; safe to repeat.
    Busy = 5,
    /// Done, but the record of it is incomplete.
    Degraded = 6,
    /// Damaged state was found and quarantined.
    Damaged = 7,
}

/// One line for standard error and an exit code.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) kind: Kind,
    what: String,
    hint: Option<String>,
}

impl Error {
    /// An error that says what failed, in a lower-case fragment that names operation, object and place.
    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), hint: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}
