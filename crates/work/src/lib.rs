//! Where work lands: a clone of a repository for each task, and what a task's branch becomes on `main`.
//!
//! Promise: `main` is its old or its new tip, whole and durable, at whatever moment anybody dies, and a commit lands once. What an
//! agent wrote is fetched and nothing of it is run but by the gate, which is `main`'s or the owner's and is shut in. Git's own
//! settings are neither read nor changed, but those of the owner's repository itself.
//! Leaves to others: printing (`cli`).
//!
//! Reading order: `task`, and beside it `git` → `workspace` → `harvest` → `gate`; above both `landing`.
#![forbid(unsafe_code)]

pub mod dispatch;
pub mod gate;
pub mod git;
pub mod harvest;
pub mod landing;
pub mod task;
pub mod workspace;

use std::path::{Path, PathBuf};

use netsky_disk::layout::Layout;
use netsky_model::id::TaskId;

/// Why nothing came of it; what an agent did wrong is no error but an [`harvest::Outcome`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, a lock or a program's start.
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
    /// A git that did not do what it was asked.
    #[error(transparent)]
    Git(#[from] git::Failed),
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] git::BadName),
    /// Somebody else harvests into that repository.
    #[error("somebody else harvests into {} since {secs} s", .repo.display())]
    Busy {
        /// Whose lock it is.
        repo: PathBuf,
        /// How long it was waited for.
        secs: u64,
    },
    /// Somebody takes a workspace away.
    #[error("{} removes or names a workspace since {secs} s, or was stopped as it did", .by.map_or_else(|| "somebody else".to_owned(), |pid: u32| format!("process {pid}")))]
    Removing {
        /// Which process; none that is known.
        by: Option<u32>,
        /// How long it was waited for.
        secs: u64,
    },
    /// A message.
    #[error(transparent)]
    Bus(#[from] netsky_bus::Error),
    /// The record.
    #[error(transparent)]
    Record(#[from] netsky_ledger::Error),
    /// The settings.
    #[error(transparent)]
    Config(#[from] netsky_runtime::ConfigError),
    /// A task.
    #[error(transparent)]
    Task(#[from] task::Error),
    /// It does not say where its work belongs.
    #[error("task {0} names no repository")]
    NoRepository(TaskId),
    /// It has no clone.
    #[error("task {0} has no workspace")]
    NoWorkspace(TaskId),
    /// Its clone has what is nowhere else: this.
    #[error("the workspace of task {0} has what has not landed: {1}")]
    NotLanded(TaskId, String),
    /// Its work landed, and not everybody is told.
    #[error("the workspace of task {0} stays until all is told of its landing: {1}")]
    Untold(TaskId, String),
    /// Its clone is worked in.
    #[error("the workspace of task {0} is in use: the task is not closed, or a clone has it in hand")]
    InUse(TaskId),
    /// It is over, and did not land.
    #[error("task {0} is closed")]
    Closed(TaskId),
    /// A repository that is not there.
    #[error("there is no git repository in {}", .path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A place of ours or of agents that was named as a repository of the owner's.
    #[error("{} is within netsky's own home: no repository there is worked on, for agents write there", .path.display())]
    Within {
        /// What was named, or where it leads.
        path: PathBuf,
    },
    /// It is not what it would have to be.
    #[error("{}: {why}", .path.display())]
    Unfit {
        /// What was looked at.
        path: PathBuf,
        /// Why it is not fit.
        why: String,
    },
}

impl Error {
    fn unfit(path: &Path, why: impl Into<String>) -> Error {
        Error::Unfit { path: path.to_owned(), why: why.into() }
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Refuses what is at or below the home, or leads there: in what an agent may write, git would do as the agent's settings say (A8).
pub fn outside(layout: &Layout, path: &Path) -> Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let found = real(path);
    match found.starts_with(real(layout.home())) {
        true => Err(Error::Within { path: found }),
        false => Ok(()),
    }
}

/// A named place where a test stops, kills or fails this program.
fn point(name: &'static str) -> Result<()> {
    netsky_disk::fault::point(name).map_err(|e| netsky_disk::Error::new("go on at", name, e).into())
}
