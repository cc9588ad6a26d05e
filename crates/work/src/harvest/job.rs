//! What a harvest is asked, and what comes of it.

use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::layout::Layout;
use netsky_model::id::TaskId;
use netsky_model::task::Task;

use crate::gate::{Gate, Shut};
use crate::git::{Git, RefName, Sha};

/// How a branch becomes part of `main`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Each commit by itself, in order, with its author.
    #[default]
    Pick,
    /// One commit of all.
    Squash,
    /// A merge commit above the branch as it is.
    Merge,
}

/// One harvest.
#[derive(Debug, Clone)]
pub struct Job {
    /// The home, for the lock, the note and the scratch repository.
    pub layout: Layout,
    /// The git to use.
    pub git: Git,
    /// The owner's repository: the folder of its files, or a bare one.
    pub repo: PathBuf,
    /// What shall move.
    pub main: RefName,
    /// The clone that the agent worked in.
    pub workspace: PathBuf,
    /// The agent's branch there.
    pub branch: RefName,
    /// Whose work it is.
    pub task: TaskId,
    /// Where the branch began; the last commit that both have if none.
    pub base: Option<Sha>,
    /// The task as whoever asks has seen it: one that was changed since is not landed as it was.
    pub seen: Option<Task>,
    /// How it lands.
    pub mode: Mode,
    /// What must pass.
    pub gate: Gate,
    /// Say what would land, and change nothing.
    pub is_dry: bool,
    /// How often it is tried again when `main` moves meanwhile.
    pub retries: u32,
    /// How long others who harvest into the repository are waited for.
    pub patience: Duration,
}

/// What landed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landed {
    /// `main` now.
    pub sha: Sha,
    /// The commits that were added to it, the oldest first.
    pub commits: Vec<Sha>,
    /// The commit of the branch that it is up to; what a workspace may be removed by.
    pub tip: Sha,
    /// What the gate was shut in by; none if there is no gate.
    pub gate: Option<Shut>,
    /// The files of who has `main` checked out.
    pub tree: Tree,
}

/// What became of checked-out files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    /// Nobody has `main` checked out.
    None,
    /// They are those of the new tip.
    Moved,
    /// They are behind, and why; the next harvest of whatever task tries again, and lands nothing before.
    Behind(String),
}

/// What came of a harvest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is on `main`, durably.
    Landed(Landed),
    /// It was on `main` already.
    AlreadyLanded {
        /// The last commit of it there.
        sha: Sha,
    },
    /// This would land; nothing was changed.
    WouldLand {
        /// How many commits.
        commits: usize,
        /// What the gate was shut in by; none if there is no gate.
        gate: Option<Shut>,
    },
    /// The branch adds nothing to `main`.
    Empty,
    /// It does not fit on `main` as that is now.
    Conflict {
        /// The commit of the branch that does not.
        commit: Sha,
        /// The files that both changed, as plain text.
        files: Vec<String>,
    },
    /// The gate did not pass.
    GateFailed {
        /// Its exit code; none if it was ended, at its limit or by a signal.
        status: Option<i32>,
        /// Where all that it said is kept.
        log: PathBuf,
        /// What it was shut in by.
        shut: Shut,
    },
    /// Whoever has `main` checked out has changes there that would be in the way.
    DirtyMain {
        /// Where, and the first files of them, as plain text.
        files: Vec<String>,
    },
    /// The files of who has `main` checked out are behind what has landed before; on such nothing lands.
    Behind {
        /// What they are behind.
        sha: Sha,
        /// Why they cannot follow, as plain text.
        why: String,
    },
    /// It must not land as it is; why, as plain text.
    Refused(String),
    /// `main` moved each time that it was tried.
    Moved {
        /// How often.
        tries: u32,
    },
}
