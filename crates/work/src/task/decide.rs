//! One decision about the tasks, made while the record is held.

use netsky_disk::clock;
use netsky_ledger::{Deciding, Latest};
use netsky_model::id::{AgentId, Generation, TaskId};
use netsky_model::task::{Actor, Event, State, Task, cycle, may, transition, waits_for};
use serde_json::{Value, json};

use super::{Error, FAMILY, Result, Tasks, ended};
use crate::git::{RefName, Remote};

/// The tasks that the newest facts hold.
pub(super) fn read(latest: Latest) -> Result<Tasks> {
    let task = |mut fact: netsky_ledger::Fact| {
        let unread = |why: &str| Error::Unread { seq: fact.seq, why: why.to_owned() };
        let said = fact.data.get_mut("task").map(Value::take).ok_or_else(|| unread("there is none"))?;
        let task: Task = serde_json::from_value(said).map_err(|error| unread(&error.to_string()))?;
        if task.id.as_str() != fact.key {
            return Err(unread("it is another's"));
        }
        Ok((task.id.clone(), task))
    };
    latest.into_values().map(task).collect()
}

/// The number after the highest that has a free one after it: the highest of all may be somebody's own.
pub(super) fn next_number(tasks: &Tasks) -> TaskId {
    let numbers = tasks.keys().filter_map(|id| id.as_str().parse::<u64>().ok());
    let after = numbers.filter_map(|number| number.checked_add(1));
    let free = after.filter(|number| !tasks.contains_key(&TaskId::numbered(*number)));
    TaskId::numbered(free.max().unwrap_or(1))
}

/// Refuses a task that the record or git would not take.
pub(super) fn fit(task: &Task) -> Result<()> {
    task.fits()?;
    task.repo.as_deref().map(str::parse::<Remote>).transpose()?;
    task.main.as_deref().map(RefName::branch).transpose()?;
    Ok(())
}

/// Puts a task among the others, where it may be.
pub(super) fn put(tasks: &mut Tasks, task: &Task) -> Result<()> {
    fit(task)?;
    tasks.insert(task.id.clone(), task.clone());
    if let Some(unknown) = task.after.iter().find(|id| !tasks.contains_key(id)) {
        return Err(Error::Unknown(unknown.clone()));
    }
    cycle(tasks).map_or(Ok(()), |ids| Err(Error::Cycle(ids)))
}

/// Facts that are told together.
pub(super) struct Decision<'a> {
    actor: &'a Actor,
    rows: Vec<(String, String, Value)>,
}

impl<'a> Decision<'a> {
    pub(super) fn by(actor: &'a Actor) -> Decision<'a> {
        Decision { actor, rows: Vec::new() }
    }

    /// One more: what happened, and the whole task after it.
    pub(super) fn tell(&mut self, word: &str, mut said: Value, task: &Task) -> Result<()> {
        let unwritten = |error: serde_json::Error| Error::Unread { seq: 0, why: error.to_string() };
        said["actor"] = json!(self.actor.name());
        said["task"] = serde_json::to_value(task).map_err(unwritten)?;
        self.rows.push((format!("{FAMILY}.{word}"), task.id.to_string(), said));
        Ok(())
    }

    /// An event; the task after it. One that changes nothing is not told.
    fn happen(&mut self, task: &Task, event: &Event) -> Result<Task> {
        let next = transition(task, event, clock::wall())?;
        if next != *task {
            self.tell(event.word(), event.said(), &next)?;
        }
        Ok(next)
    }

    /// A claim of a generation that has ended is over.
    pub(super) fn release(&mut self, task: &Task, by: &AgentId, generation: Generation) -> Result<Task> {
        self.happen(task, &Event::Released { why: ended(by, generation) })
    }

    /// All of them, durably.
    pub(super) fn record(self, deciding: &mut Deciding<'_>) -> Result<()> {
        let rows: Vec<_> =
            self.rows.iter().map(|(kind, key, data)| (&**kind, &**key, data.clone())).collect();
        if !rows.is_empty() {
            deciding.append(&rows)?;
        }
        Ok(())
    }
}

/// Has something happen to a task. `ended` is a generation that is known to have ended, whose claim a new one may follow.
pub(super) fn act(
    deciding: &mut Deciding<'_>,
    actor: &Actor,
    id: &TaskId,
    event: &Event,
    ended: Option<&(AgentId, Generation)>,
) -> Result<Task> {
    let tasks = read(deciding.latest(FAMILY)?)?;
    act_on(tasks, deciding, actor, id, event, ended)
}

/// The same, of tasks that were read under this lock.
pub(super) fn act_on(
    mut tasks: Tasks,
    deciding: &mut Deciding<'_>,
    actor: &Actor,
    id: &TaskId,
    event: &Event,
    ended: Option<&(AgentId, Generation)>,
) -> Result<Task> {
    let mut task = tasks.get(id).cloned().ok_or_else(|| Error::Unknown(id.clone()))?;
    may(actor, &task, event)?;
    let mut decision = Decision::by(actor);
    if let (Event::Claimed { by, .. }, Some((was, generation))) = (event, ended)
        && task.state.holder() == Some((was, *generation))
        // What it reported stands, and waits for the owner or for a generation of its own.
        && (matches!(task.state, State::Claimed { .. }) || by == was)
    {
        task = decision.release(&task, was, *generation)?;
    }
    let next = decision.happen(&task, event)?;
    match event {
        Event::Claimed { .. } if next != task => {
            let on = waits_for(&next, &tasks);
            if !on.is_empty() {
                return Err(Error::Waits { id: next.id, on });
            }
        }
        Event::Updated(_) => put(&mut tasks, &next)?,
        _ => {}
    }
    decision.record(deciding)?;
    Ok(next)
}
