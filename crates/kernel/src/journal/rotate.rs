//! Sealing the file that is written to, and going on in a new one.
//!
//! Promise: whatever a rotation dies of, every row is in one file, under the name of the journal or under that of a sealed
//! one; the next anchor takes an unfinished one back and tries again. One that was refused (a full disk) costs nothing: the
//! anchor goes on in the same file and tries again later. Nothing is removed.
//!
//! The order, each step durable before the next: the next file under a name of its own; the journal under its sealed name;
//! the next file under the journal's.

use netsky_disk::fault;
use netsky_disk::fs::{self, Dir, Place};
use netsky_disk::layout::{JOURNAL, NEXT_JOURNAL, Sealed};

use super::parts::{Checkpoint, Fold, Part};
use super::{Draft, Journal, JournalError, open_lines, row};
use crate::log::say;
use crate::rpc::{EventKind, event_data};

/// Bytes after which one that was refused is tried again.
const AGAIN: u64 = 1024 * 1024;

/// Gives a journal that was sealed by a rotation which did not come to its end its name back.
pub(super) fn take_back(root: &Dir) -> netsky_disk::Result<()> {
    if root.exists(JOURNAL)? {
        return Ok(());
    }
    let Some(newest) = Sealed::all(root)?.pop() else { return Ok(()) };
    say!("there is no {JOURNAL}: {} becomes it again", newest.name());
    root.rename(newest.name(), root, JOURNAL)
}

impl Journal {
    /// Seals the file when it is full and goes on in a new one, which begins with what `fold` knows: every row so far.
    pub(crate) fn rotate_if_full(&mut self, fold: &impl Fold) {
        if self.len < self.full_at || self.torn || self.unsynced.is_some() || !self.waiting.is_empty() {
            // What waits is known and has no row: a checkpoint would say what no row says.
            return;
        }
        if let Err(error) = self.rotate(fold) {
            self.full_at = self.len + AGAIN;
            say!("the journal was not sealed: {error}");
        }
    }

    pub(crate) fn rotate(&mut self, fold: &impl Fold) -> Result<(), JournalError> {
        if !self.folder.exists(JOURNAL)? {
            let why = "this root was removed";
            return Err(netsky_disk::Error::because("seal", &self.path, why).into());
        }
        // Also where no heads are kept: nobody repairs the end of a sealed file.
        self.sync_or_end()?;
        self.synced = self.seq;
        self.keep_head(false);
        self.is_sound()?;
        let sealed = Sealed { first: self.first, last: self.seq };
        let (checkpoint, link) = Checkpoint::line(self.seq, &fold.checkpoint(), &self.hash);
        let told = event_data::Rotated { sealed: sealed.name(), heads: self.heads_key() };
        let data = serde_json::to_value(told).unwrap_or_default();
        let event = self.event(&Draft { kind: EventKind::Rotated, about: None, data });
        let (line, hash) = row(&event, &link);
        let bytes = [&checkpoint[..], b"\n", &line, b"\n"].concat();
        let tmp = Dir::make(self.folder.path().join("tmp"))?;
        fs::write_durable(&tmp, &self.folder, NEXT_JOURNAL, &bytes, Place::Over)?;
        self.folder.rename(JOURNAL, &self.folder, sealed.name())?;
        if let Err(error) = self.give_name() {
            if let Err(error) = self.folder.rename(sealed.name(), &self.folder, JOURNAL) {
                self.unsynced = Some(format!("it is {} and could not be named back: {error}", sealed.name()));
            }
            return Err(error);
        }
        if let Err(error) = self.folder.sync() {
            self.unsynced = Some(error.to_string());
            return Err(error.into());
        }
        // Without it nothing would be appended to the right file: the next row opens it.
        match open_lines(&self.folder, &self.path) {
            Ok(file) => self.file = file,
            Err(_) => self.torn = true,
        }
        if let Some(part) = self.parts.last_mut() {
            part.sealed = Some(sealed);
        }
        self.parts.push(Part::new(None));
        self.begins_after(sealed.last, checkpoint.len() as u64 + 1);
        let event = self.took(event, hash, line.len(), true);
        self.unfolded.push(event);
        self.keep_head(false);
        Ok(())
    }

    fn give_name(&self) -> Result<(), JournalError> {
        self.folder.sync()?;
        fault::point("anchor.journal.sealed")
            .map_err(|error| netsky_disk::Error::new("name", self.folder.path().join(NEXT_JOURNAL), error))?;
        Ok(self.folder.rename(NEXT_JOURNAL, &self.folder, JOURNAL)?)
    }

    /// The file that is written to has a checkpoint of that many bytes and its rows behind that one.
    pub(super) fn begins_after(&mut self, last: u64, checkpoint: u64) {
        self.first = last + 1;
        self.len = checkpoint;
        self.full_at = checkpoint + self.limit;
    }
}
