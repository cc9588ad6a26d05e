//! Dispatches: which clone has which task in hand, from its choice to the verdict.
//!
//! Promise: a task is in one clone's hands at a time, and gets one brief for it. What was decided is a file before it is done, so
//! whoever comes after a death does the rest of it: the verb again, or a tick. The claim follows the clone when it comes back, and is
//! given up when it ended for good; both are told once, as a fact and as a message.
//! Leaves to others: starting and ending anybody (`watchdog`), and what a verb prints.
//!
//! Reading order: [`Dispatches`] → `brief` → `report` → `tend` → `wait`.

mod brief;
mod report;
mod tend;
mod wait;
mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use netsky_bus::Bus;
use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::state;
use netsky_ledger::{Fact, Facts};
use netsky_model::dispatch::{Dispatch, End, Event as Step, Illegal, NoClone, State};
use netsky_model::id::{AgentId, Generation, Sender, TaskId};
use netsky_model::stamp::Stamp;
use netsky_model::task::{Event, State as Stands, Task};

use crate::task::{self, Board};

pub use report::{MAX_REPORT, Reported, Speaker};
pub use tend::{Look, Tended};
pub use wait::{Outcome, Target, Waited};

/// The kind of the fact that a clone has its brief.
const BRIEFED: &str = "clone.briefed";
/// The kind of the fact that a clone waits for somebody's word.
const BLOCKED: &str = "clone.blocked";
/// The kind of the fact that a dispatch is over.
const FINISHED: &str = "clone.finished";
/// The family of all of them.
const FAMILY: &str = "clone";

/// How long whoever changes a dispatch now is waited for: some syncs, and a message.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why a dispatch did not change.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or a lock.
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
    /// A message.
    #[error(transparent)]
    Bus(#[from] netsky_bus::Error),
    /// The record.
    #[error(transparent)]
    Record(#[from] netsky_ledger::Error),
    /// The task.
    #[error(transparent)]
    Task(#[from] task::Error),
    /// A workspace.
    #[error(transparent)]
    Work(#[from] crate::Error),
    /// What was said of it.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// Nobody can take it.
    #[error(transparent)]
    NoClone(#[from] NoClone),
    /// Somebody has it.
    #[error("task {task} is {} since {:.0}", hands(.agent, .generation.as_ref()), .since.wall)]
    Dispatched {
        /// Which task.
        task: TaskId,
        /// Who.
        agent: AgentId,
        /// In which incarnation; none that is about to be briefed.
        generation: Option<Generation>,
        /// Since when.
        since: Stamp,
    },
    /// It is no task to hand out.
    #[error("task {task} cannot be handed out: {why}")]
    NotFree {
        /// Which task.
        task: TaskId,
        /// Why.
        why: String,
    },
    /// The agent has no task in hand.
    #[error("{agent} has no {} in hand", .task.as_ref().map_or("task".to_owned(), |task| format!("task {task}")))]
    NothingInHand {
        /// Who.
        agent: AgentId,
        /// The task that was named.
        task: Option<TaskId>,
    },
    /// The agent has several, and none was named.
    #[error("{agent} has several tasks in hand: {}", names(.tasks))]
    Several {
        /// Who.
        agent: AgentId,
        /// Which.
        tasks: Vec<TaskId>,
    },
    /// Nobody ever had it in hand.
    #[error("{}", never(.0))]
    NeverDispatched(Target),
    /// Its workspace is not there.
    #[error("task {0} has no workspace yet")]
    Unplaced(TaskId),
    /// A report that is none.
    #[error("the report is refused: {0}")]
    BadReport(String),
    /// Somebody else changes one, for long.
    #[error("dispatches were being changed for {} s", .0.as_secs())]
    Busy(Duration),
    /// It came to its end meanwhile.
    #[error("the dispatch of task {0} came to its end meanwhile")]
    Gone(TaskId),
}

fn hands(agent: &AgentId, generation: Option<&Generation>) -> String {
    match generation {
        Some(generation) => format!("with {agent}, generation {generation},"),
        None => format!("about to be given to {agent}"),
    }
}

fn names(tasks: &[TaskId]) -> String {
    tasks.iter().map(TaskId::as_str).collect::<Vec<_>>().join(", ")
}

/// What every call of this module returns.
pub type Result<T> = std::result::Result<T, Error>;

/// The dispatches of one home.
pub struct Dispatches<'a> {
    layout: &'a Layout,
    bus: &'a Bus<'a>,
    board: &'a Board,
    facts: Facts,
}

impl<'a> Dispatches<'a> {
    /// Opens nothing yet.
    pub fn new(layout: &'a Layout, bus: &'a Bus<'a>, board: &'a Board) -> Dispatches<'a> {
        Dispatches { layout, bus, board, facts: Facts::new(layout) }
    }

    /// Every dispatch that is not over and told, as it is by now, in the order of their tasks' names; and what is wrong with those that
    /// do not read.
    ///
    /// # Errors
    /// Their folder cannot be read.
    pub fn open(&self) -> Result<(Vec<Dispatch>, BTreeMap<TaskId, netsky_disk::Error>)> {
        let (open, unread) = all(self.layout)?;
        Ok((open.into_iter().map(|had| self.by_now(had)).collect(), unread))
    }

    /// As it is by now: one that was blocked goes on once its answer has come, or it has claimed its task again. What cannot be looked
    /// at has not changed.
    fn by_now(&self, had: Dispatch) -> Dispatch {
        let goes_on = had.blocked().is_some_and(|on| {
            self.is_answered(&had, &on).unwrap_or(false) || self.is_claimed_again(&had).unwrap_or(false)
        });
        match goes_on {
            true => had.after(Step::Answered).unwrap_or(had),
            false => had,
        }
    }

    /// Whether a message has come that answers a report: as a reply to it, under its task, or from the owner.
    fn is_answered(&self, had: &Dispatch, on: &End) -> Result<bool> {
        let report = had.report(on);
        let Some(told) = self.dispatcher(had) else { return Ok(false) };
        let Some(place) = self.bus.position(&told, &report)? else { return Ok(false) };
        Ok(self.bus.any_after(&had.agent, place, |envelope| {
            envelope.reply_to.as_ref() == Some(&report)
                || envelope.thread.as_deref() == Some(had.task.as_str())
                || envelope.from == Sender::owner()
        })?)
    }

    fn is_claimed_again(&self, had: &Dispatch) -> Result<bool> {
        let task = self.board.get(&had.task)?;
        let is_it = |by: &AgentId, generation| *by == had.agent && Some(generation) == had.holder();
        Ok(task.is_some_and(
            |task| matches!(&task.state, Stands::Claimed { by, generation } if is_it(by, *generation)),
        ))
    }

    /// Whether an agent has a task in hand, or is about to have one.
    ///
    /// # Errors
    /// Their folder cannot be read.
    pub fn is_at_work(&self, agent: &AgentId) -> Result<bool> {
        Ok(self.readable()?.iter().any(|open| open.agent == *agent))
    }

    /// Those that read: who has nothing to do with the others is not kept from anything by them.
    fn readable(&self) -> Result<Vec<Dispatch>> {
        Ok(self.open()?.0)
    }

    fn read(&self, task: &TaskId) -> Result<Option<Dispatch>> {
        Ok(state::read_json(self.layout.dispatch(task))?)
    }

    fn write(&self, dispatch: &Dispatch) -> Result<()> {
        Ok(state::write_json(self.layout.dispatch(&dispatch.task), dispatch)?)
    }

    /// Held while one changes: a decision is made with every earlier one applied.
    fn hold(&self) -> Result<Lock> {
        Dir::make(self.layout.dispatches())?;
        Lock::take_within(self.layout.dispatches_lock(), PATIENCE)?.ok_or(Error::Busy(PATIENCE))
    }

    fn task(&self, id: &TaskId) -> Result<Task> {
        Ok(self.board.get(id)?.ok_or_else(|| task::Error::Unknown(id.clone()))?)
    }

    /// Have the board say that this incarnation has the task. One of its own from before has it no more by that; what another
    /// agent reported of it, and is handed out anew, that one gives up first. What another works on it keeps.
    fn claim(&self, dispatch: &Dispatch, generation: Generation) -> Result<Task> {
        let (task, agent) = (&dispatch.task, &dispatch.agent);
        let stands = self.task(task)?.state;
        let is_reported = matches!(stands, Stands::Ready { .. } | Stands::Blocked { .. });
        let is_anothers = stands.holder().is_some_and(|(by, _)| by != agent);
        if dispatch.state == State::Chosen && is_reported && is_anothers {
            let why = format!("it is handed out to {agent}");
            self.board.act(task, Event::Released { why })?;
            point("work.dispatch.released")?;
        }
        Ok(self.board.act(task, Event::Claimed { by: agent.clone(), generation })?)
    }
}

type Read = (Vec<Dispatch>, BTreeMap<TaskId, netsky_disk::Error>);

fn all(layout: &Layout) -> netsky_disk::Result<Read> {
    let names = match Dir::open(layout.dispatches()) {
        Err(error) if error.is_not_found() => Vec::new(),
        folder => folder?.names()?,
    };
    let tasks = names.iter().filter_map(|name| name.strip_suffix(".json")?.parse::<TaskId>().ok());
    let (mut open, mut unread) = (Vec::new(), BTreeMap::new());
    for task in tasks {
        match state::read_json(layout.dispatch(&task)) {
            Ok(found) => open.extend(found),
            Err(error) => drop(unread.insert(task, error)),
        }
    }
    Ok((open, unread))
}

/// Which tasks are about to be given to whom: nobody else takes those meanwhile.
pub(crate) fn on_their_way(layout: &Layout) -> netsky_disk::Result<BTreeMap<TaskId, AgentId>> {
    let open = all(layout)?.0.into_iter().filter(|open| open.state == State::Chosen);
    Ok(open.map(|open| (open.task, open.agent)).collect())
}

/// Whether any clone has a task in hand. What cannot be looked at may have something in it.
pub(crate) fn is_any(layout: &Layout) -> bool {
    match Dir::open(layout.dispatches()) {
        Err(error) => !error.is_not_found(),
        Ok(folder) => folder.names().is_ok_and(|names| names.iter().any(|name| name.ends_with(".json"))),
    }
}

/// Whether a fact says what became of a dispatch, or what it waits for.
fn is_word(fact: &Fact) -> bool {
    fact.kind == FINISHED || fact.kind == BLOCKED
}

fn point(name: &'static str) -> Result<()> {
    Ok(crate::point(name)?)
}

fn never(target: &Target) -> String {
    match target {
        Target::Agent(agent) => format!("{agent} never had a task in hand"),
        Target::Task(task) => format!("task {task} was never handed out"),
    }
}
