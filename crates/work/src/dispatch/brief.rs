//! A task is handed out: who gets it is decided and kept, then it is the clone's by the board, and then the clone is told.

use std::collections::BTreeMap;

use netsky_bus::Draft;
use netsky_disk::{clock, random};
use netsky_model::dispatch::{Ask, Dispatch, Event as Step, Seen, State, choose};
use netsky_model::envelope::MAX_BYTES;
use netsky_model::id::{AgentId, Generation, Sender, TaskId};
use netsky_model::task::{State as Stands, Task, waits_for};
use serde_json::{Value, json};

use super::{BRIEFED, Dispatches, Error, Result, point, words};
use crate::workspace::Workspace;
use crate::{task, workspace};

/// What stands around a brief in its message, in bytes at most: its title, folders, and what an envelope says of itself.
const AROUND: usize = 16 * 1024;

impl Dispatches<'_> {
    /// The task, if it may be handed out.
    ///
    /// # Errors
    /// There is none, it waits for others, somebody has it, it is over, or it is meant for somebody else than is asked for.
    pub fn free(&self, id: &TaskId, ask: &Ask<'_>) -> Result<Task> {
        let tasks: BTreeMap<TaskId, Task> =
            self.board.list()?.into_iter().map(|task| (task.id.clone(), task)).collect();
        let task = tasks.get(id).ok_or_else(|| task::Error::Unknown(id.clone()))?;
        let waits: Vec<String> = waits_for(task, &tasks).iter().map(ToString::to_string).collect();
        let not = |why: String| Err(Error::NotFree { task: id.clone(), why });
        match (&task.state, &task.assignee, ask.agent) {
            (Stands::Closed { .. }, ..) => not("it is closed".to_owned()),
            (Stands::Claimed { by, generation }, ..) if self.read(id)?.is_none() => {
                not(format!("{by}, generation {generation}, has taken it by itself"))
            }
            _ if !waits.is_empty() => not(format!("it waits for {}", waits.join(", "))),
            (_, Some(to), Some(asked)) if to != asked => not(format!("it is assigned to {to}")),
            _ => self.is_short(task).map(|()| task.clone()),
        }
    }

    /// Decide who gets a task; kept when this returns. What a dead one decided is gone on with.
    ///
    /// # Errors
    /// As [`Dispatches::free`], somebody has it, or nobody can take it.
    pub fn decide(&self, id: &TaskId, by: &Sender, ask: &Ask<'_>, seen: &[Seen]) -> Result<Dispatch> {
        let _held = self.hold()?;
        let task = self.free(id, ask)?;
        if let Some(had) = self.read(id)? {
            let is_meant = ask.agent.is_none_or(|agent| *agent == had.agent);
            if had.state == State::Chosen && is_meant {
                return Ok(had);
            }
            match had.state {
                State::Over(_) => self.settle(&had)?,
                _ => {
                    let Dispatch { task, agent, since, .. } = had.clone();
                    return Err(Error::Dispatched { task, agent, generation: had.holder(), since });
                }
            }
        }
        let (open, _) = self.open()?;
        let claims = self.board.list()?;
        let is_busy = |agent: &_| {
            let has = |task: &Task| matches!(&task.state, Stands::Claimed { by, .. } if by == agent);
            open.iter().any(|had| had.agent == *agent) || claims.iter().any(has)
        };
        let ask = Ask { agent: ask.agent.or(task.assignee.as_ref()), ..*ask };
        let agent = choose(&ask, seen, is_busy)?;
        let chosen = Dispatch::new(random::short(), id.clone(), agent, by.clone(), clock::stamp());
        self.write(&chosen)?;
        point("work.dispatch.decided")?;
        Ok(chosen)
    }

    /// Take back what was decided, where nobody was told of it.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn withdraw(&self, decided: &Dispatch) -> Result<()> {
        let _held = self.hold()?;
        if self.read(&decided.task)?.as_ref() == Some(decided) && decided.state == State::Chosen {
            netsky_disk::state::remove(self.layout.dispatch(&decided.task))?;
        }
        Ok(())
    }

    /// Looks whether what was decided still is, before anybody is started for it.
    ///
    /// # Errors
    /// It came to its end, or does not read.
    pub fn is_still(&self, decided: &Dispatch) -> Result<()> {
        let _held = self.hold()?;
        let now = self.read(&decided.task)?.filter(|now| now.id == decided.id);
        now.map(drop).ok_or_else(|| Error::Gone(decided.task.clone()))
    }

    /// Give a clone that was decided on, and lives as this incarnation, the task and its brief. Whoever did that before is not outdone.
    ///
    /// # Errors
    /// It is not to be had any more, or the claim, the message or the fact could not be made: a repeat goes on with it.
    pub fn brief(&self, decided: &Dispatch, generation: Generation) -> Result<Dispatch> {
        let _held = self.hold()?;
        let now = self.read(&decided.task)?.filter(|now| now.id == decided.id);
        let now = now.ok_or_else(|| Error::Gone(decided.task.clone()))?;
        self.brief_held(&now, generation)
    }

    /// Where a task is worked on, which is nowhere for one without a repository; none as long as that is not made.
    pub(super) fn place(&self, task: &Task) -> Result<Option<Option<Workspace>>> {
        let found = workspace::find(self.layout, &task.id)?;
        Ok((found.is_some() || task.repo.is_none()).then_some(found))
    }

    /// A brief that no message could hold is found out before anybody is given it.
    fn is_short(&self, task: &Task) -> Result<()> {
        let brief = self.board.brief(task)?.map_or(Value::Null, Value::String);
        match brief.to_string().len() + AROUND <= MAX_BYTES {
            true => Ok(()),
            false => Err(Error::NotFree {
                task: task.id.clone(),
                why: "its brief is too long for a message".to_owned(),
            }),
        }
    }

    /// As [`Dispatches::brief`], of who holds the lock. What is not to be had any more is forgotten.
    pub(super) fn brief_held(&self, now: &Dispatch, generation: Generation) -> Result<Dispatch> {
        use task::Error as Board;
        if now.state != State::Chosen {
            return Ok(now.clone());
        }
        let briefed = self.give(now, generation);
        if let Err(
            Error::NotFree { .. }
            | Error::Task(Board::Illegal(_) | Board::Waits { .. } | Board::Unknown(_) | Board::Brief { .. }),
        ) = &briefed
        {
            self.forget(now)?;
        }
        briefed
    }

    fn give(&self, now: &Dispatch, generation: Generation) -> Result<Dispatch> {
        let briefed = now.after(Step::Briefed(generation))?;
        let task = self.task(&now.task)?;
        let place = self.place(&task)?.ok_or_else(|| Error::Unplaced(now.task.clone()))?;
        self.is_short(&task)?;
        let task = self.claim(now, generation)?;
        point("work.dispatch.claimed")?;
        let text =
            words::brief(&task, self.board, place.as_ref().map(|place| (place, place.folder(self.layout))))?;
        // Not from the owner, whoever hands it out: title and brief may be an agent's words, and be changed until now.
        let mut draft = Draft::new(AgentId::root().into(), now.agent.clone(), text);
        draft.kind = Some("brief".to_owned());
        draft.thread = Some(now.task.to_string());
        draft.requires_ack = true;
        draft.id = Some(now.brief());
        self.bus.send(draft)?;
        point("work.dispatch.sent")?;
        let data = json!({
            "task": now.task, "dispatch": now.id, "agent": now.agent, "generation": generation, "by": now.by,
            "title": task.title, "envelope": now.brief(),
            "folder": place.map(|place| place.folder(self.layout)),
        });
        self.facts.append_once(BRIEFED, &now.key(), data)?;
        point("work.dispatch.recorded")?;
        self.write(&briefed)?;
        point("work.dispatch.briefed")?;
        Ok(briefed)
    }
}
