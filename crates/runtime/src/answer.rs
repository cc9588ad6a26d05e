//! What the owner tells an agent beside its mail: answers to what it asks, that it is to stop, that mail waits no longer. Files for netsky-drivers,
//! one for each question of each generation.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use netsky_disk::layout::Layout;
use netsky_disk::state;
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use serde::Serialize;

use crate::driver::Answer;

/// Most files of an agent: more than any has questions that wait, and those that were answered last.
const MOST: usize = 512;

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
    put(layout, agent, &path(layout, agent, generation, &answer.ask), answer)
}

/// Writes a file of an agent; false where it is there already.
fn put(layout: &Layout, agent: &AgentId, path: &Path, what: &impl Serialize) -> netsky_disk::Result<bool> {
    let is_new = state::create_json(path, what)?;
    // It is there, whatever is not removed today.
    let _ = sweep(layout, agent, path);
    Ok(is_new)
}

/// Removes what is older than so many of the newest, and not this one, whatever the clock says of it: a generation may live for
/// weeks, and ask each minute.
fn sweep(layout: &Layout, agent: &AgentId, newest: &Path) -> netsky_disk::Result<()> {
    let folder = netsky_disk::fs::Dir::open(layout.answers_folder())?;
    let prefix = format!("{agent}.");
    let is_old = |name: &String| name.starts_with(&prefix) && newest.file_name() != Some(name.as_ref());
    let names = folder.names()?.into_iter().filter(is_old);
    let mut aged = Vec::new();
    for name in names {
        aged.extend(folder.times(&name)?.map(|times| (times.written, name)));
    }
    aged.sort();
    aged.truncate((aged.len() + 1).saturating_sub(MOST));
    aged.into_iter().try_for_each(|(_, name)| folder.remove(name).map(drop))
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
    put(layout, agent, &interrupt_path(layout, agent, generation, turns), &Asked { v: 1 }).map(drop)
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
    put(layout, agent, &retry_path(layout, agent, until), &Asked { v: 1 }).map(drop)
}

/// What such a file says: all that it means is in its name.
#[derive(Serialize)]
struct Asked {
    v: u64,
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use netsky_disk::home::Home;

    use super::*;

    #[test]
    fn a12_of_answers_the_newest_are_kept_and_those_of_others_are_not_counted() {
        let temp = tempfile::tempdir().expect("made");
        let layout = Layout::new(temp.path().join("home"));
        Home::init(&layout).expect("made");
        let (agent, other) = (AgentId::numbered(1), AgentId::numbered(10));
        let answer = |ask: &str| Answer { ask: ask.to_owned(), allow: true, text: None };
        leave(&layout, &other, Generation(1), &answer("q")).expect("left");
        let folder = layout.answers_folder();
        for n in 0..MOST as u64 + 3 {
            let file = std::fs::File::create(folder.join(format!("agent1.{n}.json"))).expect("made");
            // Of a clock that was ahead.
            file.set_modified(SystemTime::now() + Duration::from_secs(9000 + n)).expect("ours");
        }
        assert!(leave(&layout, &agent, Generation(1), &answer("q")).expect("left"));
        let kept = |name: String| folder.join(name).exists();
        assert!(!kept("agent1.3.json".to_owned()) && kept("agent1.4.json".to_owned()));
        for agent in [&agent, &other] {
            assert!(!leave(&layout, agent, Generation(1), &answer("q")).expect("left"), "the first holds");
        }
    }
}
