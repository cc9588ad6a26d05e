//! What a task's last landing was, kept from before `main` moves: who comes after a death says of it what the dead one would have.

use netsky_disk::state;
use netsky_model::id::TaskId;
use serde::{Deserialize, Serialize};

use super::job::Job;
use super::target::owners;
use crate::Result;
use crate::gate::Shut;
use crate::git::{RefName, Repo, Sha, plain_line};

/// A task's last landing, as it was about to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landing {
    v: u32,
    /// Whose work it is.
    pub task: TaskId,
    /// What moved.
    pub main: RefName,
    /// From where.
    pub old: Sha,
    /// And where to: the last commit that landed.
    pub sha: Sha,
    /// The commit of the branch that it is up to; what a workspace may be removed by.
    pub tip: Sha,
    /// How many commits.
    pub commits: usize,
    /// What the gate was shut in by; none if there is no gate.
    pub gate: Option<Shut>,
}

impl Landing {
    pub(super) fn new(
        job: &Job,
        (old, sha, tip): (&Sha, &Sha, &Sha),
        commits: usize,
        gate: Option<Shut>,
    ) -> Landing {
        let (task, main) = (job.task.clone(), job.main.clone());
        Landing { v: 1, task, main, old: old.clone(), sha: sha.clone(), tip: tip.clone(), commits, gate }
    }

    /// One that is there and that no harvest of ours made.
    pub(crate) fn without_us(job: &Job, sha: &Sha) -> Landing {
        Landing::new(job, (sha, sha, sha), 0, None)
    }

    pub(super) fn keep(&self, job: &Job) -> Result<()> {
        Ok(state::write_json(job.layout.landing(&job.task), self)?)
    }

    /// The files that it changed, as plain text.
    ///
    /// # Errors
    /// The repository is not there, or git fails.
    pub fn files(&self, job: &Job) -> Result<Vec<String>> {
        changed(&owners(job)?, &self.old, &self.sha)
    }
}

/// The files that are not the same in two commits, as plain text.
pub(super) fn changed(repo: &Repo, one: &Sha, other: &Sha) -> Result<Vec<String>> {
    let args = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", one.as_str(), other.as_str()];
    let told = repo.bytes(&args, &[])?;
    let names = told.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| plain_line(&String::from_utf8_lossy(name))).collect())
}

/// The last landing of a task, if `main` has it; one that never came to be is none.
///
/// # Errors
/// The repository is not there, or git fails.
pub fn landing(job: &Job) -> Result<Option<Landing>> {
    let kept: Option<Landing> = state::read_json(job.layout.landing(&job.task))?;
    let Some(kept) = kept.filter(|kept| kept.main == job.main) else { return Ok(None) };
    let repo = owners(job)?;
    let Some(main) = repo.commit(job.main.as_str())? else { return Ok(None) };
    let is_there =
        kept.sha == main || repo.commit(kept.sha.as_str())?.is_some() && repo.is_before(&kept.sha, &main)?;
    Ok(is_there.then_some(kept))
}
