//! `state/cron-state.toml`: what the tick keeps of the entries, written by the tick alone.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::{Error, state};
use netsky_model::id::EnvelopeId;
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};

use super::file::EntryId;
use crate::Coming;

/// Version that this program writes.
const VERSION: u64 = 1;

/// All that is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// Format version.
    pub v: u64,
    /// A look at both clocks: by how far they are apart a later one sees that the calendar's was set.
    pub looked: Option<Stamp>,
    /// The owner's file does not read.
    pub unread: Option<Unread>,
    /// What is kept of each entry.
    #[serde(default)]
    pub entries: BTreeMap<String, Known>,
}

/// Since when the owner's file does not read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unread {
    /// When that was seen first.
    pub since: Stamp,
    /// Whether he was told.
    pub paged: bool,
}

/// What is kept of one entry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// Schedule and zone that all of this is of.
    pub schedule: String,
    /// The next time, or the one that is due.
    pub next_fire_utc: Option<Timestamp>,
    /// When it fired last.
    pub last_fire_utc: Option<Timestamp>,
    /// For which time that was.
    pub last_slot_utc: Option<Timestamp>,
    /// What was said then: while that waits nothing else is.
    #[serde(default)]
    pub last_id: Option<EnvelopeId>,
    /// Times that have passed since without an envelope of their own, those included that its envelope tells of.
    #[serde(default)]
    pub missed: u64,
    /// Those of them that no envelope stands for yet.
    #[serde(default)]
    pub untold: u64,
    /// What keeps the one that is due from being told.
    pub last_error: Option<String>,
}

/// Why nothing was read.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The system refuses.
    #[error(transparent)]
    Disk(#[from] Error),
    /// It says nothing.
    #[error("state/cron-state.toml is damaged: {0}")]
    Damaged(String),
    /// A newer program wrote it.
    #[error("state/cron-state.toml is of version {0}, newer than this program")]
    Newer(u64),
}

impl Kept {
    /// Read it; a home without has nothing kept.
    ///
    /// # Errors
    /// It is there and cannot be used.
    pub fn read(layout: &Layout) -> Result<Kept, Unusable> {
        #[derive(Deserialize)]
        struct Version {
            v: u64,
        }
        let empty = Kept { v: VERSION, ..Kept::default() };
        let Some(bytes) = state::read(layout.cron_state())? else { return Ok(empty) };
        let damaged = |why: &dyn std::fmt::Display| Unusable::Damaged(why.to_string().replace('\n', " "));
        let text = std::str::from_utf8(&bytes).map_err(|error| damaged(&error))?;
        match toml::from_str::<Version>(text) {
            Ok(Version { v }) if v > VERSION => return Err(Unusable::Newer(v)),
            Ok(_) => {}
            Err(error) => return Err(damaged(&error.message())),
        }
        toml::from_str(text).map_err(|error| damaged(&error.message()))
    }

    /// Replace it durably.
    ///
    /// # Errors
    /// The system refuses.
    pub fn write(&self, layout: &Layout) -> Result<(), Error> {
        let path = layout.cron_state();
        let text =
            toml::to_string(self).map_err(|error| Error::because("encode", &path, error.to_string()))?;
        state::write(path, text.as_bytes())
    }

    /// What is kept of an entry.
    pub fn of(&self, id: &EntryId) -> Option<&Known> {
        self.entries.get(id.as_str())
    }
}

/// What changes whenever the owner's file does, and what the tick keeps; none where that cannot be told.
pub fn changes(layout: &Layout) -> [Option<String>; 2] {
    [layout.cron(), layout.cron_state()].map(|path| {
        let folder = Dir::open(path.parent()?).ok()?;
        folder.name_version_now(path.file_name()?).ok()?
    })
}

/// When the first entry comes that was not due at `since`, by what the last tick kept.
pub fn coming(layout: &Layout, since: &Stamp) -> Coming {
    let Ok(kept) = Kept::read(layout) else { return Coming::Unknown };
    let next = kept.entries.values().filter_map(|known| known.next_fire_utc);
    Coming::first(next.map(|next| next.duration_since(since.wall).try_into().unwrap_or(Duration::ZERO)))
}

/// The id of what is said for an instant of an entry, the same from whoever says it.
pub fn envelope_id(entry: &EntryId, slot: Timestamp) -> EnvelopeId {
    EnvelopeId::derived(&["cron", entry.as_str(), &slot.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()])
}

/// How many instants of an entry passed while this envelope of it was not read; none of another one. Those that the next one
/// tells are not among them.
pub(crate) fn missed(layout: &Layout, entry: &str, envelope: &EnvelopeId) -> Option<u64> {
    let entry: EntryId = entry.parse().ok()?;
    let bytes = state::read(layout.cron_state()).ok()??;
    // Its part alone: whoever reads a thousand of them does not parse all thousand each time.
    let (_, part) = std::str::from_utf8(&bytes).ok()?.split_once(&format!("\n[entries.{entry}]\n"))?;
    let known: Known = toml::from_str(part.split("\n[entries.").next()?).ok()?;
    let missed = known.missed.saturating_sub(known.untold);
    (known.last_id.as_ref() == Some(envelope) && missed > 0).then_some(missed)
}
