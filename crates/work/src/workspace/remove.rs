//! A workspace goes when its work has landed, or when the owner says so.

use std::path::Path;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{random, state, throwaway};
use netsky_model::id::TaskId;

use super::create::NEW;
use super::taken::{give_git, take_git};
use super::unlanded::unlanded;
use super::{Elsewhere, list, mirror};
use crate::git::Remote;
use crate::{Error, Result};

/// How a workspace is called that is taken away, until it has been looked at once more.
const LEAVING: &str = ".leaving-";
/// How one is called of which nothing is wanted any more.
const GONE: &str = ".gone-";
/// The lock of whoever takes or gives a workspace its name, beside them.
const REMOVALS: &str = ".removals";
/// The lock of whoever deletes what is in one.
const DELETIONS: &str = ".deletions";
/// How long these are waited for: a look takes seconds, but who has them may have been stopped.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a workspace may go.
#[derive(Clone, Copy)]
pub enum Over<'a> {
    /// All of it is kept elsewhere.
    Landed {
        /// Where.
        elsewhere: &'a dyn Elsewhere,
        /// Whether what repositories in it have, besides its clone, need not be.
        lets_nested_go: bool,
        /// Whether somebody works there by now.
        is_used: &'a dyn Fn() -> bool,
    },
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

/// Remove a task's workspace with all that is in it. That it went is told once that is sure, and before the last of it goes.
///
/// # Errors
/// What the system refuses; what is left of it has no name of a workspace then, and [`gc`] tries again.
pub fn remove(
    layout: &Layout,
    task: &TaskId,
    over: Over<'_>,
    tell: &dyn Fn(&TaskId) -> Result<()>,
) -> Result<Removed> {
    let at = layout.workspace(task);
    if !state::exists(&at)? {
        return Ok(Removed::NotThere);
    }
    let more = |at: &Path| match over {
        Over::Forced => None,
        Over::Landed { elsewhere, lets_nested_go, is_used } => unlanded(at, elsewhere, lets_nested_go)
            .or_else(|| is_used().then(|| "somebody works there again".to_owned())),
    };
    if let Some(more) = more(&at) {
        // Another may have removed it meanwhile.
        return Ok(if state::exists(&at)? { Removed::HasMore(more) } else { Removed::NotThere });
    }
    let removals = removals(layout)?;
    if !state::exists(&at)? {
        return Ok(Removed::NotThere);
    }
    let folder = Dir::open(layout.workspaces())?;
    let end = format!("{task}-{}", random::short());
    let (leaving, gone) = (format!("{LEAVING}{end}"), format!("{GONE}{end}"));
    folder.rename(task.as_str(), &folder, &leaving)?;
    folder.sync()?;
    crate::point("work.workspace.leaving")?;
    let at = folder.path().join(&leaving);
    let taken = match over {
        Over::Landed { .. } => take_git(&at).and_then(|()| crate::point("work.workspace.taken")),
        Over::Forced => Ok(()),
    };
    // Whoever was in its clone may have committed until then, and no more; who is in another repository within it still may.
    let more = taken.map(|()| more(&at));
    if !matches!(more, Ok(None)) {
        give_git(&at)?;
        folder.rename(&leaving, &folder, task.as_str())?;
        folder.sync()?;
    }
    if let Some(more) = more? {
        return Ok(Removed::HasMore(more));
    }
    folder.rename(&leaving, &folder, &gone)?;
    folder.sync()?;
    crate::point("work.workspace.gone")?;
    tell(task)?;
    drop(removals);
    crate::point("work.workspace.told")?;
    // A large one takes its time, in which others are made.
    let deletions = Lock::take_within(folder.path().join(DELETIONS), PATIENCE)?;
    if deletions.is_some() {
        is_removed(&folder.path().join(&gone))?;
    }
    Ok(Removed::Gone)
}

/// Give its name back to a task's workspace whose remover died before it had looked at it once more; one that still looks is
/// waited for.
///
/// # Errors
/// What the system refuses.
pub fn give_back(layout: &Layout, task: &TaskId) -> Result<()> {
    let is_left = |name: &String| task_of(LEAVING, name).as_ref() == Some(task);
    if !names(&layout.workspaces())?.iter().any(is_left) {
        return Ok(());
    }
    let _removals = removals(layout)?;
    restore(layout, Some(task))
}

/// The same of all, where nobody removes one.
///
/// # Errors
/// As there.
pub fn give_all_back(layout: &Layout) -> Result<()> {
    if !names(&layout.workspaces())?.iter().any(|name| name.starts_with(LEAVING)) {
        return Ok(());
    }
    match noted(layout, Duration::ZERO)? {
        Some(_removals) => restore(layout, None),
        None => Ok(()),
    }
}

/// As [`give_back`], of who has the lock: one task's, or all.
pub(super) fn restore(layout: &Layout, only: Option<&TaskId>) -> Result<()> {
    let (folder, mut failed) = (Dir::open(layout.workspaces())?, None);
    for name in folder.names()? {
        let Some(task) = task_of(LEAVING, &name).filter(|task| only.is_none_or(|only| only == task)) else {
            continue;
        };
        let given = give_git(&folder.path().join(&name))
            .and_then(|()| Ok(folder.rename(&name, &folder, task.as_str())?));
        match given {
            // There is another by now: it stays until that one is gone.
            Err(Error::Disk(e)) if e.is_exists() => {}
            // The others have theirs all the same.
            given => failed = failed.or(given.err()),
        }
    }
    folder.sync()?;
    failed.map_or(Ok(()), Err)
}

/// What keeps all others from taking or giving a workspace its name, and from sweeping what is being removed.
pub(super) fn removals(layout: &Layout) -> Result<Lock> {
    let by = || Lock::noted(layout.workspaces().join(REMOVALS));
    noted(layout, PATIENCE)?.ok_or_else(|| Error::Removing { by: by(), secs: PATIENCE.as_secs() })
}

/// The same, with who has it said in it; none where another has it for so long.
fn noted(layout: &Layout, patience: Duration) -> Result<Option<Lock>> {
    let mut lock = Lock::take_within(layout.workspaces().join(REMOVALS), patience)?;
    lock.as_mut().map(|lock| lock.note(&std::process::id())).transpose()?;
    Ok(lock)
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

/// Take away what dead processes left, and what nobody needs any more. Before the last of a workspace goes whose remover died, its
/// task is told of: then nobody knows of it any more.
///
/// # Errors
/// What the system refuses first; what was done is in `swept`, and what is left is for the next time.
pub fn gc(layout: &Layout, tell: &dyn Fn(&TaskId) -> Result<()>, swept: &mut Swept) -> Result<()> {
    let mut failed = None;
    let rest = gc_all(layout, tell, swept, &mut failed);
    failed.map_or(rest, Err)
}

fn gc_all(
    layout: &Layout,
    tell: &dyn Fn(&TaskId) -> Result<()>,
    swept: &mut Swept,
    failed: &mut Option<Error>,
) -> Result<()> {
    // What cannot be removed keeps nothing else.
    let mut counted = |removed: Result<bool>| {
        usize::from(removed.unwrap_or_else(|error| {
            failed.get_or_insert(error);
            false
        }))
    };
    for name in names(&layout.workspaces())?.into_iter().filter(|name| name.starts_with(NEW)) {
        let at = layout.workspaces().join(name);
        swept.workspaces += counted(is_free(&at).and_then(|is_left| Ok(is_left && is_removed(&at)?)));
    }
    let mut told = Vec::new();
    if names(&layout.workspaces())?.iter().any(|name| name.starts_with(GONE))
        && let Some(_removals) = noted(layout, Duration::ZERO)?
    {
        for name in names(&layout.workspaces())? {
            if !name.starts_with(GONE) {
                continue;
            }
            match task_of(GONE, &name).as_ref().map_or(Ok(()), tell) {
                Ok(()) => told.push(name),
                Err(error) => drop(counted(Err(error))),
            }
        }
    }
    if !told.is_empty()
        && let Some(_deletions) = Lock::try_take(layout.workspaces().join(DELETIONS))?
    {
        for name in told {
            swept.workspaces += counted(is_removed(&layout.workspaces().join(name)));
        }
    }
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
    Ok(())
}

/// Whose workspace it was that is called so by now.
fn task_of(what: &str, name: &str) -> Option<TaskId> {
    name.strip_prefix(what)?.rsplit_once('-')?.0.parse().ok()
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
    // An agent may have shut it, or opened it for others.
    match throwaway::reopen(at).and_then(|()| throwaway::discard(at)) {
        Ok(()) => Ok(true),
        Err(e) if e.is_not_found() => Ok(false),
        Err(e) => Err(e.into()),
    }
}
