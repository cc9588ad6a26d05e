//! Workspaces: a fresh clone of a repository for each task, on a branch of its own.
//!
//! Promise: a workspace that is there is whole and survives a power cut; one that was not finished has another name and is swept by
//! [`gc`]. It shares no file with the owner's repository. A large one has its packs in common with its mirror, by names of their own
//! and not by reference: what is removed there stays here, and packs that somebody wrote to are never handed out again. We never
//! run git in it again: its agent may have made anything of it.
//!
//! Reading order: [`Workspace`] → `create` (with `mirror`) → `names` → `nested` → `unlanded` → `taken` → `remove` and [`gc`].

mod create;
mod mirror;
mod names;
mod nested;
mod remove;
mod taken;
mod unlanded;

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::state;
use netsky_model::id::TaskId;
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::git::{Identity, RefName, Remote, Sha};

pub use create::{SHARE_FROM, Wish, create};
pub(crate) use mirror::found as mirror;
pub use remove::{Over, Removed, Swept, gc, give_all_back, give_back, remove};

/// What is known of a workspace, beside the clone and out of its reach.
const KNOWN: &str = "workspace.json";
/// The clone.
const REPO: &str = "repo";

/// A task's clone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    v: u32,
    /// Whose it is.
    pub task: TaskId,
    /// What it was cloned from.
    pub repo: Remote,
    /// The branch there that it began at.
    pub main: RefName,
    /// Its own branch.
    pub branch: RefName,
    /// The commit that it began at.
    pub base: Sha,
    /// When it was made.
    pub made: Stamp,
}

impl Workspace {
    /// The folder that an agent works in.
    pub fn folder(&self, layout: &Layout) -> PathBuf {
        layout.workspace(&self.task).join(REPO)
    }

    /// Where its branch is, read from its files: no git runs in it.
    pub fn tip(&self, layout: &Layout) -> Option<Sha> {
        names::tip_of(&taken::git_of(&layout.workspace(&self.task)), self)
    }
}

/// What is kept elsewhere than in a workspace.
pub trait Elsewhere {
    /// Which of these objects are not.
    ///
    /// # Errors
    /// That cannot be seen.
    fn lacks(&self, all: BTreeSet<Sha>) -> Result<BTreeSet<Sha>>;
}

/// Bytes on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bytes {
    /// Of files that go with it.
    pub own: u64,
    /// Of files that have another name elsewhere, too.
    pub shared: u64,
}

impl Bytes {
    /// Both.
    pub fn all(self) -> u64 {
        self.own + self.shared
    }
}

/// What a task's workspace has that is kept nowhere else, repositories in it besides its clone included.
pub fn unlanded(layout: &Layout, task: &TaskId, elsewhere: &dyn Elsewhere) -> Option<String> {
    unlanded::unlanded(&layout.workspace(task), elsewhere, false)
}

/// Whom commits in a task's workspace are by from now on; nothing where it has none.
///
/// # Errors
/// The system refuses.
pub fn set_author(layout: &Layout, task: &TaskId, author: &Identity) -> Result<()> {
    match create::write_author(&layout.workspace(task), author) {
        Err(crate::Error::Disk(e)) if e.is_not_found() => Ok(()),
        written => written,
    }
}

/// Bytes on the disk of a task's workspace, whether or not it reads.
///
/// # Errors
/// A folder cannot be read.
pub fn bytes(layout: &Layout, task: &TaskId) -> Result<Bytes> {
    bytes_below(&layout.workspace(task))
}

/// A task's workspace; none if it has none.
///
/// # Errors
/// It is there and does not read.
pub fn find(layout: &Layout, task: &TaskId) -> Result<Option<Workspace>> {
    Ok(state::read_json(layout.workspace(task).join(KNOWN))?)
}

/// Every workspace in the order of its task's id; for one that does not read, why.
///
/// # Errors
/// Their folder cannot be read.
pub fn list(layout: &Layout) -> Result<Vec<(TaskId, Result<Workspace>)>> {
    let folder = match Dir::open(layout.workspaces()) {
        Err(e) if e.is_not_found() => return Ok(Vec::new()),
        opened => opened?,
    };
    let tasks: Vec<TaskId> = folder.names()?.iter().filter_map(|name| name.parse().ok()).collect();
    let look = |task: TaskId| {
        let lost = || crate::Error::unfit(&layout.workspace(&task), "it does not say what it is");
        let found = find(layout, &task).and_then(|found| found.ok_or_else(lost));
        (task, found)
    };
    Ok(tasks.into_iter().map(look).collect())
}

/// Bytes on the disk of all files below a folder; a link counts as itself.
pub(crate) fn bytes_below(folder: &Path) -> Result<Bytes> {
    let mut bytes = Bytes::default();
    each_below(folder, |_, of| {
        let is_shared = of.is_file() && of.nlink() > 1;
        *if is_shared { &mut bytes.shared } else { &mut bytes.own } += of.blocks() * 512;
    })?;
    Ok(bytes)
}

/// Everything below a folder, which no link leads out of. What is gone meanwhile is nothing.
pub(crate) fn each_below(folder: &Path, mut each: impl FnMut(&Path, &Metadata)) -> Result<()> {
    let failed = |at: &Path, e: std::io::Error| netsky_disk::Error::new("list folder", at, e);
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|e| failed(&folder, e))?,
        };
        for entry in entries {
            let entry = entry.map_err(|e| failed(&folder, e))?;
            let of = match entry.metadata() {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                of => of.map_err(|e| failed(&entry.path(), e))?,
            };
            let path = entry.path();
            each(&path, &of);
            if of.is_dir() {
                open.push(path);
            }
        }
    }
    Ok(())
}
