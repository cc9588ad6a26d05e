//! What the owner says to what an agent asks: a file for netsky-drivers, one for each question of each generation.

use std::path::PathBuf;

use netsky_disk::layout::Layout;
use netsky_disk::state;
use netsky_model::id::{AgentId, EnvelopeId, Generation};

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
