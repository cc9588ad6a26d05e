//! What the owner tells an agent beside its mail: answers to what it asks, that it is to stop, that mail waits no longer. Files for netsky-drivers,
//! one for each question of each generation.

use std::path::PathBuf;

use jiff::Timestamp;
use netsky_disk::layout::Layout;
use netsky_disk::state;
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use serde::{Deserialize, Serialize};

use crate::driver::Answer;

/// Where the answer to a question lies. The question's id is the program's word, and no part of a path.
pub(crate) fn path(layout: &Layout, agent: &AgentId, generation: Generation, ask: &str) -> PathBuf {
    let name = EnvelopeId::derived(&[agent.as_str(), &generation.to_string(), ask]);
    layout.answers_folder().join(format!("{agent}.{name}.json"))
}

/// Leave an answer; false where there is one already, which holds.
///
/// # Errors
/// The system refuses.
pub fn leave(
    layout: &Layout,
    agent: &AgentId,
    generation: Generation,
    answer: &Answer,
) -> netsky_disk::Result<bool> {
    state::create_json(path(layout, agent, generation, &answer.ask), answer)
}

/// Removes every answer to an agent.
pub(crate) fn forget(layout: &Layout, agent: &AgentId) -> netsky_disk::Result<()> {
    let prefix = format!("{agent}.");
    let folder = match netsky_disk::fs::Dir::open(layout.answers_folder()) {
        Err(error) if error.is_not_found() => return Ok(()),
        opened => opened?,
    };
    for name in folder.names()?.into_iter().filter(|name| name.starts_with(&prefix)) {
        folder.remove(name)?;
    }
    Ok(())
}

/// A turn that is to be stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Interrupt {
    /// Whose.
    pub(crate) generation: Generation,
    /// How many turns were over: of none that begins later.
    pub(crate) turns: u64,
}

/// Where that lies. No answer has such a name.
pub(crate) fn interrupt_path(layout: &Layout, agent: &AgentId) -> PathBuf {
    layout.answers_folder().join(format!("{agent}.interrupt.json"))
}

/// Have the turn stopped that is under way after so many.
///
/// # Errors
/// The system refuses.
pub fn interrupt(
    layout: &Layout,
    agent: &AgentId,
    generation: Generation,
    turns: u64,
) -> netsky_disk::Result<()> {
    state::write_json(interrupt_path(layout, agent), &Interrupt { generation, turns })
}

/// Mail that is to wait no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Retry {
    /// Until when it was to wait: no other wait is over.
    pub(crate) until: Timestamp,
}

/// Where that lies. No answer has such a name.
pub(crate) fn retry_path(layout: &Layout, agent: &AgentId) -> PathBuf {
    layout.answers_folder().join(format!("{agent}.retry.json"))
}

/// Have the mail tried now that waits until then.
///
/// # Errors
/// The system refuses.
pub fn retry(layout: &Layout, agent: &AgentId, until: Timestamp) -> netsky_disk::Result<()> {
    state::write_json(retry_path(layout, agent), &Retry { until })
}
