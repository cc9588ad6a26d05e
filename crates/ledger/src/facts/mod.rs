//! `record/facts-<n>.jsonl`: what exists in no other file, appended under one lock and synced before it is said.
//!
//! Promise: when an append returns, the fact is there after `kill -9` and a power cut; when it fails, nothing was
//! appended. Each is decided after all earlier ones are applied: the lock is taken, the tail is repaired and checked
//! against its chain, then the decision is made, then the row is written. A broken chain is never appended to: the file
//! stays as it is. A file that could not be synced is not synced again: the row goes into a new one, which says where
//! the former ended. Nor is one that another process may have failed to sync: it is written anew under its own name.
//! Leaves to others: what a kind means, and answering questions about many of them (the ingester).

mod latest;
mod read;
mod row;
mod tail;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use serde_json::Value;

use crate::error::{Error, Result};
use tail::{Known, Tail};

pub use latest::{Latest, latest};
pub use read::{FactFile, Mark, end_of_facts, facts, facts_after, files};
pub(crate) use read::{file, file_name, numbers, torn};
pub(crate) use row::End;
pub use row::Fact;

/// A file that would grow past this is sealed: every append reads and checks the file it appends to.
const FILE_BYTES: u64 = 1024 * 1024;

/// How long the lock is waited for: it is held for one write and one sync.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The kind of the rows that the record writes about itself.
const OWN: &str = "record";

/// Appends facts to one home.
#[derive(Debug, Clone)]
pub struct Facts {
    layout: Layout,
    /// What the last append of this process left: a flood of dead letters must not read the record once for each.
    known: Arc<Mutex<Option<Known>>>,
}

/// What became of a fact that is recorded at most once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Its place among all facts.
    pub seq: u64,
    /// It was there already, and is as durable as if it had been appended now.
    pub repeated: bool,
}

impl Facts {
    /// The facts of the home at `layout`; opens nothing yet.
    pub fn new(layout: &Layout) -> Facts {
        Facts { layout: layout.clone(), known: Arc::default() }
    }

    /// Appends a fact; returns its place among all facts.
    ///
    /// # Errors
    /// Nothing was appended: the lock is held, the chain is broken, the row is too long, or the disk refuses.
    pub fn append(&self, kind: &str, key: &str, data: Value) -> Result<u64> {
        self.under_lock(LOCK_WAIT, kind, key, |tail| tail.append(kind, key, data))
    }

    /// As [`Facts::append`], unless there is one of that kind and key already.
    ///
    /// # Errors
    /// As [`Facts::append`].
    pub fn append_once(&self, kind: &str, key: &str, data: Value) -> Result<Appended> {
        self.append_once_within(LOCK_WAIT, kind, key, data)
    }

    /// As [`Facts::append_once`], waiting at most `limit` for the lock.
    pub(crate) fn append_once_within(
        &self,
        limit: Duration,
        kind: &str,
        key: &str,
        data: Value,
    ) -> Result<Appended> {
        self.under_lock(limit, kind, key, |tail| {
            if let Some(seq) = tail.find(kind, key)? {
                // As durable as can be: the last file is this process's own by now, and was its sealer's before that.
                return Ok(Appended { seq, repeated: true });
            }
            Ok(Appended { seq: tail.append(kind, key, data)?, repeated: false })
        })
    }

    /// As [`Facts::append_once`], for who records often, and twice only what it recorded last: what lies further back than the last
    /// two files is not looked at.
    ///
    /// # Errors
    /// As [`Facts::append`].
    pub fn append_once_lately(&self, kind: &str, key: &str, data: Value) -> Result<Appended> {
        self.under_lock(LOCK_WAIT, kind, key, |tail| match tail.find_lately(kind, key)? {
            Some(seq) => Ok(Appended { seq, repeated: true }),
            None => Ok(Appended { seq: tail.append(kind, key, data)?, repeated: false }),
        })
    }

    /// Decides what is recorded, with nobody appending meanwhile: `act` sees every earlier fact applied, and appends what comes of
    /// them, or nothing.
    ///
    /// # Errors
    /// What `act` says, and as [`Facts::append`].
    pub fn decide<T, E: From<Error>>(
        &self,
        act: impl FnOnce(&mut Deciding<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.locked(LOCK_WAIT, |tail| act(&mut Deciding { tail }))
    }

    fn under_lock<T>(
        &self,
        limit: Duration,
        kind: &str,
        key: &str,
        act: impl FnOnce(&mut Tail) -> Result<T>,
    ) -> Result<T> {
        fits(kind, key)?;
        self.locked(limit, act)
    }

    fn locked<T, E: From<Error>>(
        &self,
        limit: Duration,
        act: impl FnOnce(&mut Tail) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let (_held, mut tail, mut known) = self.open(limit)?;
        let done = act(&mut tail)?;
        // After an error nothing is known: the next append reads everything.
        *known = tail.known();
        Ok(done)
    }

    /// The lock, the end of the facts below it, and what is known of them from before.
    fn open(&self, limit: Duration) -> Result<(Lock, Tail, MutexGuard<'_, Option<Known>>)> {
        let record = Dir::make(self.layout.record())?;
        let path = self.layout.record_lock();
        let held = Lock::take_within(&path, limit)?.ok_or(Error::Busy(path))?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let tail = Tail::open(record, known.take())?;
        Ok((held, tail, known))
    }
}

/// The record while one decision is made.
pub struct Deciding<'a> {
    tail: &'a mut Tail,
}

impl Deciding<'_> {
    /// As [`latest()`].
    ///
    /// # Errors
    /// The same.
    pub fn latest(&self, family: &str) -> Result<Latest> {
        latest::latest_of(self.tail.record(), family)
    }

    /// Appends facts, each a kind, a key and the rest, with one sync for all; returns the place of the last. None is appended where
    /// it fails; a kill in the middle leaves the first of them.
    ///
    /// # Errors
    /// As [`Facts::append`].
    pub fn append(&mut self, facts: &[(&str, &str, Value)]) -> Result<u64> {
        facts.iter().try_for_each(|(kind, key, _)| fits(kind, key))?;
        self.tail.append_all(facts)
    }
}

fn fits(kind: &str, key: &str) -> Result<()> {
    if row::is_kind(kind) && row::is_key(key) {
        return Ok(());
    }
    Err(Error::Invalid(format!("{kind} {key}")))
}
