//! A clone of the demo: takes a brief, does it in a workspace, reports, acknowledges.

use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, EnvelopeId};
use serde::Deserialize;

use super::task::Task;
use super::{Agent, Letter, think, workspace};
use crate::demo::programs::own_verb;
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
            let Some(id) = envelope.id.clone() else { continue };
            think();
            if let Some(task) = task_of(&envelope) {
                report(agent, &id, task)?;
            }
            agent.ack(&id)?;
        }
    }
}

fn task_of(envelope: &Envelope) -> Option<Task> {
    let brief = envelope.kind.as_deref() == Some("brief");
    envelope.thread.as_deref().filter(|_| brief).and_then(Task::of)
}

fn report(agent: &Agent, brief: &EnvelopeId, task: Task) -> Result<(), Error> {
    let done = workspace::done(&agent.place, task)?;
    let text = format!("{} is {}: {}", task.branch(), done.commit, done.headline);
    output::say(&text)?;
    agent.send(&Letter {
        to: &AgentId::root(),
        text: &text,
        kind: "report",
        thread: task.word(),
        id: EnvelopeId::derived(&["demo", "report", brief.as_str()]),
        answers: brief,
    })
}
