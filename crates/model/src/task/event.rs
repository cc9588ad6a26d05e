//! What happens to a task, who may have it happen, and what it comes to.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Brief, How, MAX_WORDS, Priority, State, Task, Title};
use crate::id::{AgentId, Generation, Label, Sender, TaskId};

/// What an agent says of its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is done.
    Done,
    /// Something is in the way.
    Blocked,
    /// It gives up.
    Failed,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Done => "done",
            Verdict::Blocked => "blocked",
            Verdict::Failed => "failed",
        }
    }
}

/// What of a task is to be another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Its title.
    pub title: Option<Title>,
    /// Its repository.
    pub repo: Option<String>,
    /// The branch that it lands on.
    pub main: Option<String>,
    /// Its brief.
    pub brief: Option<Brief>,
    /// How soon.
    pub priority: Option<Priority>,
    /// All its labels.
    pub labels: Option<BTreeSet<Label>>,
    /// All that it waits for.
    pub after: Option<BTreeSet<TaskId>>,
}

/// What happens to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// What is wanted changes.
    Updated(Box<Change>),
    /// It is to be done by somebody, or by anybody again.
    Assigned {
        /// By whom.
        to: Option<AgentId>,
    },
    /// An agent takes it.
    Claimed {
        /// Who.
        by: AgentId,
        /// In which incarnation.
        generation: Generation,
    },
    /// Who has it has it no more.
    Released {
        /// Why.
        why: String,
    },
    /// Who has it says how it went.
    Reported {
        /// How.
        verdict: Verdict,
        /// In its words.
        text: String,
        /// Who.
        by: AgentId,
        /// In which incarnation.
        generation: Generation,
    },
    /// It became part of a branch.
    Landed {
        /// The commit there.
        sha: String,
        /// The branch.
        main: String,
    },
    /// It is over without landing.
    Closed {
        /// Done or dropped.
        how: How,
        /// Why.
        why: Option<String>,
    },
    /// It is not over after all.
    Reopened {
        /// Why.
        why: String,
    },
}

impl Event {
    /// What it makes of a task, as the kind of its fact and messages say it.
    pub fn word(&self) -> &'static str {
        match self {
            Event::Updated(_) => "updated",
            Event::Assigned { .. } => "assigned",
            Event::Claimed { .. } => "claimed",
            Event::Released { .. } => "released",
            Event::Reported { .. } => "reported",
            Event::Landed { .. } => "landed",
            Event::Closed { .. } => "closed",
            Event::Reopened { .. } => "reopened",
        }
    }

    /// What its fact says beside the task after it.
    pub fn said(&self) -> Value {
        match self {
            Event::Updated(change) => {
                let Change { title, repo, main, brief, priority, labels, after } = &**change;
                let changed = [
                    ("title", title.is_some()),
                    ("repo", repo.is_some()),
                    ("main", main.is_some()),
                    ("brief", brief.is_some()),
                    ("priority", priority.is_some()),
                    ("labels", labels.is_some()),
                    ("after", after.is_some()),
                ];
                let changed = changed.iter().filter(|(_, is)| *is).map(|(what, _)| *what);
                json!({ "changed": changed.collect::<Vec<_>>() })
            }
            Event::Assigned { to } => json!({ "to": to }),
            Event::Claimed { by, generation } => json!({ "by": by, "generation": generation }),
            Event::Released { why } | Event::Reopened { why } => json!({ "why": words(why) }),
            Event::Reported { verdict, text, by, generation } => {
                json!({ "verdict": verdict, "text": words(text), "by": by, "generation": generation })
            }
            Event::Landed { sha, main } => json!({ "sha": sha, "main": main }),
            Event::Closed { how, why } => json!({ "how": how.word(), "why": why.as_deref().map(words) }),
        }
    }
}

/// A text no longer than the record keeps.
fn words(text: &str) -> String {
    if text.len() <= MAX_WORDS {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(MAX_WORDS - '…'.len_utf8())])
}

/// An event that cannot happen to a task as it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// Somebody has it.
    #[error("task {id} is {is} by {by}, generation {generation}")]
    Held {
        /// Which task.
        id: TaskId,
        /// As what.
        is: &'static str,
        /// Who.
        by: AgentId,
        /// In which incarnation.
        generation: Generation,
    },
    /// It is to be done by somebody else.
    #[error("task {id} is assigned to {to}")]
    Assigned {
        /// Which task.
        id: TaskId,
        /// To whom.
        to: AgentId,
    },
    /// A word about it from one who does not have it.
    #[error("task {id} is not held by {by}, generation {generation}: it is {now}")]
    NotHeld {
        /// Which task.
        id: TaskId,
        /// Who spoke.
        by: AgentId,
        /// In which incarnation.
        generation: Generation,
        /// How it stands.
        now: String,
    },
    /// Its state has no such event.
    #[error("task {id} is {is}, and cannot be {event}")]
    State {
        /// Which task.
        id: TaskId,
        /// How it stands.
        is: &'static str,
        /// What was tried.
        event: &'static str,
    },
}

/// The task after `event`. What is there already is no change, and the task stays as it is.
///
/// # Errors
/// An event that cannot happen to it.
pub fn transition(task: &Task, event: &Event, at: Timestamp) -> Result<Task, Illegal> {
    let mut next = task.clone();
    match event {
        Event::Updated(change) => update(&mut next, change)?,
        Event::Assigned { to } => next.assignee = assigned(task, to.as_ref())?,
        Event::Claimed { by, generation } => {
            may_claim(task, by, *generation)?;
            next.state = State::Claimed { by: by.clone(), generation: *generation };
        }
        Event::Released { .. } if task.state.holder().is_some() => next.state = State::Open,
        Event::Reported { verdict, text, by, generation } => {
            if task.state.holder() != Some((by, *generation)) {
                return Err(not_held(task, by, *generation));
            }
            next.state = reported(*verdict, words(text), by.clone(), *generation);
        }
        Event::Landed { sha, main } => {
            let how = How::Landed { sha: sha.clone(), main: main.clone() };
            next.state = closed(task, how, None, event)?;
        }
        Event::Closed { how: How::Landed { .. }, .. } => return Err(illegal(task, event)),
        Event::Closed { how, why } => {
            next.state = closed(task, how.clone(), why.as_deref().map(words), event)?;
        }
        Event::Reopened { .. } if task.state.is_closed() => next.state = State::Open,
        Event::Released { .. } | Event::Reopened { .. } => return Err(illegal(task, event)),
    }
    if next != *task {
        next.updated = at;
    }
    Ok(next)
}

fn illegal(task: &Task, event: &Event) -> Illegal {
    Illegal::State { id: task.id.clone(), is: task.state.word(), event: event.word() }
}

fn not_held(task: &Task, by: &AgentId, generation: Generation) -> Illegal {
    let now = match task.state.holder() {
        Some((by, generation)) => format!("{} by {by}, generation {generation}", task.state.word()),
        None => task.state.word().to_owned(),
    };
    Illegal::NotHeld { id: task.id.clone(), by: by.clone(), generation, now }
}

fn held(task: &Task, by: &AgentId, generation: Generation) -> Illegal {
    Illegal::Held { id: task.id.clone(), is: task.state.word(), by: by.clone(), generation }
}

fn update(task: &mut Task, change: &Change) -> Result<(), Illegal> {
    if task.state.is_closed() {
        return Err(illegal(task, &Event::Updated(Box::default())));
    }
    let Change { title, repo, main, brief, priority, labels, after } = change.clone();
    task.title = title.unwrap_or_else(|| task.title.clone());
    task.repo = repo.or_else(|| task.repo.take());
    task.main = main.or_else(|| task.main.take());
    task.brief = brief.or_else(|| task.brief.take());
    task.priority = priority.unwrap_or(task.priority);
    task.labels = labels.unwrap_or_else(|| std::mem::take(&mut task.labels));
    task.after = after.unwrap_or_else(|| std::mem::take(&mut task.after));
    Ok(())
}

/// Who is to do it from now on: of what somebody has, nobody else.
fn assigned(task: &Task, to: Option<&AgentId>) -> Result<Option<AgentId>, Illegal> {
    match task.state.holder() {
        _ if task.state.is_closed() => Err(illegal(task, &Event::Assigned { to: None })),
        Some((by, generation)) if to.is_some_and(|to| to != by) => Err(held(task, by, generation)),
        _ => Ok(to.cloned()),
    }
}

/// Whether a generation may take it: an open one that is nobody else's, or its own that it reported of. What a generation of its
/// own from before has is released first, once that has ended.
fn may_claim(task: &Task, by: &AgentId, generation: Generation) -> Result<(), Illegal> {
    if task.state.is_closed() {
        return Err(illegal(task, &Event::Claimed { by: by.clone(), generation }));
    }
    if let Some((holder, its)) = task.state.holder().filter(|holder| *holder != (by, generation)) {
        return Err(held(task, holder, its));
    }
    match &task.assignee {
        Some(to) if to != by => Err(Illegal::Assigned { id: task.id.clone(), to: to.clone() }),
        _ => Ok(()),
    }
}

fn reported(verdict: Verdict, text: String, by: AgentId, generation: Generation) -> State {
    match verdict {
        Verdict::Done => State::Ready { by, generation, note: text },
        Verdict::Blocked => State::Blocked { by, generation, why: text },
        // Whoever came next would only fail again: somebody has to look at it.
        Verdict::Failed => State::Blocked { by, generation, why: words(&format!("failed: {text}")) },
    }
}

/// The end of a task. One that ended so already is as it was.
fn closed(task: &Task, how: How, why: Option<String>, event: &Event) -> Result<State, Illegal> {
    match &task.state {
        State::Closed { how: was, .. } if *was == how => Ok(task.state.clone()),
        State::Closed { .. } => Err(illegal(task, event)),
        _ => Ok(State::Closed { how, why }),
    }
}

/// Who has something happen to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// The owner, agent0 or agentinfinity, who keep all the others; and netsky's own programs.
    Keeper(Sender),
    /// Any other agent, in that incarnation.
    Agent(AgentId, Generation),
}

impl Actor {
    /// As a task and its facts name it.
    pub fn name(&self) -> Sender {
        match self {
            Actor::Keeper(name) => name.clone(),
            Actor::Agent(agent, _) => agent.clone().into(),
        }
    }
}

/// A change that is not the actor's to make.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{who} may not have task {id} {event}: {why}")]
pub struct Denied {
    /// Which task.
    pub id: TaskId,
    /// Who.
    pub who: Sender,
    /// What was tried.
    pub event: &'static str,
    /// Whose it is.
    pub why: &'static str,
}

/// Whether somebody may have that happen to a task.
///
/// # Errors
/// It is another's.
pub fn may(actor: &Actor, task: &Task, event: &Event) -> Result<(), Denied> {
    let Actor::Agent(me, mine) = actor else { return Ok(()) };
    let holds = task.state.holder() == Some((me, *mine));
    let is_free = task.state.holder().is_none();
    let made = task.by == Sender::from(me.clone());
    let (is_allowed, why) = match event {
        Event::Claimed { by, generation } | Event::Reported { by, generation, .. } => {
            (by == me && generation == mine, "an agent speaks for its own generation alone")
        }
        Event::Released { .. } => (holds, "only who holds it, the owner and agent0 may"),
        Event::Updated(_) => (holds || made, "only who made it, who holds it, the owner and agent0 may"),
        Event::Closed { .. } => (
            holds || made && is_free,
            "only who holds it, who made it while nobody does, the owner and agent0 may",
        ),
        Event::Assigned { .. } | Event::Reopened { .. } => {
            (made, "only who made it, the owner and agent0 may")
        }
        Event::Landed { .. } => (false, "only a harvest says that"),
    };
    if is_allowed {
        return Ok(());
    }
    Err(Denied { id: task.id.clone(), who: actor.name(), event: event.word(), why })
}
