//! Where clones of repositories are, and what is kept while work lands.

use std::path::PathBuf;

use netsky_model::id::{BriefDigest, TaskId};

use super::Layout;

impl Layout {
    /// One task's workspace: its clone, and what is known of it.
    pub fn workspace(&self, task: &TaskId) -> PathBuf {
        self.workspaces().join(task.as_str())
    }

    /// Briefs of tasks that are too long for the record.
    pub fn briefs(&self) -> PathBuf {
        self.home.join("briefs")
    }

    /// One of them.
    pub fn brief(&self, digest: &BriefDigest) -> PathBuf {
        self.briefs().join(digest.as_str())
    }

    /// Our own copies of the repositories that workspaces are cloned from.
    pub fn mirrors(&self) -> PathBuf {
        self.home.join("mirrors")
    }

    /// What is kept of harvests: locks, notes of what is landing now, logs of gates.
    pub fn harvests(&self) -> PathBuf {
        self.state().join("harvest")
    }

    /// What has landed; true wherever the home is.
    fn landings(&self) -> PathBuf {
        self.state().join("landings")
    }

    /// A task's last landing.
    pub fn landing(&self, task: &TaskId) -> PathBuf {
        self.landings().join(format!("{task}.landing"))
    }

    /// The landing of a task of which everybody was told.
    pub fn told(&self, task: &TaskId) -> PathBuf {
        self.landings().join(format!("{task}.told"))
    }

    /// Who has which task in hand, one file a task.
    pub fn dispatches(&self) -> PathBuf {
        self.state().join("dispatches")
    }

    /// Who has one task in hand; there as long as somebody has.
    pub fn dispatch(&self, task: &TaskId) -> PathBuf {
        self.dispatches().join(format!("{task}.json"))
    }

    /// Held while one of them changes.
    pub fn dispatches_lock(&self) -> PathBuf {
        self.dispatches().join("lock")
    }

    /// Repositories that live as long as one harvest.
    pub fn scratch(&self) -> PathBuf {
        self.home.join("scratch")
    }
}
