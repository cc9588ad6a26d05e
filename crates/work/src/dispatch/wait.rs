//! Waiting for what becomes of dispatches: whoever waits wakes when one of their files changes.

use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::fs::Dir;
use netsky_disk::watch::Watch;
use netsky_ledger::latest;
use netsky_model::dispatch::{Dispatch, State, Verdict};
use netsky_model::id::{AgentId, TaskId};

use super::{Dispatches, Error, FAMILY, Result, is_word};

/// Slow look, for what gave no event.
const RESCAN: Duration = Duration::from_secs(5);

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// What an agent has in hand, or had last.
    Agent(AgentId),
    /// The last dispatch of a task.
    Task(TaskId),
}

/// One of the things that were waited for.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Waited {
    /// Which task.
    pub task: TaskId,
    /// In which dispatch.
    pub dispatch: String,
    /// With whom.
    pub agent: AgentId,
    /// What became of it; nothing yet if none.
    pub verdict: Option<Verdict>,
    /// In whose words.
    pub text: Option<String>,
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All are done.
    Done(Vec<Waited>),
    /// One of them is not going to be, or waits for somebody's word.
    Not(Vec<Waited>),
    /// The time is over.
    TooLate(Vec<Waited>),
}

impl Dispatches<'_> {
    /// Wait until all are done, or one is known not to be.
    ///
    /// # Errors
    /// A target has nothing in hand and never had, or the record does not read.
    pub fn wait(&self, targets: &[Target], limit: Option<Duration>) -> Result<Outcome> {
        Dir::make(self.layout.dispatches())?;
        let watch = Watch::new(&[self.layout.dispatches()])?;
        let until = limit.map(|limit| clock::boot() + limit);
        let mut waited = self.targets(targets)?;
        loop {
            for one in waited.iter_mut().filter(|one| one.verdict.is_none()) {
                (one.verdict, one.text) = self.verdict(one)?.unzip();
            }
            let is =
                |fits: fn(Verdict) -> bool| waited.iter().filter(|one| one.verdict.is_some_and(fits)).count();
            if is(|verdict| verdict != Verdict::Done) > 0 {
                return Ok(Outcome::Not(waited));
            }
            if is(|verdict| verdict == Verdict::Done) == waited.len() {
                return Ok(Outcome::Done(waited));
            }
            let left = until.map_or(RESCAN, |until| until.saturating_sub(clock::boot()));
            if left.is_zero() {
                return Ok(Outcome::TooLate(waited));
            }
            watch.wait(left.min(RESCAN))?;
        }
    }

    /// What is meant by the targets.
    fn targets(&self, targets: &[Target]) -> Result<Vec<Waited>> {
        let open = self.readable()?;
        let facts = latest(self.layout, FAMILY)?;
        let mut waited = Vec::new();
        for target in targets {
            let (task, agent) = match target {
                Target::Agent(agent) => (None, Some(agent)),
                Target::Task(task) => (Some(task), None),
            };
            let fits = |of: &Dispatch| {
                task.is_none_or(|task| *task == of.task) && agent.is_none_or(|agent| *agent == of.agent)
            };
            let before = waited.len();
            waited.extend(open.iter().filter(|open| fits(open)).map(|open| Waited {
                task: open.task.clone(),
                dispatch: open.id.clone(),
                agent: open.agent.clone(),
                verdict: None,
                text: None,
            }));
            if waited.len() > before {
                continue;
            }
            let ended = facts.values().filter(|fact| is_word(fact)).filter_map(|fact| {
                let of = |what: &str| fact.data[what].as_str();
                let (its, whose) = (of("task")?.parse().ok()?, of("agent")?.parse().ok()?);
                let is_it = task.is_none_or(|task| *task == its) && agent.is_none_or(|agent| *agent == whose);
                let dispatch = of("dispatch")?.to_owned();
                let one = Waited { task: its, dispatch, agent: whose, verdict: None, text: None };
                is_it.then_some((fact.seq, one))
            });
            let last = ended.max_by_key(|(seq, _)| *seq).map(|(_, one)| one);
            waited.push(last.ok_or_else(|| Error::NeverDispatched(target.clone()))?);
        }
        Ok(waited)
    }

    /// What became of one; none if nothing yet.
    fn verdict(&self, of: &Waited) -> Result<Option<(Verdict, String)>> {
        if let Some(open) = self.read(&of.task)?.filter(|open| open.id == of.dispatch) {
            return Ok(match self.by_now(open).state {
                State::Blocked { text, .. } => Some((Verdict::Blocked, text)),
                // Told when its file goes.
                State::Chosen | State::Briefed { .. } | State::Over(_) => None,
            });
        }
        // Told before the file went; one that was taken back before anybody was told has no fact.
        let facts = latest(self.layout, FAMILY)?;
        let said = facts.values().filter(|fact| is_word(fact) && fact.data["dispatch"] == of.dispatch);
        let end = said.max_by_key(|fact| fact.seq);
        let Some(end) = end else { return Ok(Some((Verdict::Stopped, "it was taken back".to_owned()))) };
        let verdict = serde_json::from_value(end.data["verdict"].clone()).unwrap_or(Verdict::Died);
        Ok(Some((verdict, end.data["text"].as_str().unwrap_or_default().to_owned())))
    }
}
