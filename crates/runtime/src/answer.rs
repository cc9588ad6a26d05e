//! What the owner tells an agent beside its mail: answers to what it asks, that it is to stop, that mail waits no longer. Files for netsky-drivers,
//! one for each question of each generation.

use std::path::PathBuf;

use jiff::Timestamp;
use netsky_disk::layout::Layout;
use netsky_disk::state;
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use serde::Serialize;

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

/// Where it lies that a turn is to be stopped, by how many were over before it: of none that begins later. No answer has such
/// a name.
pub(crate) fn interrupt_path(
    layout: &Layout,
    agent: &AgentId,
    generation: Generation,
    turns: u64,
) -> PathBuf {
    layout.answers_folder().join(format!("{agent}.interrupt-{generation}-{turns}.json"))
}

/// Have the turn stopped that is under way after so many. What is said twice is done once.
///
/// # Errors
/// The system refuses.
pub fn interrupt(
    layout: &Layout,
    agent: &AgentId,
    generation: Generation,
    turns: u64,
) -> netsky_disk::Result<()> {
    state::create_json(interrupt_path(layout, agent, generation, turns), &Asked { v: 1 }).map(drop)
}

/// Where it lies that mail is to wait no longer, by until when it was to: no other wait is over.
pub(crate) fn retry_path(layout: &Layout, agent: &AgentId, until: Timestamp) -> PathBuf {
    layout.answers_folder().join(format!("{agent}.retry-{}.json", until.as_millisecond()))
}

/// Have the mail tried now that waits until then. What is said twice is done once.
///
/// # Errors
/// The system refuses.
pub fn retry(layout: &Layout, agent: &AgentId, until: Timestamp) -> netsky_disk::Result<()> {
    state::create_json(retry_path(layout, agent, until), &Asked { v: 1 }).map(drop)
}

/// What such a file says: all that it means is in its name.
#[derive(Serialize)]
struct Asked {
    v: u64,
}
