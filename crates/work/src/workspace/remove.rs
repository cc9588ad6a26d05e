//! A workspace goes when its work has landed, or when the owner says so.

use std::collections::HashSet;
use std::path::Path;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{random, state, throwaway};
use netsky_model::id::TaskId;

use super::create::NEW;
use super::{KNOWN, REPO, Workspace, each_below, list, mirror};
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
    /// Its branch is not at the commit that landed, or another one has something else: where it is, if anywhere.
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

/// The tasks whose workspaces somebody began to remove, and died.
///
/// # Errors
/// Their folder cannot be read.
pub fn leaving(layout: &Layout) -> Result<Vec<TaskId>> {
    let task = |name: String| name.strip_prefix(GONE)?.rsplit_once('-')?.0.parse().ok();
    Ok(names(&layout.workspaces())?.into_iter().filter_map(task).collect())
}

/// Whether a workspace's branch, or another one, has more than landed.
fn more(at: &Path, over: &Over) -> Result<Option<Removed>> {
    let Over::Landed(landed) = over else { return Ok(None) };
    let known: Option<Workspace> = state::read_json(at.join(KNOWN))?;
    let (git, tip) =
        (at.join(REPO).join(".git"), known.as_ref().and_then(|known| tip_of(&at.join(REPO), known)));
    let mut may_go: HashSet<String> = known.into_iter().map(|known| known.base.to_string()).collect();
    may_go.insert(landed.to_string());
    let all = refs(&git)?;
    let (theirs, own): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(name, _)| name.starts_with("refs/remotes/"));
    may_go.extend(theirs.into_iter().map(|(_, at)| at));
    let is_more = |(name, at): &(String, String)| !name.starts_with("refs/tags/") && !may_go.contains(at);
    let has_more = tip.as_ref() != Some(landed) || own.iter().any(is_more);
    Ok(has_more.then_some(Removed::HasMore(tip)))
}

/// All names in a clone and what they are of, a `HEAD` that is none's among them; read from its files, and not what only leads on.
fn refs(git: &Path) -> Result<Vec<(String, String)>> {
    let mut files = vec![git.join("HEAD")];
    each_below(&git.join("refs"), |path, of| files.extend(of.is_file().then(|| path.to_owned())))?;
    let mut all = Vec::new();
    for file in files {
        let name = file.strip_prefix(git).unwrap_or(&file).to_string_lossy().into_owned();
        let text = text_of(&file).unwrap_or_default();
        if !text.starts_with("ref: ") {
            all.push((name, text.trim().to_owned()));
        }
    }
    let packed = text_of(&git.join("packed-refs")).unwrap_or_default();
    for (at, name) in packed.lines().filter_map(|line| line.split_once(' ')) {
        if at != "#" && !all.iter().any(|(loose, _)| loose == name) {
            all.push((name.to_owned(), at.to_owned()));
        }
    }
    Ok(all)
}

fn text_of(file: &Path) -> Option<String> {
    String::from_utf8(Dir::look_into(file.parent()?).ok()?.read(file.file_name()?, MOST).ok()?).ok()
}

/// Where a workspace's branch is, read from its files: no git runs in it.
pub(super) fn tip_of(repo: &Path, workspace: &Workspace) -> Option<Sha> {
    let git = repo.join(".git");
    loose(&git, &workspace.branch).or_else(|| packed(&git, &workspace.branch))
}

fn loose(git: &Path, branch: &RefName) -> Option<Sha> {
    text_of(&git.join(branch.as_str()))?.trim().parse().ok()
}

fn packed(git: &Path, branch: &RefName) -> Option<Sha> {
    let text = text_of(&git.join("packed-refs"))?;
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
