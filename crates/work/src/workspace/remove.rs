//! A workspace goes when its work has landed, or when the owner says so.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::Duration;

use netsky_disk::ReadError;
use netsky_disk::fs::{Dir, read_users_file};
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{random, state, throwaway};
use netsky_model::id::TaskId;

use super::create::NEW;
use super::{KNOWN, REPO, Workspace, each_below, list, mirror};
use crate::git::{Remote, Sha, plain_line};
use crate::{Error, Result};

/// How what was fetched of a workspace's repository is called.
const ORIGIN: &[u8] = b"refs/remotes/origin/";
/// How a workspace is called that is being removed.
const GONE: &str = ".gone-";
/// The lock of whoever removes one, beside them.
const REMOVALS: &str = ".removals";
/// How long that is waited for: a removal takes seconds.
const PATIENCE: Duration = Duration::from_secs(600);
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
    if !state::exists(&at)? {
        return Ok(Removed::NotThere);
    }
    let _removals = removals(layout)?;
    if !state::exists(&at)? {
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

/// What keeps all others from taking or giving a workspace its name, and from sweeping what is being removed.
pub(super) fn removals(layout: &Layout) -> Result<Lock> {
    let lock = Lock::take_within(layout.workspaces().join(REMOVALS), PATIENCE)?;
    lock.ok_or_else(|| {
        Error::unfit(&layout.workspaces(), "another process has been removing a workspace for minutes")
    })
}

/// The tasks whose workspaces somebody began to remove, and died; none while somebody removes one.
///
/// # Errors
/// Their folder cannot be read.
pub fn leaving(layout: &Layout) -> Result<Vec<TaskId>> {
    let names = names(&layout.workspaces())?;
    if names.is_empty() || Lock::try_take(layout.workspaces().join(REMOVALS))?.is_none() {
        return Ok(Vec::new());
    }
    let task = |name: String| name.strip_prefix(GONE)?.rsplit_once('-')?.0.parse().ok();
    Ok(names.into_iter().filter_map(task).collect())
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
    let origin = all.iter().filter(|(name, _)| name.starts_with(ORIGIN));
    let theirs: HashSet<&str> = origin.map(|(_, at)| &**at).collect();
    let is_there = |at: &str| {
        at == known.base.as_str() || theirs.contains(at) || at.parse().is_ok_and(|at| is_kept(&at))
    };
    // What a search for a culprit goes through are commits of others, or of a branch.
    let mut own = all.iter().filter(|(name, _)| !name.starts_with(b"refs/bisect/"));
    let (name, at) = own.find(|(_, at)| !is_there(at))?;
    Some(plain_line(&format!("{} is at {at}", String::from_utf8_lossy(name))))
}

/// All names in a clone and what they are of, each `HEAD` that is no branch's among them; read from its files, and not what only
/// leads on.
fn refs(git: &Path) -> Result<BTreeMap<Vec<u8>, String>> {
    let mut files = vec![git.join("HEAD")];
    let linked = git.join("worktrees");
    each_below(&linked, |path, _| {
        let is_head = path.ends_with("HEAD") && path.parent().and_then(Path::parent) == Some(&linked);
        files.extend(is_head.then(|| path.to_owned()));
    })?;
    each_below(&git.join("refs"), |path, of| {
        let is_ref = !of.is_dir() && path.extension().is_none_or(|end| end != "lock");
        files.extend(is_ref.then(|| path.to_owned()));
    })?;
    let mut all = BTreeMap::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    for line in bytes_of(&git.join("packed-refs"))?.unwrap_or_default().split(|byte| *byte == b'\n') {
        let mut parts = line.splitn(2, |byte| *byte == b' ');
        if let (Some(at), Some(name)) = (parts.next().filter(|at| *at != b"#"), parts.next()) {
            all.insert(name.to_owned(), text(at));
        }
    }
    for file in files {
        let name = file.strip_prefix(git).unwrap_or(&file).as_os_str().as_encoded_bytes();
        match bytes_of(&file)? {
            Some(bytes) if !bytes.starts_with(b"ref: ") => drop(all.insert(name.to_owned(), text(&bytes))),
            _ => drop(all.remove(name)),
        }
    }
    Ok(all)
}

/// A file of git's; none if it is not there.
fn bytes_of(file: &Path) -> Result<Option<Vec<u8>>> {
    match read_users_file(file, MOST) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ReadError::Io(e)) if e.is_not_found() => Ok(None),
        Err(e) => Err(e.on("read", file).into()),
    }
}

/// Where a workspace's branch is, read from its files: no git runs in it.
pub(super) fn tip_of(repo: &Path, workspace: &Workspace) -> Option<Sha> {
    let (git, branch) = (repo.join(".git"), workspace.branch.as_str());
    if let Ok(Some(loose)) = bytes_of(&git.join(branch)) {
        return String::from_utf8_lossy(&loose).trim().parse().ok();
    }
    let packed = bytes_of(&git.join("packed-refs")).ok()??;
    let packed = String::from_utf8_lossy(&packed);
    packed.lines().find_map(|line| line.split_once(' ').filter(|(_, name)| *name == branch))?.0.parse().ok()
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
    let (mut swept, mut failed) = (Swept::default(), None);
    // What cannot be removed keeps nothing else.
    let mut counted = |removed: Result<bool>| {
        usize::from(removed.unwrap_or_else(|error| {
            failed.get_or_insert(error);
            false
        }))
    };
    let all = names(&layout.workspaces())?;
    let removals = match all.is_empty() {
        true => None,
        false => Lock::try_take(layout.workspaces().join(REMOVALS))?,
    };
    for name in all {
        let at = layout.workspaces().join(&name);
        let is_gone = name.starts_with(GONE) && removals.is_some();
        swept.workspaces += counted(match name.starts_with(NEW) {
            true => is_free(&at).and_then(|is_left| Ok(is_left && is_removed(&at)?)),
            false if is_gone => is_removed(&at),
            false => Ok(false),
        });
    }
    drop(removals);
    for key in names(&layout.scratch())? {
        // A dead harvest's note goes with its scratch at the next harvest; without a note there is nothing to finish.
        let is_noted = state::exists(layout.harvests().join(format!("{key}.json")))?;
        let lock = Lock::try_take(layout.harvests().join(format!("{key}.lock")))?;
        if lock.is_some() && !is_noted {
            swept.scratch += counted(is_removed(&layout.scratch().join(&key)));
        }
    }
    let needed: Vec<Remote> =
        list(layout)?.into_iter().filter_map(|(_, found)| Some(found.ok()?.repo)).collect();
    swept.mirrors = mirror::sweep(layout, &needed)?;
    failed.map_or(Ok(swept), Err)
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
