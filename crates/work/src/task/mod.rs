//! The board: every task of a home, as the facts of the record have them.
//!
//! Promise: what happens to a task is decided under the record's lock, after all earlier facts are applied, and is true once it is
//! durable; of many who claim one task, one has it. Each fact holds the whole task after it, so the newest fact of a key is the
//! task. A claim whose generation has ended is told as released before the next one is told.
//! Leaves to others: what may happen to a task and who may have it happen (`model::task`).
//!
//! Reading order: [`Board`] → `decide` → `sessions` (who has ended) → `briefs` → `transfer`.

mod briefs;
mod decide;
mod sessions;
mod transfer;

use std::collections::BTreeMap;
use std::path::Path;

use netsky_disk::layout::Layout;
use netsky_disk::{clock, state};
use netsky_ledger::{Fact, Facts, Mark, end_of_facts, facts_after, latest};
use netsky_model::id::{AgentId, BriefDigest, Generation, TaskId};
use netsky_model::task::{Actor, Draft, Event, Illegal, State, Task, Unfit, next, place};
use netsky_runtime::Config;

use crate::dispatch;
use crate::git::Remote;
use decide::{Decision, next_number, read};
use sessions::Sessions;

pub use transfer::{Imported, Line, MAX_IMPORT, MAX_LINES};

/// How the kind of every fact of a task begins.
pub(crate) const FAMILY: &str = "task";

/// Why nothing came of it; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, a lock.
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
    /// The record took no fact, or does not read.
    #[error(transparent)]
    Record(#[from] netsky_ledger::Error),
    /// Which sessions there are is not known.
    #[error(transparent)]
    Kernel(#[from] netsky_kernel::client::ClientError),
    /// What cannot happen to a task as it stands.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// What is another's to do.
    #[error(transparent)]
    Denied(#[from] netsky_model::task::Denied),
    /// A text or a name that no task may have.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// A name that git would not take.
    #[error(transparent)]
    Name(#[from] crate::git::BadName),
    /// Another is about to be given it.
    #[error("task {id} is about to be given to {to}")]
    HandedOut {
        /// Which.
        id: TaskId,
        /// To whom.
        to: AgentId,
    },
    /// A folder that an agent named and the owner did not.
    #[error(
        "the folder {0} is no repository under [repositories] of config.toml: only the owner and agent0 name others"
    )]
    NotNamed(String),
    /// The settings do not read, and an agent named a folder.
    #[error(transparent)]
    Config(#[from] netsky_runtime::ConfigError),
    /// There is no such task.
    #[error("there is no task {0}")]
    Unknown(TaskId),
    /// There is one already.
    #[error("there is a task {0} already")]
    Exists(TaskId),
    /// It is to come after others that are not closed.
    #[error("task {id} waits for {}", list(.on))]
    Waits {
        /// Which.
        id: TaskId,
        /// For which.
        on: Vec<TaskId>,
    },
    /// Tasks that would wait for one another.
    #[error("tasks would wait for one another: {}", .0.iter().map(TaskId::as_str).collect::<Vec<_>>().join(" after "))]
    Cycle(Vec<TaskId>),
    /// A fact of a task that does not hold one.
    #[error("the record's fact {seq} holds no task that this program understands: {why}")]
    Unread {
        /// Its place.
        seq: u64,
        /// Why.
        why: String,
    },
    /// The text of a brief is not what it was.
    #[error("the brief of task {id} is {why}: its file is {digest}")]
    Brief {
        /// Whose.
        id: TaskId,
        /// Which file.
        digest: BriefDigest,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A line that is no task, or not one that fits what is there.
    #[error("line {line}: {why}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

/// A result of the board.
pub type Result<T> = std::result::Result<T, Error>;

/// Every task, by its id.
pub(crate) type Tasks = BTreeMap<TaskId, Task>;

fn list(ids: &[TaskId]) -> String {
    ids.iter().map(TaskId::as_str).collect::<Vec<_>>().join(", ")
}

/// A claim that is over because its generation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Over {
    /// Of which task.
    pub task: TaskId,
    /// Which generation.
    pub why: String,
}

fn ended(by: &AgentId, generation: Generation) -> String {
    format!("generation {generation} of {by} has ended")
}

/// Every task of a home, for one who has things happen to them.
#[derive(Debug)]
pub struct Board {
    layout: Layout,
    facts: Facts,
    actor: Actor,
}

impl Board {
    /// The tasks of the home at `layout`; what is done to them is done by `actor`, and asked whether it may. Opens nothing yet.
    pub fn new(layout: &Layout, actor: Actor) -> Board {
        Board { layout: layout.clone(), facts: Facts::new(layout), actor }
    }

    /// Every task, numbers first and by their size.
    ///
    /// # Errors
    /// The record does not read.
    pub fn list(&self) -> Result<Vec<Task>> {
        let mut all: Vec<Task> = self.tasks()?.into_values().collect();
        all.sort_by(|one, other| place(&one.id).cmp(&place(&other.id)));
        Ok(all)
    }

    /// One task; none if there is none.
    ///
    /// # Errors
    /// As [`Board::list`].
    pub fn get(&self, id: &TaskId) -> Result<Option<Task>> {
        Ok(self.tasks()?.remove(id))
    }

    /// What the record says of a task, oldest first: its own facts, and those whose key begins with its id and a slash.
    ///
    /// # Errors
    /// As [`Board::list`].
    pub fn history(&self, id: &TaskId) -> Result<Vec<Fact>> {
        let is_of = |fact: &Fact| {
            let rest = fact.key.strip_prefix(id.as_str());
            let is_work = ["task.", "workspace.", "clone.", "harvest.", "gate."]
                .iter()
                .any(|family| fact.kind.starts_with(family));
            is_work && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut facts = netsky_ledger::facts(&self.layout)?;
        facts.retain(is_of);
        Ok(facts)
    }

    /// Makes a task.
    ///
    /// # Errors
    /// Its id is taken, it waits for what is not there, or for itself; or the record takes no fact.
    pub fn create(&self, draft: Draft) -> Result<Task> {
        self.may_name(draft.repo.as_deref())?;
        self.facts.decide(|deciding| {
            let mut tasks = read(deciding.latest(FAMILY)?)?;
            let id = match &draft.id {
                Some(id) if tasks.contains_key(id) => return Err(Error::Exists(id.clone())),
                Some(id) => id.clone(),
                None => next_number(&tasks),
            };
            let task = draft.into_task(id, self.actor.name(), clock::wall());
            decide::put(&mut tasks, &task)?;
            let mut decision = Decision::by(&self.actor);
            decision.tell("created", serde_json::json!({}), &task)?;
            decision.record(deciding)?;
            Ok(task)
        })
    }

    /// Refuses a folder that an agent names and the owner does not: work would land there, and his git run in it (A8).
    fn may_name(&self, repo: Option<&str>) -> Result<()> {
        let (Actor::Agent(..), Some(named)) = (&self.actor, repo) else { return Ok(()) };
        let remote: Remote = named.parse()?;
        let Some(path) = remote.path() else { return Ok(()) };
        let config = Config::load(&self.layout)?;
        // By its words: a link of the agent's may lead elsewhere by the time that work lands.
        let is_own = |own: &Path| own == path || own.canonicalize().is_ok_and(|real| real == path);
        match config.repositories.values().any(|own| is_own(&own.path)) {
            true => Ok(()),
            false => Err(Error::NotNamed(crate::git::plain_line(named))),
        }
    }

    /// Has something happen to a task; the task after it. What is there already is not told again.
    ///
    /// # Errors
    /// It cannot happen, is not this actor's to do, or the record takes no fact.
    pub fn act(&self, id: &TaskId, event: Event) -> Result<Task> {
        if let Event::Updated(change) = &event {
            self.may_name(change.repo.as_deref())?;
        }
        let mut ended = None;
        loop {
            let done = self.facts.decide(|deciding| {
                self.is_left_to(id, &event)?;
                decide::act(deciding, &self.actor, id, &event, ended.as_ref())
            });
            match done {
                // Whether it has ended is asked without the lock: a generation that has stays so.
                Err(Error::Illegal(Illegal::Held { by, generation, .. }))
                    if matches!(&event, Event::Claimed { by: to, .. } if *to == by || !self.is_in_hand(id))
                        && ended.is_none()
                        && Sessions::look(&self.layout)?.has_ended(&by, generation) =>
                {
                    ended = Some((by, generation));
                }
                done => return done,
            }
        }
    }

    /// Claims what an agent is to do: what this generation has claimed already, else the next that is free. None if there is none.
    ///
    /// # Errors
    /// As [`Board::act`].
    pub fn claim_next(&self, by: &AgentId, generation: Generation) -> Result<Option<Task>> {
        let claimed = || {
            self.facts.decide(|deciding| {
                let mut tasks = read(deciding.latest(FAMILY)?)?;
                for (id, to) in dispatch::on_their_way(&self.layout)?.into_iter().filter(|(_, to)| to != by) {
                    tasks.entry(id).and_modify(|task| task.assignee = Some(to));
                }
                let mine = State::Claimed { by: by.clone(), generation };
                let Some(task) = tasks.values().find(|task| task.state == mine).or_else(|| next(&tasks, by))
                else {
                    return Ok(None);
                };
                let (id, event) = (task.id.clone(), Event::Claimed { by: by.clone(), generation });
                decide::act_on(tasks, deciding, &self.actor, &id, &event, None).map(Some)
            })
        };
        match claimed()? {
            None if !self.release_ended()?.is_empty() => claimed(),
            claimed => Ok(claimed),
        }
    }

    /// Releases what generations that have ended had claimed; which those are.
    ///
    /// # Errors
    /// Which sessions there are is not known, or the record takes no fact.
    pub fn release_ended(&self) -> Result<Vec<Over>> {
        if !self.tasks()?.values().any(|task| self.is_released_with_its_claimant(task)) {
            return Ok(Vec::new());
        }
        let sessions = Sessions::look(&self.layout)?;
        self.facts.decide(|deciding| {
            let (mut decision, mut released) = (Decision::by(&self.actor), Vec::new());
            for task in read(deciding.latest(FAMILY)?)?
                .into_values()
                .filter(|task| self.is_released_with_its_claimant(task))
            {
                let Some((by, generation)) = task.state.holder() else { continue };
                if sessions.has_ended(by, generation) {
                    decision.release(&task, by, generation)?;
                    released.push(Over { task: task.id.clone(), why: ended(by, generation) });
                }
            }
            decision.record(deciding)?;
            Ok(released)
        })
    }

    /// Refuses a claim of what is about to be given to another.
    fn is_left_to(&self, id: &TaskId, event: &Event) -> Result<()> {
        let Event::Claimed { by, .. } = event else { return Ok(()) };
        match dispatch::on_their_way(&self.layout)?.remove(id) {
            Some(to) if to != *by => Err(Error::HandedOut { id: id.clone(), to }),
            _ => Ok(()),
        }
    }

    /// Whether a claim ends with the session that made it.
    fn is_released_with_its_claimant(&self, task: &Task) -> bool {
        is_claimed(task) && !self.is_in_hand(&task.id)
    }

    /// Whether a clone was handed it: the claim follows the clone through its deaths, and ends with the dispatch. What cannot be
    /// looked at may be.
    fn is_in_hand(&self, id: &TaskId) -> bool {
        state::exists(self.layout.dispatch(id)).unwrap_or(true)
    }

    fn tasks(&self) -> Result<Tasks> {
        read(latest(&self.layout, FAMILY)?)
    }
}

/// What was seen of the claims of a home, for who looks often: what stands in the record is read again where something of a task was
/// recorded since.
#[derive(Debug, Default)]
pub struct Claims {
    seen: Option<(Mark, bool)>,
}

impl Claims {
    /// Whether any task is claimed, or in a clone's hands: only then a tick has something to look at. What does not read it tells.
    pub fn is_any(&mut self, layout: &Layout) -> bool {
        self.seen = self.look(layout).ok();
        dispatch::is_any(layout) || self.seen.is_none_or(|(_, is_any)| is_any)
    }

    fn look(&self, layout: &Layout) -> Result<(Mark, bool)> {
        let mark = match self.seen {
            // First: what is recorded meanwhile is met by the next look.
            None => end_of_facts(layout)?,
            Some((seen, is_any)) => {
                let (facts, mark, passed) = facts_after(layout, seen)?;
                let is_of_a_task =
                    |fact: &Fact| fact.kind.split_once('.').is_some_and(|(of, _)| of == FAMILY);
                if passed.is_empty() && !facts.iter().any(is_of_a_task) {
                    return Ok((mark, is_any));
                }
                mark
            }
        };
        Ok((mark, read(latest(layout, FAMILY)?)?.values().any(is_claimed)))
    }
}

fn is_claimed(task: &Task) -> bool {
    matches!(task.state, State::Claimed { .. })
}
