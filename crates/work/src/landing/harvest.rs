//! One task's harvest: it is said that it begins, it is tried, and what came of it is said to everybody whom it concerns.

use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::random;
use netsky_ledger::Fact;
use netsky_model::id::{AgentId, TaskId};
use netsky_model::task::{Event, How, State, Task};
use serde_json::json;

use super::Desk;
use super::story::{Story, short, tail_of};
use crate::git::{RefName, Sha};
use crate::harvest::{
    Job, Landing, Mode, Outcome, Tree, harvest, is_taken_back, landing, owners, owners_at, settle,
};
use crate::workspace::{self, Workspace};
use crate::{Error, Result};

/// How often a landing is tried again when `main` moves meanwhile: each time the gate runs anew.
const RETRIES: u32 = 3;
/// How long others who harvest into the repository are waited for: longer than a gate takes.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// Longest reason in a fact, in characters: it may name files.
const MOST_WHY: usize = 2000;
/// What facts of harvests begin with.
const HARVEST: &str = "harvest";

/// What is asked of one harvest.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Whose work.
    pub task: TaskId,
    /// How it lands.
    pub mode: Mode,
    /// Say what would land, and change nothing.
    pub is_dry: bool,
    /// Whether the owner lets the branch touch what judges it.
    pub may_change_gate: bool,
}

impl Wish {
    /// The usual one.
    pub fn of(task: &TaskId) -> Wish {
        Wish { task: task.clone(), mode: Mode::Pick, is_dry: false, may_change_gate: false }
    }
}

/// What came of one.
#[derive(Debug)]
pub struct Harvested {
    /// Whose work.
    pub task: TaskId,
    /// The branch that it lands on.
    pub main: RefName,
    /// The branch that its work is on.
    pub branch: RefName,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether its branch has commits since it landed and was closed.
    pub has_more: bool,
    /// Who was told.
    pub told: Vec<AgentId>,
    /// What is done and could not be recorded, told or pushed; a repeat does what is missing.
    pub troubles: Vec<String>,
}

/// That files are behind, and what not to do about it.
fn behind(why: &str) -> String {
    format!(
        "the files that are checked out are behind: {why}; `git stash` there, for a commit would take back what landed"
    )
}

/// That `main` had what landed and has it no more, and what brings it back.
fn taken_back(task: &Task, is_there: bool, main: &RefName, sha: &Sha) -> Outcome {
    let what = if is_there { "its branch land anew" } else { "it done anew, as its workspace is gone" };
    let way = format!("`netsky task reopen {}` has {what}", task.id);
    Outcome::Refused(format!("what landed as {sha} is not on {} any more: {way}", main.short()))
}

impl Harvested {
    fn of(task: &Task, main: &RefName, branch: &RefName, outcome: Outcome) -> Harvested {
        let (task, main, branch) = (task.id.clone(), main.clone(), branch.clone());
        Harvested { task, main, branch, outcome, has_more: false, told: Vec::new(), troubles: Vec::new() }
    }
}

impl Desk<'_> {
    /// Brings a task's work to `main`.
    ///
    /// # Errors
    /// There is no such task or workspace, the task is closed and did not land, or the system fails. `main` is its old or its new
    /// tip then, and the next harvest goes on.
    pub fn harvest(&self, wish: &Wish) -> Result<Harvested> {
        workspace::give_back(self.layout, &wish.task)?;
        let task = self.task(&wish.task)?;
        let landed = match &task.state {
            State::Closed { how: How::Landed { sha, main }, .. } => {
                Some((sha.parse()?, RefName::branch(main)?))
            }
            _ => None,
        };
        let found = workspace::find(self.layout, &task.id)?;
        if landed.is_none() && task.state.is_closed() {
            // What a dead one has landed of it has landed, whatever was said of it since.
            let untold = found.as_ref().map(|found| self.tell_untold(&task, found, wish)).transpose()?;
            return untold.flatten().ok_or_else(|| Error::Closed(task.id.clone()));
        }
        let branch =
            found.as_ref().map_or_else(|| RefName::of_task(&task.id), |workspace| workspace.branch.clone());
        let said = |main: &RefName, outcome| Harvested::of(&task, main, &branch, outcome);
        let workspace = match (found, landed) {
            (None, None) if task.repo.is_none() => return Err(Error::NoRepository(task.id.clone())),
            (None, None) => return Err(Error::NoWorkspace(task.id.clone())),
            (Some(workspace), Some((sha, main))) if !wish.is_dry => {
                let said = said(&main, Outcome::AlreadyLanded { sha });
                return self.left_undone(&task, &workspace, &self.job(&workspace, wish)?, wish, said);
            }
            (found, Some((sha, main))) => {
                let outcome = self.stands(&task, found.is_some(), &main, sha)?;
                return Ok(said(&main, outcome));
            }
            (Some(workspace), None) => workspace,
        };
        let job = self.job(&workspace, wish)?;
        if let Some(why) = self.moved(&task, &workspace)? {
            return self.elsewhere(&task, &workspace, &job, wish, why);
        }
        let job = Job { seen: Some(task.clone()), ..job };
        if wish.is_dry {
            return Ok(said(&job.main, self.judged(&task, harvest(&job)?)?));
        }
        // What a dead one has landed and not told would be written over by what lands now.
        let mut said = said(&job.main, Outcome::Empty);
        let before = self.tell_landed_before(&task, &job, wish, None, &mut said)?;
        let (story, attempt) = (self.story(&task, &job, wish)?, format!("{}/{}", task.id, random::short()));
        self.facts.append("harvest.started", &attempt, story.with(json!({ "attempt": attempt })))?;
        crate::point("work.landing.started")?;
        said.outcome = match harvest(&job).and_then(|came| self.judged(&task, came)) {
            Ok(outcome) => outcome,
            Err(error) => {
                // It may have come after `main` had moved. The task stays open then, for the repeat that does the rest.
                let landed = self.tell_landed_before(&task, &job, wish, before.as_ref(), &mut said);
                let Ok(Some(landing)) = landed else {
                    // The error is what is to be told; whether the record took it changes nothing.
                    let why = story.with(json!({ "why": error.to_string() }));
                    let _ = self.facts.append("harvest.refused", &attempt, why);
                    return Err(error);
                };
                said.troubles.insert(0, error.to_string());
                return Ok(Harvested { outcome: Outcome::AlreadyLanded { sha: landing.sha }, ..said });
            }
        };
        crate::point("work.landing.harvested")?;
        self.look_back(&task, &job, wish, &mut said);
        self.fell_short(&story, &attempt, &mut said);
        Ok(said)
    }

    /// What a harvest says, in the light of what is said of the task.
    fn judged(&self, task: &Task, came: Outcome) -> Result<Outcome> {
        Ok(match came {
            Outcome::Refused(why) => match self.has_landed(task)? {
                // Another harvest has it, and its workspace went.
                Some(sha) => Outcome::AlreadyLanded { sha },
                None => Outcome::Refused(why),
            },
            // One that is closed by now was closed so by another harvest.
            Outcome::AlreadyLanded { sha }
                if self.was_closed_as(task, &sha)? && self.has_landed(task)?.is_none() =>
            {
                let way = "make anew what was reverted (`git commit --amend`, `git rebase --force-rebase`), or close it";
                Outcome::Refused(format!(
                    "its branch has nothing but what landed as {sha}, before it was reopened: {way}"
                ))
            }
            came => came,
        })
    }

    /// Of a task that is to land elsewhere than its workspace is of nothing lands; what a dead harvest has landed of it, and told
    /// nobody of, has landed all the same.
    fn elsewhere(
        &self,
        task: &Task,
        workspace: &Workspace,
        job: &Job,
        wish: &Wish,
        why: String,
    ) -> Result<Harvested> {
        let tip = workspace.tip(self.layout);
        let landed = self.untold(job)?.filter(|landing| tip.as_ref() == Some(&landing.tip));
        let outcome =
            landed.map_or(Outcome::Refused(why), |landing| Outcome::AlreadyLanded { sha: landing.sha });
        let said = Harvested::of(task, &job.main, &workspace.branch, outcome);
        if wish.is_dry { Ok(said) } else { self.left_undone(task, workspace, job, wish, said) }
    }

    /// Whether a task was closed as landed so before: whoever reopened it wants something else.
    fn was_closed_as(&self, task: &Task, sha: &Sha) -> Result<bool> {
        let is_so = |task: Task| matches!(&task.state, State::Closed { how: How::Landed { sha: as_of, .. }, .. } if *as_of == sha.as_str());
        let is_it = |fact: Fact| {
            fact.kind == "task.landed" && serde_json::from_value(fact.data["task"].clone()).is_ok_and(is_so)
        };
        Ok(self.board.history(&task.id)?.into_iter().any(is_it))
    }

    /// Tells of a landing that a dead harvest did not tell everybody of, and has its files follow; none where there is none.
    pub(super) fn tell_untold(
        &self,
        task: &Task,
        workspace: &Workspace,
        wish: &Wish,
    ) -> Result<Option<Harvested>> {
        let job = self.job(workspace, wish)?;
        let Some(landing) = self.untold(&job)? else { return Ok(None) };
        let is_all = task.state.is_closed() || workspace.tip(self.layout).as_ref() == Some(&landing.tip);
        let outcome = if is_all { Outcome::AlreadyLanded { sha: landing.sha } } else { Outcome::Empty };
        let said = Harvested::of(task, &job.main, &workspace.branch, outcome);
        if wish.is_dry {
            Ok(Some(said))
        } else {
            self.left_undone(task, workspace, &job, wish, said).map(Some)
        }
    }

    /// The landing that `main` has of a task, where not all is done and told of it.
    fn untold(&self, job: &Job) -> Result<Option<Landing>> {
        let Some(landing) = landing(job)? else { return Ok(None) };
        Ok((!landing.is_told(self.layout)?).then_some(landing))
    }

    /// What a dead harvest left undone of a task of which nothing more lands now.
    fn left_undone(
        &self,
        task: &Task,
        workspace: &Workspace,
        job: &Job,
        wish: &Wish,
        mut said: Harvested,
    ) -> Result<Harvested> {
        match settle(job) {
            Ok(why) => said.troubles.extend(why.as_deref().map(behind)),
            Err(error) => said.troubles.push(error.to_string()),
        }
        let kept = self.look_back(task, job, wish, &mut said);
        let tip = workspace.tip(self.layout);
        said.has_more = kept.zip(tip).is_some_and(|(kept, tip)| kept.tip != tip);
        Ok(said)
    }

    /// What a task has landed as that is closed by now.
    fn has_landed(&self, task: &Task) -> Result<Option<Sha>> {
        match self.task(&task.id)?.state {
            State::Closed { how: How::Landed { sha, .. }, .. } => Ok(Some(sha.parse()?)),
            _ => Ok(None),
        }
    }

    /// What is said of a landing of which nothing is done any more; where its repository cannot be looked at, what was said before.
    fn stands(&self, task: &Task, is_there: bool, main: &RefName, sha: Sha) -> Result<Outcome> {
        let target = task.repo.as_deref().map(|repo| self.target(&repo.parse()?)).transpose()?;
        let is_gone = |repo: &PathBuf| {
            owners_at(self.layout, &self.git, repo).and_then(|repo| is_taken_back(&repo, main, &sha))
        };
        Ok(match target.as_ref().map(is_gone) {
            Some(Ok(true)) => taken_back(task, is_there, main, &sha),
            _ => Outcome::AlreadyLanded { sha },
        })
    }

    fn story(&self, task: &Task, job: &Job, wish: &Wish) -> Result<Story> {
        Ok(Story::of(task, self.worker(task)?, self.asked_by(task)?, job, wish))
    }

    /// What one harvest is, of a workspace.
    pub(super) fn job(&self, workspace: &Workspace, wish: &Wish) -> Result<Job> {
        let repo = self.target(&workspace.repo)?;
        Ok(Job {
            layout: self.layout.clone(),
            git: self.git.clone(),
            main: self.branch(&repo, &workspace.main),
            repo,
            workspace: workspace.folder(self.layout),
            branch: workspace.branch.clone(),
            task: workspace.task.clone(),
            base: Some(workspace.base.clone()),
            seen: None,
            mode: wish.mode,
            gate: self.gate(workspace, wish.may_change_gate)?,
            is_dry: wish.is_dry,
            retries: RETRIES,
            patience: PATIENCE,
        })
    }

    /// The landing that `main` has of a task which is not closed, but for one that is known: recorded and told, with no word of the
    /// task, of which there may be more to come.
    fn tell_landed_before(
        &self,
        task: &Task,
        job: &Job,
        wish: &Wish,
        known: Option<&Landing>,
        said: &mut Harvested,
    ) -> Result<Option<Landing>> {
        let Some(landing) = landing(job)?.filter(|landing| known != Some(landing)) else { return Ok(None) };
        if let Err(error) = self.finish(task, job, wish, &landing, false, said) {
            said.troubles.push(error.to_string());
        }
        Ok(Some(landing))
    }

    /// What `main` has of the task by now is recorded, closed, told and pushed, whoever brought it there; that landing.
    fn look_back(&self, task: &Task, job: &Job, wish: &Wish, said: &mut Harvested) -> Option<Landing> {
        if let Outcome::AlreadyLanded { sha } = &said.outcome
            && let Ok(true) = owners(job).and_then(|repo| is_taken_back(&repo, &job.main, sha))
        {
            said.outcome = taken_back(task, true, &job.main, sha);
            return None;
        }
        let landing = match (landing(job), &said.outcome) {
            (Ok(Some(landing)), _) => landing,
            // It came there without us.
            (Ok(None), Outcome::AlreadyLanded { sha }) => Landing::without_us(job, sha),
            (Ok(None), _) => return None,
            (Err(error), _) => {
                said.troubles.push(error.to_string());
                return None;
            }
        };
        let is_over = match &said.outcome {
            Outcome::Landed(landed) => {
                if let Tree::Behind(why) = &landed.tree {
                    said.troubles.push(behind(why));
                }
                true
            }
            outcome => matches!(outcome, Outcome::AlreadyLanded { .. }),
        };
        if let Err(error) = self.finish(task, job, wish, &landing, is_over, said) {
            said.troubles.push(error.to_string());
        }
        Some(landing)
    }

    /// After `main` has it: the fact, the task, the messages, the push, each once however often this is asked.
    fn finish(
        &self,
        task: &Task,
        job: &Job,
        wish: &Wish,
        landing: &Landing,
        is_over: bool,
        said: &mut Harvested,
    ) -> Result<()> {
        let key = format!("{}/{}", landing.task, landing.sha);
        let files = landing.files(job)?;
        let mut story = self.story(task, job, wish)?;
        let data = story.landed(landing, &files);
        let is_again = self.facts.append_once("harvest.landed", &key, data)?.repeated;
        if is_again {
            // Who did it is not said of a task any more that is closed.
            let first = self.last(HARVEST, &key)?;
            story.agent =
                first.and_then(|fact| serde_json::from_value(fact.data["agent"].clone()).ok()).flatten();
        }
        crate::point("work.landing.recorded")?;
        let mut is_closed = false;
        if is_over {
            // Who cannot be closed has landed all the same.
            match self.close(task, landing, is_again) {
                Ok(()) => is_closed = true,
                Err(error) => said.troubles.push(error.to_string()),
            }
            crate::point("work.landing.closed")?;
        }
        let is_told = self.tell_landed(&story, landing, &files, said);
        crate::point("work.landing.told")?;
        if is_closed && is_told {
            landing.keep_told(self.layout)?;
        }
        self.push(job, landing, said)
    }

    /// Closes the task; one that another harvest closed is closed, and of one that was ended meanwhile otherwise it is said anew: but
    /// not where it had been closed so before, of which `is_again` there is a fact.
    fn close(&self, task: &Task, landing: &Landing, is_again: bool) -> Result<()> {
        let (sha, main) = (landing.sha.to_string(), landing.main.short().to_owned());
        match self.task(&landing.task)?.state {
            State::Closed { how: How::Landed { .. }, .. } => return Ok(()),
            State::Closed { .. } if is_again && self.was_closed_as(task, &landing.sha)? => return Ok(()),
            State::Closed { .. } => {
                let why = format!("its work landed meanwhile as {sha}");
                self.board.act(&landing.task, Event::Reopened { why })?;
            }
            _ => {}
        }
        Ok(self.board.act(&landing.task, Event::Landed { sha, main }).map(drop)?)
    }

    /// What did not land: the fact, and a message to whom it concerns.
    fn fell_short(&self, story: &Story, attempt: &str, said: &mut Harvested) {
        let why: String = said.why().chars().take(MOST_WHY).collect();
        let (kind, data) = match &said.outcome {
            Outcome::Landed(_) | Outcome::AlreadyLanded { .. } | Outcome::WouldLand { .. } => return,
            Outcome::Conflict { commit, files } => {
                ("harvest.conflict", json!({ "commit": commit, "files": short(files) }))
            }
            Outcome::GateFailed { status, log, shut } => {
                let told = tail_of(log);
                (
                    "gate.failed",
                    json!({ "status": status, "log": log, "sandbox": shut, "tail": told, "why": why }),
                )
            }
            Outcome::DirtyMain { files } => ("harvest.refused", json!({ "files": short(files), "why": why })),
            Outcome::Behind { .. } | Outcome::Empty | Outcome::Refused(_) | Outcome::Moved { .. } => {
                ("harvest.refused", json!({ "why": why }))
            }
        };
        if let Err(error) = self.facts.append(kind, attempt, story.with(data)) {
            said.troubles.push(format!("it is not recorded: {error}"));
        }
        self.tell_short(story, attempt, said);
    }
}
