//! A task's workspace made, looked at and removed, and the record of it.

use std::collections::BTreeSet;

use netsky_disk::state;
use netsky_model::id::{AgentId, TaskId};
use netsky_model::task::State;
use serde_json::json;

use super::{Desk, Wish};
use crate::git::{Identity, Repo, Sha};
use crate::harvest::{Job, Landing, landing, owners};
use crate::workspace::{self, Elsewhere, Over, Removed, Swept, Workspace};
use crate::{Error, Result};

/// What facts of workspaces begin with.
pub(super) const WORKSPACE: &str = "workspace";
/// The fact that a workspace was made.
const CREATED: &str = "workspace.created";
/// The fact that one is gone.
const REMOVED: &str = "workspace.removed";

/// What came of the wish for a workspace.
#[derive(Debug, Clone)]
pub struct Created {
    /// It.
    pub workspace: Workspace,
    /// Whether it was there before.
    pub was_there: bool,
}

/// What a sweep has done.
#[derive(Debug)]
pub struct Sweep {
    /// What dead processes had left.
    pub swept: Swept,
    /// The tasks whose workspaces went.
    pub gone: Vec<TaskId>,
    /// The tasks that are over whose workspaces stay, and why.
    pub kept: Vec<(TaskId, String)>,
    /// What failed first; the rest was done all the same.
    pub failed: Option<Error>,
}

/// What may go with a workspace though it is kept nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// Nothing.
    None,
    /// What repositories in it have, besides its clone.
    Nested,
    /// All.
    All,
}

/// A workspace and how it stands.
#[derive(Debug, Clone)]
pub struct Standing {
    /// Whose it is.
    pub task: TaskId,
    /// It, or why it does not read.
    pub workspace: std::result::Result<Workspace, String>,
    /// Who holds the task.
    pub agent: Option<AgentId>,
    /// Bytes on the disk; none where its agent made what cannot be walked.
    pub bytes: Option<workspace::Bytes>,
    /// Whether all of it has landed, or is the owner's.
    pub has_landed: bool,
}

impl Desk<'_> {
    /// Makes a task's workspace, and the mailbox of the agent that will work there. One that is there already is said to be.
    ///
    /// # Errors
    /// There is no such task, it names no repository, that has no such branch, or the system refuses.
    pub fn create_workspace(&self, id: &TaskId, agent: Option<&AgentId>) -> Result<Created> {
        workspace::give_back(self.layout, id)?;
        let task = self.task(id)?;
        if let State::Closed { .. } = task.state {
            return Err(Error::Closed(id.clone()));
        }
        let (repo, main) = self.source(&task)?;
        let agent = agent.cloned().map_or_else(|| self.worker(&task), |agent| Ok(Some(agent)))?;
        let author = agent.as_ref().map(Identity::of_agent).transpose()?;
        let wish = workspace::Wish {
            task: id.clone(),
            repo,
            main,
            branch: None,
            author,
            share_from: workspace::SHARE_FROM,
        };
        let made = match workspace::find(self.layout, id)? {
            Some(there) => (there, true),
            None => match workspace::create(self.layout, &self.git, &wish) {
                // Somebody else was faster.
                Err(error) => (workspace::find(self.layout, id)?.ok_or(error)?, true),
                Ok(made) => (made, false),
            },
        };
        let (made, was_there) = made;
        if let Some(why) = self.moved(&task, &made)?.filter(|_| was_there) {
            return Err(Error::Unfit { path: self.layout.workspace(id), why });
        }
        if let Some(author) = wish.author.as_ref().filter(|_| was_there) {
            workspace::set_author(self.layout, id, author)?;
        }
        crate::point("work.workspace.made")?;
        if self
            .last(WORKSPACE, id.as_str())?
            .is_none_or(|last| last.kind != CREATED || last.data["made"] != json!(made.made.wall))
        {
            let data = json!({
                "task": id, "title": task.title, "repo": made.repo, "main": made.main.short(),
                "branch": made.branch.short(), "base": made.base, "agent": agent, "made": made.made.wall,
                "folder": made.folder(self.layout),
            });
            self.facts.append(CREATED, id.as_str(), data)?;
        }
        if let Some(agent) = &agent {
            self.bus.create(agent)?;
        }
        Ok(Created { workspace: made, was_there })
    }

    /// All workspaces, in the order of their tasks, or one task's.
    ///
    /// # Errors
    /// A folder cannot be read, or that task has none.
    pub fn workspaces(&self, only: Option<&TaskId>) -> Result<Vec<Standing>> {
        let all = match only {
            None => {
                // What cannot be is told by a sweep.
                let _ = workspace::give_all_back(self.layout);
                workspace::list(self.layout)?
            }
            Some(id) => {
                workspace::give_back(self.layout, id)?;
                let found = workspace::find(self.layout, id).transpose();
                vec![(id.clone(), found.ok_or_else(|| Error::NoWorkspace(id.clone()))?)]
            }
        };
        all.into_iter().map(|(task, found)| self.standing(task, found)).collect()
    }

    fn standing(&self, id: TaskId, found: Result<Workspace>) -> Result<Standing> {
        let task = self.board.get(&id)?;
        let bytes = workspace::bytes(self.layout, &id).ok();
        let has_landed = found.as_ref().is_ok_and(|found| self.is_landed(found));
        Ok(Standing {
            agent: task.map_or(Ok(None), |task| self.worker(&task))?,
            workspace: found.map_err(|error| error.to_string()),
            task: id,
            bytes,
            has_landed,
        })
    }

    /// Whether all of a workspace has landed, or is the owner's; not where that cannot be seen.
    fn is_landed(&self, workspace: &Workspace) -> bool {
        let job = self.job(workspace, &Wish::of(&workspace.task));
        let Ok(Some((job, landing))) = job.and_then(|job| Ok(landing(&job)?.map(|landing| (job, landing))))
        else {
            return false;
        };
        There::of(&job, Some(landing), workspace)
            .is_ok_and(|there| workspace::unlanded(self.layout, &workspace.task, &there).is_none())
    }

    /// Whether somebody works in a task's workspace, or may begin to: what is not committed is seen by nobody else.
    fn is_in_use(&self, id: &TaskId) -> Result<bool> {
        let is_over = self.board.get(id)?.is_some_and(|task| task.state.is_closed());
        Ok(!is_over || state::exists(self.layout.dispatch(id))?)
    }

    /// Removes a task's workspace with all that is in it, when all is kept elsewhere but what `consent` lets go.
    ///
    /// # Errors
    /// There is none, its task is not over, it has more than landed, or the system refuses.
    pub fn remove_workspace(&self, id: &TaskId, consent: Consent) -> Result<()> {
        let is_forced = consent == Consent::All;
        let lets_nested_go = consent == Consent::Nested;
        workspace::give_back(self.layout, id)?;
        let found = match workspace::find(self.layout, id) {
            // What does not read is removed by force.
            Err(_) if is_forced => None,
            found => found?,
        };
        // What has landed of it is not known any more without it.
        let known = self.board.get(id)?.filter(|task| is_forced || task.state.is_closed());
        let told =
            found.as_ref().zip(known).map(|(found, task)| self.tell_untold(&task, found, &Wish::of(id)));
        let told = match told.transpose() {
            Err(_) if is_forced => None,
            told => told?.flatten(),
        };
        let tell = |id: &TaskId| {
            let base = found.as_ref().map(|found| &found.base);
            let data = json!({ "task": id, "forced": is_forced, "nested": lets_nested_go, "base": base });
            Ok(self.facts.append(REMOVED, id.as_str(), data).map(drop)?)
        };
        let removed = match (is_forced, &found) {
            (true, _) => workspace::remove(self.layout, id, Over::Forced, &tell),
            (false, None) => return Err(Error::NoWorkspace(id.clone())),
            (false, Some(found)) => {
                let job = self.job(found, &Wish::of(id))?;
                let landing = landing(&job)?;
                if self.is_in_use(id)? {
                    return Err(match landing {
                        Some(_) => Error::InUse(id.clone()),
                        None => Error::NotLanded(id.clone(), "its branch".to_owned()),
                    });
                }
                // Where nothing has landed, what is kept elsewhere is not lost all the same.
                if let Some(landing) = &landing
                    && !landing.is_told(self.layout)?
                {
                    let why = told.into_iter().flat_map(|told| told.troubles).last();
                    let why = why.unwrap_or_else(|| "it has just landed".to_owned());
                    return Err(Error::Untold(id.clone(), why));
                }
                // Who was given it meanwhile waits for its name.
                let is_used = &|| self.is_in_use(id).unwrap_or(true);
                let elsewhere = &There::of(&job, landing, found)?;
                workspace::remove(self.layout, id, Over::Landed { elsewhere, lets_nested_go, is_used }, &tell)
            }
        };
        match removed? {
            Removed::Gone => {}
            Removed::NotThere => return Err(Error::NoWorkspace(id.clone())),
            Removed::HasMore(what) => return Err(Error::NotLanded(id.clone(), what)),
        }
        Ok(())
    }

    /// Removes what dead processes left, mirrors that no workspace is of, and the workspaces that have landed; where
    /// `lets_nested_go`, also those that only repositories in them keep.
    ///
    /// # Errors
    /// The workspaces cannot be listed.
    pub fn sweep_workspaces(&self, lets_nested_go: bool) -> Result<Sweep> {
        let consent = if lets_nested_go { Consent::Nested } else { Consent::None };
        let (mut gone, mut kept) = (Vec::new(), Vec::new());
        let mut failed = workspace::give_all_back(self.layout).err();
        for (id, found) in workspace::list(self.layout)? {
            let has_landing = match self.is_in_use(&id) {
                Ok(true) => continue,
                Ok(false) => {
                    found.and_then(|found| Ok(landing(&self.job(&found, &Wish::of(&id))?)?.is_some()))
                }
                Err(error) => Err(error),
            };
            let removed = match has_landing {
                Ok(true) => self.remove_workspace(&id, consent),
                // Nothing says that its agent had finished: what is not committed goes by a word for this one alone.
                Ok(false) => {
                    let way = format!(
                        "`netsky workspace remove {id}` says what keeps it, or takes it with what was not committed"
                    );
                    kept.push((id, format!("nothing of it has landed: {way}")));
                    continue;
                }
                Err(error) => Err(error),
            };
            match removed {
                Ok(()) => gone.push(id),
                // It is worked in, or was removed.
                Err(Error::InUse(_) | Error::NoWorkspace(_)) => {}
                // It keeps all of them.
                Err(error @ Error::Removing { .. }) => {
                    failed.get_or_insert(error);
                    break;
                }
                // The others go all the same.
                Err(error @ (Error::Disk(_) | Error::Record(_))) => {
                    if workspace::find(self.layout, &id).is_ok_and(|there| there.is_some()) {
                        kept.push((id, error.to_string()));
                    }
                    failed.get_or_insert(error);
                }
                Err(Error::NotLanded(_, what)) => {
                    kept.push((id, format!("it has what has not landed: {what}")))
                }
                Err(error) => kept.push((id, error.to_string())),
            }
        }
        let mut swept = Swept::default();
        let rest = workspace::gc(self.layout, &|id| self.tell_removed(id), &mut swept);
        Ok(Sweep { swept, gone, kept, failed: failed.or(rest.err()) })
    }

    /// That a workspace is gone whose remover died, unless it was told, or there is another by now.
    fn tell_removed(&self, id: &TaskId) -> Result<()> {
        let is_told = self.last(WORKSPACE, id.as_str())?.is_none_or(|last| last.kind != CREATED);
        if is_told || workspace::find(self.layout, id)?.is_some() {
            return Ok(());
        }
        self.facts.append(
            REMOVED,
            id.as_str(),
            json!({ "task": id, "forced": null, "nested": null, "base": null }),
        )?;
        Ok(())
    }
}

/// What of a workspace has landed, or is in a repository of the owner's; of one that was made of an address also what was there when
/// it was fetched for us last.
struct There {
    owners: Repo,
    mirror: Option<Repo>,
    landing: Option<Landing>,
    base: Sha,
}

impl There {
    fn of(job: &Job, landing: Option<Landing>, workspace: &Workspace) -> Result<There> {
        let (origin, base) = (&workspace.repo, workspace.base.clone());
        // A folder is the owner's repository itself.
        let mirror = origin.path().is_none().then(|| workspace::mirror(&job.layout, &job.git, origin));
        Ok(There { owners: owners(job)?, mirror: mirror.flatten(), landing, base })
    }
}

impl Elsewhere for There {
    fn lacks(&self, mut all: BTreeSet<Sha>) -> Result<BTreeSet<Sha>> {
        // Its changes are on `main`, by other commits; and what it began at was the owner's, who may have made that anew.
        let is_landed = |sha: &Sha| match &self.landing {
            Some(landing) => *sha == landing.tip || landing.sources.contains(sha),
            None => false,
        };
        all.retain(|sha| *sha != self.base && !is_landed(sha));
        // A copy that does not answer has nothing.
        let asked = self.mirror.as_ref().map(|mirror| mirror.lacks(all.clone()));
        all = asked.and_then(Result::ok).unwrap_or(all);
        self.owners.lacks(all).map_err(|error| Error::unfit(self.owners.dir(), error.to_string()))
    }
}
