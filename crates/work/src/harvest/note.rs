//! What is landing now in a repository: one file a repository, there from before `main` may move until its files have moved too.

use netsky_disk::state;
use serde::{Deserialize, Serialize};

use super::job::Job;
use super::target::{Checkout, Target};
use crate::Result;
use crate::git::{RefName, Sha, plain_line};

/// A landing that is under way, whose harvest is dead, or whose files could not follow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Note {
    v: u32,
    /// Whose work it is.
    pub(super) task: String,
    /// What moves.
    pub(super) main: RefName,
    /// From where.
    pub(super) old: Sha,
    /// And where to.
    pub(super) new: Sha,
    /// Who had it checked out then.
    pub(super) checkout: Option<Checkout>,
    /// What our lock on the checkout's index says at its end, so that nobody's else is taken for it.
    pub(super) token: String,
    /// Whose landing it is; to be told, for a home may have another path by then.
    #[serde(default)]
    pub(super) home: String,
}

impl Note {
    pub(super) fn new(job: &Job, checkout: Option<Checkout>, old: &Sha, new: &Sha) -> Note {
        let token = netsky_disk::random::token();
        let home = plain_line(&job.layout.home().to_string_lossy());
        Note {
            v: 1,
            task: job.task.to_string(),
            main: job.main.clone(),
            old: old.clone(),
            new: new.clone(),
            checkout,
            token,
            home,
        }
    }

    /// What the lock is called before it has its name.
    pub(super) fn lock(&self) -> String {
        format!("netsky-{}.lock", self.token)
    }
}

pub(super) fn read(job: &Job, target: &Target) -> Result<Option<Note>> {
    Ok(state::read_json(target.note(job))?)
}

pub(super) fn write(job: &Job, target: &Target, note: &Note) -> Result<()> {
    Ok(state::write_json(target.note(job), note)?)
}

pub(super) fn remove(job: &Job, target: &Target) -> Result<()> {
    state::remove(target.note(job))?;
    Ok(())
}
