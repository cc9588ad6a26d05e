//! `state/drivers/<agent>.json`: what netsky-drivers knows of an agent, and where in its output it has read up to.
//!
//! Promise: written after what follows from the output up to `offset` was done, so that whoever takes over does it again
//! rather than not; all of it may be done twice. It outlives generations: the conversation is the lineage's.

use jiff::Timestamp;
use netsky_disk::layout::Layout;
use netsky_disk::{clock, state};
use netsky_kernel::drain::Usage;
use netsky_kernel::session::Meta;
use netsky_model::id::{AgentId, Generation, LineageId};
use netsky_model::lifecycle::LifecycleState;
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};

use super::context::{Asked, Left};
use crate::driver::{Ask, Conversation, Doing, Trouble};

#[cfg(test)]
mod tests;

/// Version of the file.
pub(super) const VERSION: u64 = 1;

/// What is known of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Book {
    /// Format version.
    pub v: u64,
    /// Whose.
    pub agent: AgentId,
    /// Which kind of program.
    pub runtime: String,
    /// Of which lineage.
    pub lineage: LineageId,
    /// Which generation was met last.
    pub generation: Generation,
    /// Its output was read up to here.
    pub offset: u64,
    /// What it does.
    pub doing: Doing,
    /// Since when.
    pub since: Stamp,
    /// What it asks and nobody has answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<Ask>,
    /// Why its mail waits though it is free, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
    /// The wish that its generation was started for, by its date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wish: Option<String>,
    /// Its conversation, to be gone on with by the next generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Conversation>,
    /// The program's version, as it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The model that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How much of the context is used, in per cent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_pct: Option<u8>,
    /// Whether a turn of this generation ended well: it does not only live.
    #[serde(default)]
    pub answered: bool,
    /// Where its context stands.
    #[serde(default)]
    pub lifecycle: LifecycleState,
    /// The handoff that it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// What an earlier generation left to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Left>,
    /// The turn that the owner wanted stopped, by how many were over before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<u64>,
    /// Turns of the lineage that are over.
    #[serde(default)]
    pub turns: u64,
    /// When the last of them ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_ended: Option<Stamp>,
    /// What they took.
    #[serde(default)]
    pub usage: Usage,
    /// What the program said that this driver does not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// The driver's own memory.
    #[serde(default)]
    pub memory: serde_json::Value,
}

/// Why mail waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Until then, or another program.
    pub until: Timestamp,
    /// What failed, in the program's words.
    pub why: String,
    /// How many turns have failed in a row.
    pub failures: u32,
    /// What sort of failure the last one was; none where a message was not kept.
    #[serde(default)]
    pub trouble: Option<Trouble>,
}

impl Book {
    /// Of an agent of which nothing is known.
    pub(super) fn blank(agent: &AgentId, meta: &Meta) -> Book {
        Book {
            v: VERSION,
            agent: agent.clone(),
            runtime: meta.spec.runtime.clone(),
            lineage: meta.lineage.clone(),
            // Met as a new one.
            generation: Generation::NONE,
            offset: meta.output_from.unwrap_or(0),
            doing: Doing::Down,
            since: clock::stamp(),
            asks: Vec::new(),
            waits: None,
            wish: None,
            conversation: None,
            version: None,
            model: None,
            answered: false,
            context_pct: None,
            lifecycle: LifecycleState::default(),
            asked: None,
            left: None,
            stopped: None,
            turns: 0,
            turn_ended: None,
            usage: Usage::default(),
            unknown: Vec::new(),
            memory: serde_json::Value::Null,
        }
    }

    /// What is known of an agent; none where nobody drove it.
    ///
    /// # Errors
    /// The system refuses, what is there does not read, or it is a newer program's.
    pub fn read(layout: &Layout, agent: &AgentId) -> netsky_disk::Result<Option<Book>> {
        state::read_json(layout.driver_book(agent))
    }

    pub(super) fn write(&self, layout: &Layout) -> netsky_disk::Result<()> {
        let bytes = serde_json::to_vec(self).expect("plain data becomes JSON");
        state::write(layout.driver_book(&self.agent), &bytes)
    }
}
