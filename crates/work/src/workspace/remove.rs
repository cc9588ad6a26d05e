//! A workspace goes when its work has landed, or when the owner says so.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{random, state, throwaway};
use netsky_model::id::TaskId;

use super::create::NEW;
use super::{KNOWN, REPO, Workspace, each_below, list, mirror};
use crate::Result;
use crate::git::{RefName, Remote, Sha, plain_line};

/// How a workspace is called that is being removed.
const GONE: &str = ".gone-";
/// Most bytes of a file of refs.
const MOST: u64 = 64 * 1024 * 1024;

/// Why a workspace may go.
#[derive(Clone, Copy)]
pub enum Over<'a> {
    /// All of it has landed, or is the owner's: whether that is so of a commit.
    Landed(&'a dyn Fn(&Sha) -> bool),
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
    /// It has what has not landed: this.
    HasMore(String),
}

/// Remove a task's workspace with all that is in it.
///
/// # Errors
/// What the system refuses; what is left of it has no name of a workspace then, and [`gc`] tries again.
pub fn remove(layout: &Layout, task: &TaskId, over: Over<'_>) -> Result<Removed> {
    let at = layout.workspace(task);
    // Whoever sweeps leaves what somebody is at.
    let lock = match Lock::take(at.join(throwaway::LOCK)) {
        Err(e) if e.is_not_found() => return Ok(Removed::NotThere),
        lock => lock?,
    };
    if !lock.has_its_name()? {
        return Ok(Removed::NotThere);
    }
    let more = |at: &Path| match over {
        Over::Forced => None,
        Over::Landed(is_kept) => unlanded(at, is_kept),
    };
    if let Some(more) = more(&at) {
        return Ok(Removed::HasMore(more));
    }
    let folder = Dir::open(layout.workspaces())?;
    let gone = format!("{GONE}{task}-{}", random::short());
    folder.rename(task.as_str(), &folder, &gone)?;
    folder.sync()?;
    crate::point("work.workspace.gone")?;
    // Whoever was in it may have committed until then.
    if let Some(more) = more(&folder.path().join(&gone)) {
        folder.rename(&gone, &folder, task.as_str())?;
        folder.sync()?;
        return Ok(Removed::HasMore(more));
    }
    throwaway::remove(&folder.path().join(&gone))?;
    Ok(Removed::Gone)
}

/// The tasks whose workspaces somebody began to remove, and died.
///
/// # Errors
/// Their folder cannot be read.
pub fn leaving(layout: &Layout) -> Result<Vec<TaskId>> {
    let mut tasks = Vec::new();
    for name in names(&layout.workspaces())? {
        let task = name.strip_prefix(GONE).and_then(|rest| rest.rsplit_once('-')?.0.parse().ok());
        if let Some(task) = task
            && is_free(&layout.workspaces().join(&name))?
        {
            tasks.push(task);
        }
    }
    Ok(tasks)
}

/// What a workspace has that did not land: a name of a commit that is kept nowhere else.
pub(super) fn unlanded(at: &Path, is_kept: &dyn Fn(&Sha) -> bool) -> Option<String> {
    let Ok(Some(known)) = state::read_json::<Workspace>(at.join(KNOWN)) else {
        return Some("it does not say what it is".to_owned());
    };
    // Names that are kept otherwise than in files are not seen.
    if tip_of(&at.join(REPO), &known).is_none() {
        return Some(format!("{} is not there", known.branch));
    }
    let Ok(all) = refs(&at.join(REPO).join(".git")) else { return Some("its refs do not read".to_owned()) };
    let is_theirs = |name: &str| name.starts_with("refs/remotes/");
    let theirs: HashSet<&str> = all.iter().filter(|(name, _)| is_theirs(name)).map(|(_, at)| &**at).collect();
    let is_kept = |at: &str| {
        at == known.base.as_str() || theirs.contains(at) || at.parse().is_ok_and(|at| is_kept(&at))
    };
    // What a search for a culprit goes through are commits of others, or of a branch.
    let mut own = all.iter().filter(|(name, _)| !name.starts_with("refs/bisect/"));
    let (name, at) = own.find(|(_, at)| !is_kept(at))?;
    Some(plain_line(&format!("{name} is at {at}")))
}

/// All names in a clone and what they are of, each `HEAD` that is no branch's among them; read from its files, and not what only
/// leads on.
fn refs(git: &Path) -> Result<Vec<(String, String)>> {
    let mut files = vec![git.join("HEAD")];
    each_below(&git.join("worktrees"), |path, _| {
        files.extend(path.ends_with("HEAD").then(|| path.to_owned()));
    })?;
    each_below(&git.join("refs"), |path, of| {
        let is_ref = of.is_file() && path.extension().is_none_or(|end| end != "lock");
        files.extend(is_ref.then(|| path.to_owned()));
    })?;
    let mut all = BTreeMap::new();
    let packed = text_of(&git.join("packed-refs")).unwrap_or_default();
    for (at, name) in packed.lines().filter_map(|line| line.split_once(' ')).filter(|(at, _)| *at != "#") {
        all.insert(name.to_owned(), at.to_owned());
    }
    for file in files {
        let name = file.strip_prefix(git).unwrap_or(&file).to_string_lossy().into_owned();
        let text = text_of(&file).unwrap_or_default();
        if text.starts_with("ref: ") {
            all.remove(&name);
        } else {
            all.insert(name, text.trim().to_owned());
        }
    }
    Ok(all.into_iter().collect())
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
        let is_left = [NEW, GONE].iter().any(|of| name.starts_with(of)) && is_free(&at)?;
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

/// Whether nobody makes it any more, or removes it.
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
