//! A clone of the demo: takes a brief, does it in its task's workspace, commits, reports. What does not fit on main any more it
//! brings up to date and reports again.
//!
//! Every message is acknowledged when its turn ended, and a turn that is taken twice finds what it did the first time: the
//! commit is there, the branch is up to date, the same words are the same report.

use std::path::Path;

use netsky_model::envelope::Envelope;
use serde::Deserialize;

use super::task::{FOLDER, FOUND, Task};
use super::{Agent, think};
use crate::demo::place::Place;
use crate::demo::programs::{git, own_answer, own_verb};
use crate::demo::repository::text;
use crate::error::{Error, Kind};
use crate::output;

/// What `channel drain --json` prints.
#[derive(Deserialize)]
struct Drained {
    envelopes: Vec<Surfaced>,
}

#[derive(Deserialize)]
struct Surfaced {
    rendered: String,
    #[serde(flatten)]
    envelope: Envelope,
}

pub(super) fn live(agent: &Agent) -> Result<(), Error> {
    agent.prove_up()?;
    loop {
        agent.wait()?;
        let printed = own_verb(["channel", "drain", agent.me.as_str(), "--json", "--max", "1"])?;
        let drained: Drained = serde_json::from_slice(&printed).map_err(|e| {
            Error::new(Kind::Failed, format!("failed to understand the drained messages: {e}"))
        })?;
        for Surfaced { rendered, envelope } in drained.envelopes {
            output::say(&rendered)?;
            turn(&agent.place, &envelope)?;
            if let Some(id) = &envelope.id {
                agent.ack(id)?;
            }
        }
    }
}

fn turn(place: &Place, envelope: &Envelope) -> Result<(), Error> {
    think();
    let Some(task) = envelope.thread.as_deref().and_then(Task::of) else { return Ok(()) };
    let repo = place.layout().workspaces().join(task.word()).join("repo");
    match envelope.kind.as_deref() {
        Some("brief") => work(place, &repo, task)?,
        Some("harvest-conflict") => bring_up_to_date(place, &repo, task)?,
        // That something has landed asks for no more than to be read.
        _ => return Ok(()),
    }
    report(place, &repo, task)
}

/// Does the task and commits it, once.
fn work(place: &Place, repo: &Path, task: Task) -> Result<(), Error> {
    let file = format!("{FOLDER}/{}", task.file());
    if git(place, repo, ["cat-file", "-e", &format!("HEAD:{file}")]).is_ok() {
        return Ok(());
    }
    let found = task.work(place, repo)?;
    if task.is_noted() {
        note(place, repo, "# Found\n\n", task, &found.headline)?;
    }
    place.put(repo, &file, found.text.as_bytes())?;
    git(place, repo, ["add", "--force", "--", FOLDER])?;
    git(place, repo, ["commit", "--quiet", "-m", &found.headline]).map(drop)
}

/// Puts the branch on main as it is now. Where somebody else has begun the same list meanwhile both lines stay.
fn bring_up_to_date(place: &Place, repo: &Path, task: Task) -> Result<(), Error> {
    git(place, repo, ["fetch", "--quiet", "origin", "main"])?;
    if git(place, repo, ["rebase", "--quiet", "FETCH_HEAD"]).is_ok() {
        return Ok(());
    }
    let theirs = git(place, repo, ["show", &format!("FETCH_HEAD:{FOLDER}/{FOUND}")])?;
    let headline = text(&git(place, repo, ["log", "-1", "--format=%s", "REBASE_HEAD"])?);
    note(place, repo, &String::from_utf8_lossy(&theirs), task, &headline)?;
    git(place, repo, ["add", "--force", "--", FOLDER])?;
    git(place, repo, ["-c", "core.editor=true", "rebase", "--continue"]).map(drop)
}

/// The list of what was found, with one more line.
fn note(place: &Place, repo: &Path, before: &str, task: Task, headline: &str) -> Result<(), Error> {
    let list = format!("{before}- {}: {headline}\n", task.word());
    place.put(repo, &format!("{FOLDER}/{FOUND}"), list.as_bytes())
}

/// Says that it is done, and by which commit.
fn report(place: &Place, repo: &Path, task: Task) -> Result<(), Error> {
    let done = text(&git(place, repo, ["log", "-1", "--format=%s, as %h"])?);
    output::say(&done)?;
    // 4: it has landed meanwhile.
    own_answer(&["report", "--task", task.word(), "--done", &done], &[0, 4]).map(drop)
}
