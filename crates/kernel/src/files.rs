//! How many files the kernel's own processes may hold open.
//!
//! Promise: an anchor and its workers, which outlive the shell they came from, are not held to the few that this shell
//! allowed itself: they take all that the system grants it. Programs start with what the shell had, as if nothing stood
//! between.

use std::path::Path;
use std::sync::OnceLock;

use netsky_disk::{Error, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::log::say;

/// The least an anchor serves with: itself, a few sessions, their starts and those who ask.
const FEWEST: u64 = 64;

/// The soft limit that this process was started with.
static INHERITED: OnceLock<u64> = OnceLock::new();

/// Refuses where the system grants too few to serve a root.
pub(crate) fn enough(root: &Path) -> Result<()> {
    match getrlimit(Resource::Nofile).maximum {
        Some(few) if few < FEWEST => {
            let why = format!(
                "the hard limit of open files is {few} and it needs {FEWEST}; \
                 start it from a shell whose `ulimit -Hn` is higher"
            );
            Err(Error::because("serve", root, why))
        }
        _ => Ok(()),
    }
}

/// Takes all that the system grants; what this process starts has it too.
pub fn take_all() {
    let limit = getrlimit(Resource::Nofile);
    if let Some(soft) = limit.current.filter(|_| limit.current != limit.maximum) {
        match setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
            // A second call would only see the first one's.
            Ok(()) => drop(INHERITED.set(soft)),
            Err(error) => say!("raise the limit of open files: {error}"),
        }
    }
}

/// What the limit was before [`take_all`]; none if it is the same.
pub(crate) fn inherited() -> Option<u64> {
    INHERITED.get().copied()
}

/// Gives the calling process, a program about to be, the limit of the shell; async-signal-safe.
pub(crate) fn give_back(soft: u64) -> rustix::io::Result<()> {
    setrlimit(Resource::Nofile, Rlimit { current: Some(soft), ..getrlimit(Resource::Nofile) })
}
