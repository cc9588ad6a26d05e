//! What a clone says of its task, and what follows from the end of a dispatch, whoever brought it about.

use netsky_bus::Draft;
use netsky_disk::{clock, random, state};
use netsky_ledger::{Fact, latest};
use netsky_model::dispatch::{Dispatch, End, Event as Step, Illegal, State, Verdict};
use netsky_model::id::{AgentId, EnvelopeId, Generation, Sender, TaskId};
use netsky_model::task::{self, Task};
use serde_json::json;

use super::{BLOCKED, Dispatches, Error, FAMILY, FINISHED, Result, is_word, point, words};

/// Longest report in bytes: what is longer belongs into a file of the workspace.
pub const MAX_REPORT: usize = 8 * 1024;
/// The families and kinds of the facts that work which was reported done did not land, and is to be mended and reported anew.
const SENT_BACK: [(&str, &str); 2] = [("harvest", "harvest.conflict"), ("gate", "gate.failed")];

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

impl Speaker {
    /// In which incarnation it speaks of a task whose holder is known: the owner for that one.
    fn generation_after(&self, holder: Generation, task: &TaskId) -> Result<Generation> {
        let by = self.generation.unwrap_or(holder);
        match self.newest.unwrap_or(by).max(holder) {
            newest if by < newest => {
                let (task, agent) = (task.clone(), self.agent.clone());
                Err(Illegal::Late { task, agent, holder: newest, by }.into())
            }
            _ => Ok(by),
        }
    }
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

/// What is said.
type Said<'a> = (Verdict, &'a str);

impl Dispatches<'_> {
    /// Take a report of the task that the speaker has in hand: that it was handed, or has claimed itself. What it has reported of
    /// before it may speak of again by its name, as long as it is its own.
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
        let (mut open, unread) = self.open()?;
        let mut own = self.board.list()?;
        own.retain(|own| {
            let is_in_hand = unread.contains_key(&own.id) || open.iter().any(|open| open.task == own.id);
            !is_in_hand && is_own(by, own, task)
        });
        open.retain(|open| open.agent == by.agent && task.is_none_or(|task| *task == open.task));
        match (open.as_slice(), own.as_slice()) {
            ([had], []) => self.report_handed(by, had, (verdict, text)),
            ([], [own]) => self.report_own(by, own, (verdict, text)),
            ([], []) => self.before(by, task, (verdict, text)),
            _ => {
                let tasks = open.into_iter().map(|had| had.task).chain(own.into_iter().map(|own| own.id));
                Err(Error::Several { agent: by.agent.clone(), tasks: tasks.collect() })
            }
        }
    }

    /// Of what was handed out.
    fn report_handed(&self, by: &Speaker, had: &Dispatch, (verdict, text): Said<'_>) -> Result<Reported> {
        let had = &match had.state {
            // Who handed it out was killed when the clone had its brief, and that was quicker than a repeat or a tick.
            State::Chosen if self.bus.has(&had.agent, &had.brief())? => {
                self.brief_held(had, by.generation_after(Generation::NONE, &had.task)?)?
            }
            _ => had.clone(),
        };
        let holder = had.holder().unwrap_or(Generation::NONE);
        let generation = by.generation_after(holder, &had.task)?;
        let after = had.after(Step::Reported(End { verdict, text: text.to_owned(), generation }))?;
        let again = after == *had;
        if generation > holder && !again {
            self.claim(had, generation)?;
        }
        self.take(&after, by, again)
    }

    /// Of what nobody handed out, or what became of that was told before: a dispatch that is over as it begins. A later incarnation
    /// takes the claim first.
    fn report_own(&self, by: &Speaker, own: &Task, (verdict, text): Said<'_>) -> Result<Reported> {
        let holder = own.state.holder().map_or(Generation::NONE, |(_, generation)| generation);
        let generation = by.generation_after(holder, &own.id)?;
        let last = self.last_word(by, Some(&own.id))?;
        let stands = !matches!(own.state, task::State::Claimed { .. });
        if let Some(last) = last.as_ref().filter(|last| stands && is_said(last, (verdict, text)))
            && !self.is_sent_back(&own.id, last.seq)?
        {
            return self.before(by, Some(&own.id), (verdict, text));
        }
        if generation > holder {
            self.board.act(&own.id, task::Event::Claimed { by: by.agent.clone(), generation })?;
        }
        let asked_by =
            last.and_then(|last| said_of(&last, "by").parse().ok()).unwrap_or_else(|| own.by.clone());
        let begun =
            Dispatch::new(random::short(), own.id.clone(), by.agent.clone(), asked_by, clock::stamp());
        let state = State::Over(End { verdict, text: text.to_owned(), generation });
        self.take(&Dispatch { state, ..begun }, by, false)
    }

    /// What was decided is kept, and then done.
    fn take(&self, decided: &Dispatch, by: &Speaker, again: bool) -> Result<Reported> {
        self.write(decided)?;
        point("work.report.decided")?;
        self.settle_as(decided, by.is_proved)?;
        Ok(Reported { task: decided.task.clone(), dispatch: decided.id.clone(), again })
    }

    /// Of who has nothing in hand any more: the same words again are the report that was taken.
    fn before(&self, by: &Speaker, task: Option<&TaskId>, said: Said<'_>) -> Result<Reported> {
        let nothing = || Error::NothingInHand { agent: by.agent.clone(), task: task.cloned() };
        let last = self.last_word(by, task)?.filter(|last| is_said(last, said)).ok_or_else(nothing)?;
        let task = said_of(&last, "task").parse().map_err(|_| nothing())?;
        Ok(Reported { task, dispatch: said_of(&last, "dispatch").to_owned(), again: true })
    }

    /// The newest fact of what became of a task in the speaker's hands, or of any.
    fn last_word(&self, by: &Speaker, task: Option<&TaskId>) -> Result<Option<Fact>> {
        let facts = latest(self.layout, FAMILY)?.into_values();
        let his = facts.filter(|fact| {
            is_word(fact)
                && said_of(fact, "agent") == by.agent.as_str()
                && task.is_none_or(|task| said_of(fact, "task") == task.as_str())
        });
        Ok(his.max_by_key(|fact| fact.seq))
    }

    /// Whether a harvest has asked for another report since: the same words are a new one then.
    fn is_sent_back(&self, task: &TaskId, since: u64) -> Result<bool> {
        for (family, kind) in SENT_BACK {
            let is_it =
                |fact: &Fact| fact.kind == kind && fact.seq > since && said_of(fact, "task") == task.as_str();
            if latest(self.layout, family)?.values().any(is_it) {
                return Ok(true);
            }
        }
        Ok(false)
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

    /// Nobody is shown a brief again whose dispatch is over. One that is not there, or is held right now, ends by its turn: who reports
    /// may be what its reader runs, and that reader holds it until then. All others wait for us meanwhile.
    fn retire(&self, had: &Dispatch) {
        let _ = self.bus.ack_at_once(&had.agent, had.brief().as_str());
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
        let (kind, key) = match end.verdict {
            Verdict::Blocked => (BLOCKED, format!("{}/{}", had.key(), &report.as_str()[..8])),
            _ => (FINISHED, had.key()),
        };
        let data = json!({
            "task": had.task, "dispatch": had.id, "agent": had.agent, "generation": end.generation, "by": had.by,
            "verdict": end.verdict, "text": end.text,
        });
        self.facts.append_once(kind, &key, data)?;
        point("work.report.recorded")?;
        self.tell_dispatcher(had, &end, (report, is_proved))?;
        point("work.report.sent")?;
        if !is_over {
            let told = State::Blocked { generation: end.generation, text: end.text, told: true };
            return self.write(&Dispatch { state: told, ..had.clone() });
        }
        self.retire(had);
        state::remove(self.layout.dispatch(&had.task))?;
        point("work.report.over")
    }

    /// Who is told what becomes of a dispatch: whoever handed it out. Where that is nobody but the agent itself, agent0 is, which looks
    /// after what the owner hands out, too; of what agent0 does itself the owner is told by his events.
    pub(super) fn dispatcher(&self, had: &Dispatch) -> Option<AgentId> {
        let asked = had
            .by
            .as_str()
            .parse()
            .ok()
            .filter(|to| ![&had.agent, &AgentId::owner()].contains(&to) && self.bus.knows(to));
        Some(asked.unwrap_or_else(AgentId::root)).filter(|to| *to != had.agent)
    }

    fn tell_dispatcher(&self, had: &Dispatch, end: &End, (id, is_proved): (EnvelopeId, bool)) -> Result<()> {
        let Some(to) = self.dispatcher(had) else { return Ok(()) };
        // Of whom no word came the watchdog says it.
        let from = if end.verdict.is_reported() { had.agent.clone() } else { AgentId::infinity() };
        let mut draft = Draft::new(Sender::from(from), to, words::report(had, end));
        draft.kind = Some("report".to_owned());
        draft.thread = Some(had.task.to_string());
        draft.reply_to = self.bus.has(&had.agent, &had.brief())?.then(|| had.brief());
        draft.vouched = is_proved && end.verdict.is_reported();
        draft.id = Some(id);
        Ok(self.bus.send(draft).map(drop)?)
    }

    /// What a verdict makes of the task, as long as that is the clone's.
    pub(super) fn move_task(&self, had: &Dispatch, end: &End) -> Result<()> {
        let Some(stands) = self.board.get(&had.task)?.map(|task| task.state) else { return Ok(()) };
        if stands.holder() != Some((&had.agent, end.generation)) {
            return Ok(());
        }
        let verdict = match end.verdict {
            Verdict::Done => task::Verdict::Done,
            Verdict::Blocked => task::Verdict::Blocked,
            Verdict::Failed => task::Verdict::Failed,
            // What it said before its end stands.
            Verdict::Stopped | Verdict::Died if matches!(stands, task::State::Ready { .. }) => return Ok(()),
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

/// Whether a task is the speaker's own by the board: one that it is at, or any that it names and has. Which incarnation of it that is,
/// is another question.
fn is_own(by: &Speaker, own: &Task, named: Option<&TaskId>) -> bool {
    let is_meant = named.map_or(matches!(own.state, task::State::Claimed { .. }), |named| *named == own.id);
    is_meant && own.state.holder().is_some_and(|(agent, _)| *agent == by.agent)
}

/// Whether a fact says that.
fn is_said(fact: &Fact, (verdict, text): Said<'_>) -> bool {
    said_of(fact, "verdict") == verdict.word() && said_of(fact, "text") == text
}

fn said_of<'a>(fact: &'a Fact, what: &str) -> &'a str {
    fact.data[what].as_str().unwrap_or_default()
}
