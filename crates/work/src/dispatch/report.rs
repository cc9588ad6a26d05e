//! What a clone says of its task, and what follows from the end of a dispatch, whoever brought it about.

use netsky_bus::Draft;
use netsky_disk::state;
use netsky_ledger::latest;
use netsky_model::dispatch::{Dispatch, End, Event as Step, Illegal, State, Verdict};
use netsky_model::id::{AgentId, EnvelopeId, Generation, Sender, TaskId};
use netsky_model::task;
use serde_json::json;

use super::{BLOCKED, Dispatches, Error, FAMILY, FINISHED, Result, dispatcher, point, words};

/// Longest report in bytes: what is longer belongs into a file of the workspace.
pub const MAX_REPORT: usize = 8 * 1024;

/// Who reports.
#[derive(Debug, Clone)]
pub struct Speaker {
    /// Which agent.
    pub agent: AgentId,
    /// In which incarnation; none where the owner speaks for it.
    pub generation: Option<Generation>,
    /// Its newest incarnation, where that is known.
    pub newest: Option<Generation>,
    /// It has proved that it is who it says.
    pub is_proved: bool,
}

/// A report that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// Of which task.
    pub task: TaskId,
    /// In which dispatch.
    pub dispatch: String,
    /// It was taken before, in the same words.
    pub again: bool,
}

impl Dispatches<'_> {
    /// Take a report of the task that the speaker has in hand.
    ///
    /// # Errors
    /// It has none or several, an earlier incarnation speaks, or it was reported otherwise before; nothing was changed. What could not
    /// be told everybody a repeat or a tick tells.
    pub fn report(
        &self,
        by: &Speaker,
        task: Option<&TaskId>,
        verdict: Verdict,
        text: &str,
    ) -> Result<Reported> {
        if text.trim().is_empty() || text.len() > MAX_REPORT {
            return Err(Error::BadReport(format!("it has {} bytes, of 1 to {MAX_REPORT}", text.len())));
        }
        let _held = self.hold()?;
        let mut his = self.readable()?;
        his.retain(|open| open.agent == by.agent && task.is_none_or(|task| *task == open.task));
        let [had] = his.as_slice() else {
            return match his.is_empty() {
                true => self.before(by, task, (verdict, text)),
                false => {
                    let (agent, tasks) = (by.agent.clone(), his.into_iter().map(|had| had.task).collect());
                    Err(Error::Several { agent, tasks })
                }
            };
        };
        let holder = had.holder().unwrap_or(Generation::NONE);
        let generation = by.generation.unwrap_or(holder);
        if let Some(newest) = by.newest.filter(|newest| generation < *newest) {
            let (task, agent) = (had.task.clone(), had.agent.clone());
            return Err(Illegal::Late { task, agent, holder: newest, by: generation }.into());
        }
        let said = End { verdict, text: text.to_owned(), generation };
        let after = had.after(Step::Reported(said))?;
        let again = after == *had;
        if generation > holder && !again {
            self.claim(had, generation)?;
        }
        self.write(&after)?;
        point("work.report.decided")?;
        self.settle_as(&after, by.is_proved)?;
        Ok(Reported { task: after.task, dispatch: after.id, again })
    }

    /// Of who has nothing in hand any more: the same words again are the report that was taken.
    fn before(
        &self,
        by: &Speaker,
        task: Option<&TaskId>,
        (verdict, text): (Verdict, &str),
    ) -> Result<Reported> {
        let facts = latest(self.layout, FAMILY)?;
        let ends = facts.values().filter(|fact| fact.kind == FINISHED);
        let his = ends.filter(|fact| {
            let of = |what: &str| fact.data[what].as_str();
            of("agent") == Some(by.agent.as_str())
                && task.is_none_or(|task| of("task") == Some(task.as_str()))
        });
        let nothing = || Error::NothingInHand { agent: by.agent.clone(), task: task.cloned() };
        let last = his.max_by_key(|fact| fact.seq).ok_or_else(nothing)?;
        let of = |what: &str| last.data[what].as_str().unwrap_or_default();
        if of("verdict") != verdict.word() || of("text") != text {
            return Err(nothing());
        }
        let task = of("task").parse().map_err(|_| nothing())?;
        Ok(Reported { task, dispatch: of("dispatch").to_owned(), again: true })
    }

    /// End what an agent has in hand without a word of its own: it was stopped, on purpose. Which tasks that were.
    ///
    /// # Errors
    /// What could not be told everybody a tick tells.
    pub fn end(&self, agent: &AgentId, verdict: Verdict, text: &str) -> Result<Vec<TaskId>> {
        let _held = self.hold()?;
        let mut tasks = Vec::new();
        for had in self.readable()?.into_iter().filter(|had| had.agent == *agent) {
            self.end_held(&had, verdict, text)?;
            tasks.push(had.task);
        }
        Ok(tasks)
    }

    /// The same of one, of who holds the lock.
    pub(super) fn end_held(&self, had: &Dispatch, verdict: Verdict, text: &str) -> Result<()> {
        let over = match had.state {
            State::Over(_) => had.clone(),
            // Nobody was told of it.
            State::Chosen => return self.forget(had),
            _ => had.after(Step::Ended(verdict, text.to_owned()))?,
        };
        self.write(&over)?;
        point("work.dispatch.over")?;
        self.settle(&over)
    }

    /// Of one that was decided and not told to anybody nothing stays: whoever died while it was sent told nobody either.
    pub(super) fn forget(&self, had: &Dispatch) -> Result<()> {
        self.retire(had);
        Ok(state::remove(self.layout.dispatch(&had.task)).map(drop)?)
    }

    /// Nobody is shown a brief again whose dispatch is over. One that is not there, or is held right now, ends by its turn.
    fn retire(&self, had: &Dispatch) {
        let _ = self.bus.ack(&had.agent, had.brief().as_str());
    }

    /// Tell a clone that lives on, and said nothing itself, that a task is its no more.
    pub(super) fn tell_taken(&self, had: &Dispatch, why: &str) -> Result<()> {
        let text = format!("Task {} is yours no more: {why}. Leave its folder as it is.", had.task);
        let mut draft = Draft::new(AgentId::root().into(), had.agent.clone(), text);
        draft.kind = Some("note".to_owned());
        draft.thread = Some(had.task.to_string());
        draft.id = Some(EnvelopeId::derived(&["taken", had.task.as_str(), &had.id]));
        Ok(self.bus.send(draft).map(drop)?)
    }

    /// Everybody is told of what was decided; safe to repeat.
    pub(super) fn settle(&self, had: &Dispatch) -> Result<()> {
        self.settle_as(had, false)
    }

    fn settle_as(&self, had: &Dispatch, is_proved: bool) -> Result<()> {
        let (end, is_over) = match &had.state {
            State::Over(end) => (end.clone(), true),
            State::Blocked { generation, text, told: false } => {
                (End { verdict: Verdict::Blocked, text: text.clone(), generation: *generation }, false)
            }
            State::Chosen | State::Briefed { .. } | State::Blocked { .. } => return Ok(()),
        };
        self.move_task(had, &end)?;
        point("work.report.moved")?;
        let report = had.report(&end);
        let data = json!({
            "task": had.task, "dispatch": had.id, "agent": had.agent, "generation": end.generation, "by": had.by,
            "verdict": end.verdict, "text": end.text,
        });
        match is_over {
            true => self.facts.append_once(FINISHED, &had.key(), data)?,
            false => {
                self.facts.append_once(BLOCKED, &format!("{}/{}", had.key(), &report.as_str()[..8]), data)?
            }
        };
        point("work.report.recorded")?;
        // Of whom no word came the watchdog says it.
        let from = if end.verdict.is_reported() { had.agent.clone() } else { AgentId::infinity() };
        let mut draft = Draft::new(Sender::from(from), dispatcher(&had.by), words::report(had, &end));
        draft.kind = Some("report".to_owned());
        draft.thread = Some(had.task.to_string());
        draft.reply_to = self.bus.has(&had.agent, &had.brief())?.then(|| had.brief());
        draft.vouched = is_proved && end.verdict.is_reported();
        draft.id = Some(report);
        self.bus.send(draft)?;
        point("work.report.sent")?;
        if !is_over {
            let told = State::Blocked { generation: end.generation, text: end.text, told: true };
            return self.write(&Dispatch { state: told, ..had.clone() });
        }
        self.retire(had);
        state::remove(self.layout.dispatch(&had.task))?;
        point("work.report.over")
    }

    /// What a verdict makes of the task, as long as that is the clone's.
    fn move_task(&self, had: &Dispatch, end: &End) -> Result<()> {
        let Some(stands) = self.board.get(&had.task)?.map(|task| task.state) else { return Ok(()) };
        let is_his = stands.holder() == Some((&had.agent, end.generation));
        let is_said = matches!(stands, task::State::Ready { .. });
        if !is_his || is_said {
            return Ok(());
        }
        let verdict = match end.verdict {
            Verdict::Done => task::Verdict::Done,
            Verdict::Blocked => task::Verdict::Blocked,
            Verdict::Failed => task::Verdict::Failed,
            Verdict::Stopped | Verdict::Died => {
                let why = format!("{} {}: {}", had.agent, end.verdict, end.text);
                return Ok(self.board.act(&had.task, task::Event::Released { why }).map(drop)?);
            }
        };
        let (by, generation) = (had.agent.clone(), end.generation);
        let said = task::Event::Reported { verdict, text: end.text.clone(), by, generation };
        Ok(self.board.act(&had.task, said).map(drop)?)
    }
}
