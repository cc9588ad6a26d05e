//! What a task's last landing was, kept from before `main` moves: who comes after a death says of it what the dead one would have.

use std::collections::BTreeSet;

use netsky_disk::layout::Layout;
use netsky_disk::state;
use netsky_model::id::TaskId;
use serde::{Deserialize, Serialize};

use super::job::Job;
use super::target::owners;
use crate::Result;
use crate::gate::Shut;
use crate::git::{RefName, Repo, Sha, plain_line};

/// Most commits that are known by name to have landed of a task.
const MOST_SOURCES: usize = 4096;

/// What is kept of them.
#[derive(Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    last: Landing,
    /// The one before it: as long as `main` has not the last one, and that may never come to be, this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Landing>,
}

/// The landings of a task of which everybody was told. Not in one file with the last of them: that one changes under the lock of
/// the repository alone.
#[derive(Default, Serialize, Deserialize)]
struct Told {
    v: u32,
    #[serde(default)]
    all: BTreeSet<Sha>,
}

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
    /// The commits of the branch that have landed, by this landing and by those before it.
    #[serde(default)]
    pub sources: Vec<Sha>,
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
        let (old, sha, tip) = (old.clone(), sha.clone(), tip.clone());
        Landing { v: 1, task, main, old, sha, tip, commits, sources: Vec::new(), gate }
    }

    /// One that is there and that no harvest of ours made.
    pub(crate) fn without_us(job: &Job, sha: &Sha) -> Landing {
        Landing::new(job, (sha, sha, sha), 0, None)
    }

    /// Keep it before `main` moves, with the one that `main` has.
    pub(super) fn keep(mut self, job: &Job, sources: impl Iterator<Item = Sha>) -> Result<()> {
        let before = landing(job)?;
        let earlier = before.iter().flat_map(|before| before.sources.iter().cloned());
        let all: BTreeSet<Sha> = earlier.chain(sources).collect();
        // What is beyond it keeps a workspace at most.
        self.sources = all.into_iter().take(MOST_SOURCES).collect();
        let kept = Kept { before, last: self };
        Ok(state::write_json(job.layout.landing(&job.task), &kept)?)
    }

    /// Keep that all up to `tip` is on `main`, whoever brought it there: `sha` at the last.
    pub(super) fn keep_as_there(job: &Job, sha: &Sha, tip: &Sha) -> Result<()> {
        let known = landing(job)?;
        if known.as_ref().is_some_and(|known| known.tip == *tip) {
            return Ok(());
        }
        let last = Landing { tip: tip.clone(), ..known.unwrap_or_else(|| Landing::without_us(job, sha)) };
        Ok(state::write_json(job.layout.landing(&job.task), &Kept { last, before: None })?)
    }

    /// Whether everybody was told of it, to the last.
    pub(crate) fn is_told(&self, layout: &Layout) -> Result<bool> {
        let told: Option<Told> = state::read_json(layout.told(&self.task))?;
        Ok(told.is_some_and(|told| told.all.contains(&self.sha)))
    }

    /// Everybody was.
    pub(crate) fn keep_told(&self, layout: &Layout) -> Result<()> {
        let mut told: Told = state::read_json(layout.told(&self.task))?.unwrap_or_default();
        told.v = 1;
        let is_new = told.all.insert(self.sha.clone());
        if is_new { Ok(state::write_json(layout.told(&self.task), &told)?) } else { Ok(()) }
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
    let all = "--ignore-submodules=none";
    let args = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", all, one.as_str(), other.as_str()];
    let told = repo.bytes(&args, &[])?;
    let names = told.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| plain_line(&String::from_utf8_lossy(name))).collect())
}

/// The last landing of a task, if `main` has it; one that never came to be is none.
///
/// # Errors
/// The repository is not there, or git fails.
pub fn landing(job: &Job) -> Result<Option<Landing>> {
    let kept: Option<Kept> = state::read_json(job.layout.landing(&job.task))?;
    let both = kept.into_iter().flat_map(|kept| [Some(kept.last), kept.before]).flatten();
    let both: Vec<Landing> = both.collect();
    if both.is_empty() {
        return Ok(None);
    }
    let repo = owners(job)?;
    let Some(main) = repo.commit(job.main.as_str())? else { return Ok(None) };
    for landing in both {
        // It may have become another name of what it was called.
        if landing.main != job.main && repo.alias(&landing.main)?.as_deref() != Some(job.main.as_str()) {
            continue;
        }
        if has(&repo, &main, &landing.sha)? {
            return Ok(Some(landing));
        }
    }
    Ok(None)
}

/// Whether `main`, which is there, has not a commit that it had.
///
/// # Errors
/// Git fails.
pub(crate) fn is_taken_back(repo: &Repo, main: &RefName, sha: &Sha) -> Result<bool> {
    match repo.commit(main.as_str())? {
        Some(main) => Ok(!has(repo, &main, sha)?),
        None => Ok(false),
    }
}

fn has(repo: &Repo, main: &Sha, sha: &Sha) -> Result<bool> {
    Ok(sha == main || repo.commit(sha.as_str())?.is_some() && repo.is_before(sha, main)?)
}
