//! `owed`: room set aside in the root, for kills that the journal has no room for.
//!
//! A kill frees things, so it must work where the disk is full; and what was killed must stay down, whoever dies next. The
//! file is made while there is room and written over in place, which takes none on file systems that write in place (on one
//! that does not, and where the file could not be made, the kill is only known to this anchor). The next anchor reads it
//! before it judges any session. A row that is here although the journal has it by now says the same again.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

use netsky_disk::ReadError;
use netsky_disk::fs::{self, Dir, Place};
use netsky_model::id::{AgentId, Generation, LineageId};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::About;
use crate::log::say;
use crate::rpc::{Event, EventKind};

/// Below the root.
const NAME: &str = "owed";
/// Version of a line.
const VERSION: u64 = 1;
/// Bytes of the file: some four hundred kills before there is room again.
const SIZE: usize = 64 * 1024;
/// Room that is left when it is made: to set aside the last of a disk is to fill it.
const LEAVES: u64 = 8 * SIZE as u64;

/// What is set aside.
pub(super) struct Owed {
    /// The root, whatever has its path by now.
    root: Dir,
    /// Bytes of the file that say something.
    used: usize,
    /// Whose kills are written nowhere.
    only_known: BTreeSet<AgentId>,
}

/// One kill.
#[derive(Serialize, Deserialize)]
struct Line {
    v: u64,
    session: AgentId,
    lineage: LineageId,
    generation: Generation,
}

impl Owed {
    /// Opens what a former anchor set aside, and says whose kills are in it.
    ///
    /// # Errors
    /// It does not read: whoever does not know who is to stay down must bring nobody back.
    pub(super) fn open(root: Dir) -> netsky_disk::Result<(Owed, Vec<About>)> {
        let mut owed = Owed { root, used: 0, only_known: BTreeSet::new() };
        let bytes = match owed.root.read(NAME, SIZE as u64) {
            Ok(bytes) => bytes,
            Err(ReadError::Io(error)) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(error.on("read", owed.root.path().join(NAME))),
        };
        owed.used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        // One that does not read was never answered: its anchor died over it.
        let lines = bytes[..owed.used].split(|byte| *byte == b'\n');
        let lines = lines.filter_map(|line| serde_json::from_slice(line).ok());
        let kills =
            lines.map(|Line { session, lineage, generation, .. }| About { session, lineage, generation });
        let kills = kills.collect();
        Ok((owed, kills))
    }

    /// The file, where it is there whole.
    fn file(&self) -> Option<File> {
        let whole = self.root.size(NAME).ok().flatten() == Some(SIZE as u64);
        whole.then(|| self.root.open_file(NAME, OFlags::RDWR).ok()).flatten()
    }

    /// Sets the room aside, if it is not and there is enough.
    pub(super) fn set_aside(&self) {
        let room = || netsky_disk::room(self.root.path()).is_ok_and(|room| room > LEAVES);
        if self.used > 0 || self.file().is_some() || !room() {
            return;
        }
        // Written, not only set aside: a hole in a file keeps no room.
        let made = Dir::make(self.root.path().join("tmp"))
            .and_then(|tmp| fs::write_durable(&tmp, &self.root, NAME, &[0; SIZE], Place::Over));
        if let Err(error) = made {
            say!("no room is set aside for kills on a full disk: {error}");
        }
    }

    /// Notes a kill durably; where it cannot be, this anchor alone knows of it.
    pub(super) fn note(&mut self, about: &About) {
        let About { session, lineage, generation } = about.clone();
        let line = Line { v: VERSION, session, lineage, generation };
        let mut bytes = serde_json::to_vec(&line).expect("plain data with string keys becomes JSON");
        // Behind a line of which only a part was written this one is one of its own.
        bytes.insert(0, b'\n');
        bytes.push(b'\n');
        let fits = self.used + bytes.len() <= SIZE;
        let written = self.file().filter(|_| fits).map(|file| {
            file.write_all_at(&bytes, self.used as u64)?;
            file.sync_data()
        });
        match written {
            Some(Ok(())) => self.used += bytes.len(),
            Some(Err(error)) => {
                say!("the kill of {} is written nowhere: {error}", about.session);
                self.only_known.insert(about.session.clone());
            }
            None => {
                self.only_known.insert(about.session.clone());
            }
        }
    }

    /// Whose kills are written nowhere.
    pub(super) fn only_known(&self) -> impl Iterator<Item = &AgentId> {
        self.only_known.iter()
    }

    /// Somebody else has written of the kill of a session.
    pub(super) fn is_known(&mut self, session: &AgentId) {
        self.only_known.remove(session);
    }

    /// Whether the kill of a session is written nowhere.
    pub(super) fn is_only_known(&self, session: &AgentId) -> bool {
        self.only_known.contains(session)
    }

    /// Forgets: the journal has it all.
    pub(super) fn clear(&mut self) {
        self.only_known.clear();
        if self.used == 0 {
            return;
        }
        match self.file().map(|file| file.write_all_at(&vec![0; self.used], 0)) {
            // Unsynced: what comes back with the power says nothing that the journal does not.
            Some(Ok(())) | None => self.used = 0,
            Some(Err(error)) => say!("what was owed to the journal stays noted: {error}"),
        }
    }
}

/// What a kill that is owed means already.
pub(super) fn killed(about: &About, epoch: u64) -> Event {
    Event {
        seq: 0,
        ts: netsky_disk::clock::wall(),
        epoch,
        kind: EventKind::Kill,
        session: Some(about.session.clone()),
        lineage: Some(about.lineage.clone()),
        generation: Some(about.generation),
        data: Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::stage::{rows, session};
    use crate::anchor::state::{Anchor, about};
    use crate::anchor::{kill, root};
    use crate::session::Keeper;

    #[test]
    fn fm_kill_enospc_a_kill_that_is_owed_is_known_to_the_next_anchor_and_gets_its_row() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("root");
        Anchor::new(root::claim(&path).expect("a fresh root")).flush();
        let kills = ["agent7", "agent8"].map(|name| about(&session(name, Keeper::Anchor)));
        let owed = || Owed::open(Dir::open(&path).expect("there")).expect("reads");
        let (mut owed_then, none) = owed();
        assert_eq!(none, []);
        kills.iter().for_each(|about| owed_then.note(about));
        assert_eq!(owed_then.only_known().count(), 0, "room was set aside");
        let next = Anchor::new(root::claim(&path).expect("nobody serves it"));
        assert!(kills.iter().all(|about| kill::asked_before(&next, about)), "before there is a row");
        next.pay();
        assert_eq!(rows(&next), [EventKind::Kill, EventKind::Kill]);
        assert_eq!(owed().1, [], "they are owed no more");
    }

    #[test]
    fn fm_kill_eio_an_anchor_that_cannot_read_what_is_owed_brings_nobody_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("root");
        Anchor::new(root::claim(&path).expect("a fresh root")).flush();
        let about = about(&session("agent7", Keeper::Anchor));
        Owed::open(Dir::open(&path).expect("there")).expect("reads").0.note(&about);
        // What somebody else can reach is not trusted; a disk that fails is no different.
        let (file, link) = (path.join(NAME), path.join("link"));
        std::fs::hard_link(&file, &link).expect("linked");
        let before = std::fs::read(&file).expect("reads");
        let refused = root::claim(&path).err().expect("nobody knows who is to stay down").to_string();
        assert!(refused.contains(NAME), "{refused}");
        assert_eq!(std::fs::read(&file).expect("reads"), before);
        std::fs::remove_file(link).expect("removed");
        let next = Anchor::new(root::claim(&path).expect("nobody serves it"));
        assert!(kill::asked_before(&next, &about));
    }
}
