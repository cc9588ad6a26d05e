//! A workspace goes when its work has landed, or when the owner says so.

use std::path::Path;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{random, state, throwaway};
use netsky_model::id::TaskId;

use super::create::NEW;
use super::{KNOWN, REPO, Workspace, list, mirror};
use crate::Result;
use crate::git::{RefName, Remote, Sha};

/// How a workspace is called that is being removed.
const GONE: &str = ".gone-";
/// Most bytes of a file of refs.
const MOST: u64 = 64 * 1024 * 1024;

/// Why a workspace may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    /// Its branch has landed up to this commit of it.
    Landed(Sha),
    /// The owner says so.
    Forced,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removed {
    /// It is gone.
    Gone,
    /// There was none.
    NotThere,
    /// Its branch is not at the commit that landed: where it is, if anywhere.
    HasMore(Option<Sha>),
}

/// Remove a task's workspace with all that is in it.
///
/// # Errors
/// What the system refuses; what is left of it has no name of a workspace then, and [`gc`] tries again.
pub fn remove(layout: &Layout, task: &TaskId, over: &Over) -> Result<Removed> {
    let at = layout.workspace(task);
    if !state::exists(&at)? {
        return Ok(Removed::NotThere);
    }
    if let Some(more) = more(&at, over)? {
        return Ok(more);
    }
    let folder = Dir::open(layout.workspaces())?;
    let gone = format!("{GONE}{task}-{}", random::short());
    folder.rename(task.as_str(), &folder, &gone)?;
    folder.sync()?;
    crate::point("work.workspace.gone")?;
    // Whoever was in it may have committed until then.
    if let Some(more) = more(&folder.path().join(&gone), over)? {
        folder.rename(&gone, &folder, task.as_str())?;
        folder.sync()?;
        return Ok(more);
    }
    throwaway::remove(&folder.path().join(&gone))?;
    Ok(Removed::Gone)
}

/// Whether a workspace's branch has more than landed.
fn more(at: &Path, over: &Over) -> Result<Option<Removed>> {
    let Over::Landed(landed) = over else { return Ok(None) };
    let known: Option<Workspace> = state::read_json(at.join(KNOWN))?;
    let tip = known.and_then(|known| tip_of(&at.join(REPO), &known));
    Ok((tip.as_ref() != Some(landed)).then_some(Removed::HasMore(tip)))
}

/// Where a workspace's branch is, read from its files: no git runs in it.
pub(super) fn tip_of(repo: &Path, workspace: &Workspace) -> Option<Sha> {
    let git = repo.join(".git");
    loose(&git, &workspace.branch).or_else(|| packed(&git, &workspace.branch))
}

fn loose(git: &Path, branch: &RefName) -> Option<Sha> {
    let path = git.join(branch.as_str());
    let text = Dir::look_into(path.parent()?).ok()?.read(path.file_name()?, MOST).ok()?;
    String::from_utf8(text).ok()?.trim().parse().ok()
}

fn packed(git: &Path, branch: &RefName) -> Option<Sha> {
    let text = String::from_utf8(Dir::look_into(git).ok()?.read("packed-refs", MOST).ok()?).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(_, name)| *name == branch.as_str())?.0.parse().ok()
}

/// What a sweep took away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Workspaces that nobody finished, or finished removing.
    pub workspaces: usize,
    /// Scratch repositories of dead harvests.
    pub scratch: usize,
    /// Mirrors that no workspace is of.
    pub mirrors: usize,
}

/// Take away what dead processes left, and what nobody needs any more.
///
/// # Errors
/// What the system refuses; the rest is left for the next time.
pub fn gc(layout: &Layout) -> Result<Swept> {
    let mut swept = Swept::default();
    for name in names(&layout.workspaces())? {
        let at = layout.workspaces().join(&name);
        let is_left = match name.starts_with(NEW) {
            true => is_free(&at)?,
            false => name.starts_with(GONE),
        };
        if is_left && is_removed(&at)? {
            swept.workspaces += 1;
        }
    }
    for key in names(&layout.scratch())? {
        // A dead harvest's note goes with its scratch at the next harvest; without a note there is nothing to finish.
        let is_noted = state::exists(layout.harvests().join(format!("{key}.json")))?;
        let lock = Lock::try_take(layout.harvests().join(format!("{key}.lock")))?;
        if lock.is_some() && !is_noted && is_removed(&layout.scratch().join(&key))? {
            swept.scratch += 1;
        }
    }
    let needed: Vec<Remote> =
        list(layout)?.into_iter().filter_map(|(_, found)| Some(found.ok()?.repo)).collect();
    swept.mirrors = mirror::sweep(layout, &needed)?;
    Ok(swept)
}

fn names(folder: &Path) -> Result<Vec<String>> {
    match Dir::open(folder) {
        Err(e) if e.is_not_found() => Ok(Vec::new()),
        opened => Ok(opened?.names()?),
    }
}

/// Whether nobody makes it any more.
fn is_free(at: &Path) -> Result<bool> {
    match Lock::try_take(at.join(throwaway::LOCK)) {
        Ok(lock) => Ok(lock.is_some()),
        Err(e) if e.is_not_found() => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Remove a folder of ours; false if somebody else did.
fn is_removed(at: &Path) -> Result<bool> {
    match throwaway::discard(at) {
        Ok(()) => Ok(true),
        Err(e) if e.is_not_found() => Ok(false),
        Err(e) => Err(e.into()),
    }
}
