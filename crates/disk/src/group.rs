//! Many durable files for little more than the price of one.
//!
//! Promise: as [`fs::write_durable`](crate::fs::write_durable), file by file, when [`place`] returns; the answer of each
//! says whether *that* file is there for ever.
//!
//! Why it is durable: nothing is left out, it is only put in another order. Every file is written whole in its `tmp`,
//! fsynced by itself, and renamed after its own fsync; every target folder is fsynced after the last rename into it.
//! fsync and rename mean the same on every file system, so no belief about journals is needed.
//!
//! Why it is cheap: a folder's fsync covers all names that came before, so a group needs one and not one a file; and
//! fsyncs that are under way at the same time share one commit of the journal and one flush of the device, on every file
//! system that has a journal. So they are called from a few threads. No whole file system is synced here (`syncfs`): that
//! would wait for what others write. Ranges are not synced without their inodes (`sync_file_range`): that proves nothing.

use crate::error::{Error, Result};
use crate::fs::{self, Dir};
use crate::sys::{self, Handle};

/// Most files that are open at once: a quarter of the usual limit of descriptors.
const MAX_OPEN: usize = 256;

/// Fsyncs under way at once. More share no better: a commit takes what came while the one before it was written.
const SYNCERS: usize = 16;

/// Files for which one more thread pays; a few are synced by the caller alone.
const FILES_A_SYNCER: usize = 8;

/// One file to place.
#[derive(Debug)]
pub struct Item<'a> {
    /// Where it is written before it has its name; of the target's file system.
    pub tmp: &'a Dir,
    /// Where it gets its name.
    pub target: &'a Dir,
    /// The name; one that is taken is refused.
    pub name: String,
    /// All of it.
    pub bytes: Vec<u8>,
}

/// A file in `tmp` that waits for its name.
struct Written {
    scratch: String,
    file: Handle,
}

/// Places files in their order; one answer each. A file that fails stops none behind it.
///
/// # Errors
/// For each: as [`fs::write_durable`](crate::fs::write_durable). When a folder's sync fails, all that were just placed in
/// it are answered with that error; they may be there.
pub fn place(items: &[Item<'_>]) -> Vec<Result<()>> {
    let mut answers: Vec<Result<()>> = Vec::with_capacity(items.len());
    while answers.len() < items.len() {
        let rest = &items[answers.len()..];
        answers.extend(wave(&rest[..rest.len().min(MAX_OPEN)]));
    }
    sync_folders(items, &mut answers);
    answers
}

/// Writes, syncs and names as many of the items as can be open at once, and at least one.
fn wave(items: &[Item<'_>]) -> Vec<Result<()>> {
    let mut written = Vec::new();
    for item in items {
        match write(item) {
            // What is open is closed by the end of this wave; the next one goes on here.
            Err(error) if error.is_out_of_descriptors() && !written.is_empty() => break,
            other => written.push(other),
        }
    }
    let synced = sync_files(items, written);
    items.iter().zip(synced).map(|(item, synced)| name(item, synced)).collect()
}

fn write(item: &Item<'_>) -> Result<Written> {
    let scratch = fs::scratch_name(&item.name);
    match fs::write_unsynced(item.tmp, &scratch, &item.bytes) {
        Ok(file) => Ok(Written { scratch, file }),
        Err(error) => {
            let _ = item.tmp.remove(&scratch);
            Err(error)
        }
    }
}

/// Syncs each file once, from several threads where there are many; answers each file's scratch name.
fn sync_files(items: &[Item<'_>], written: Vec<Result<Written>>) -> Vec<Result<String>> {
    let files: Vec<&Handle> = written.iter().flatten().map(|written| &written.file).collect();
    let threads = (files.len() / FILES_A_SYNCER).clamp(1, SYNCERS);
    let mut synced = sys::sync_all(&files, threads).into_iter();
    let answer = |(item, written): (&Item<'_>, Result<Written>)| {
        let Written { scratch, .. } = written?;
        match synced.next().expect("one answer a file") {
            Ok(()) => Ok(scratch),
            Err(e) => {
                let _ = item.tmp.remove(&scratch);
                Err(Error::new("sync", item.tmp.path().join(scratch), e))
            }
        }
    };
    items.iter().zip(written).map(answer).collect()
}

fn name(item: &Item<'_>, synced: Result<String>) -> Result<()> {
    let scratch = synced?;
    let named = item.tmp.rename(&scratch, item.target, &item.name);
    if named.is_err() {
        // The first error is the one to tell; a file that stays in tmp is swept later.
        let _ = item.tmp.remove(&scratch);
    }
    named
}

/// Syncs each target once, after all its names.
fn sync_folders(items: &[Item<'_>], answers: &mut [Result<()>]) {
    let mut seen: Vec<&Dir> = Vec::new();
    for item in items {
        if seen.iter().any(|dir| std::ptr::eq(*dir, item.target)) {
            continue;
        }
        seen.push(item.target);
        let mine = |(at, other): (usize, &Item<'_>)| std::ptr::eq(other.target, item.target).then_some(at);
        let placed: Vec<usize> = items.iter().enumerate().filter_map(mine).collect();
        if placed.iter().all(|at| answers[*at].is_err()) {
            continue;
        }
        let synced = crate::fault::point("disk.group.named")
            .map_err(|e| Error::new("sync folder", item.target.path(), e))
            .and_then(|()| item.target.sync());
        if let Err(error) = synced {
            for at in placed.into_iter().filter(|at| answers[*at].is_ok()).collect::<Vec<_>>() {
                answers[at] = Err(error.again());
            }
        }
    }
}
