//! A workspace is made: beside its place, whole, and then by one rename.

use netsky_disk::fs::{self, Dir, Place};
use netsky_disk::layout::Layout;
use netsky_disk::{clock, copy, random, state, throwaway};
use netsky_model::id::TaskId;

use super::mirror::{self, Mirror};
use super::remove::{removals, restore};
use super::{KNOWN, REPO, Workspace, find};
use crate::git::{Git, Identity, RefName, Remote, Repo};
use crate::{Error, Result};

/// How a workspace is called that is not finished.
pub(super) const NEW: &str = ".new-";
/// The settings of git beside a clone that say whom its commits are by.
const AUTHOR: &str = "author";

/// From how many bytes of objects on they are shared with the mirror: below, a copy costs less than a thought.
pub const SHARE_FROM: u64 = 128 << 20;

/// What is wanted.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Whose it will be.
    pub task: TaskId,
    /// What is cloned.
    pub repo: Remote,
    /// The branch there that it begins at.
    pub main: RefName,
    /// Its own branch; `task/<id>` if none.
    pub branch: Option<RefName>,
    /// Whom the commits in it are by; whoever git says if none.
    pub author: Option<Identity>,
    /// From how many bytes of objects on they are shared with the mirror and not copied; [`SHARE_FROM`].
    pub share_from: u64,
}

/// Make a task's workspace.
///
/// # Errors
/// It has one, the repository cannot be fetched or has no such branch, or the system refuses. There is none of its name then
/// that was not there before.
pub fn create(layout: &Layout, git: &Git, wish: &Wish) -> Result<Workspace> {
    let taken = || Error::unfit(&layout.workspace(&wish.task), "the task has a workspace already");
    let folder = Dir::create(layout.workspaces())?;
    if folder.exists(wish.task.as_str())? {
        return Err(taken());
    }
    if let Some(path) = wish.repo.path() {
        crate::outside(layout, path)?;
    }
    let mirror = mirror::fresh(layout, git, &wish.repo, wish.share_from)?;
    let no_branch = || {
        let why = format!(
            "it has no {}; `netsky task update {} --main BRANCH` names another",
            wish.main, wish.task
        );
        Error::unfit(wish.repo.as_str().as_ref(), why)
    };
    let base = mirror.repo.commit(wish.main.as_str())?.ok_or_else(no_branch)?;
    let name = format!("{NEW}{}-{}", wish.task, random::short());
    let at = folder.path().join(&name);
    let _lock = throwaway::create_held(&at)?;
    crate::point("work.workspace.begun")?;
    let workspace = Workspace {
        v: 1,
        task: wish.task.clone(),
        repo: wish.repo.clone(),
        main: wish.main.clone(),
        branch: wish.branch.clone().unwrap_or_else(|| RefName::of_task(&wish.task)),
        base,
        made: clock::stamp(),
    };
    let disk = copy::FileSystem::of(&folder)?;
    let made = fill(git, &mirror, wish, &workspace, &at)
        .and_then(|()| Ok(state::write_json(at.join(KNOWN), &workspace)?))
        .and_then(|()| Ok(disk.sync()?))
        .and_then(|()| crate::point("work.workspace.filled"));
    if let Err(error) = made {
        // The error that came first is the one to tell; what stays is swept.
        let _ = throwaway::remove(&at);
        return Err(error);
    }
    let _removals = removals(layout).inspect_err(|_| drop(throwaway::remove(&at)))?;
    // One whose remover died is the one that there is.
    restore(layout, Some(&wish.task))?;
    if let Err(error) = folder.rename(&name, &folder, wish.task.as_str()) {
        let _ = throwaway::remove(&at);
        return Err(if error.is_exists() { taken() } else { error.into() });
    }
    crate::point("work.workspace.named")?;
    folder.sync()?;
    find(layout, &wish.task)?.ok_or_else(|| Error::unfit(&layout.workspace(&wish.task), "it is gone"))
}

/// Say whom commits in the workspace of that folder are by.
pub(super) fn write_author(at: &std::path::Path, author: &Identity) -> Result<()> {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""));
    let (name, email) = (quoted(author.name()), quoted(author.email()));
    let text = format!("[user]\n\tname = {name}\n\temail = {email}\n");
    // Never where there is none, for that would be taken for a workspace.
    let dir = Dir::open(at)?;
    let tmp = Dir::make(dir.path().join("tmp"))?;
    Ok(fs::write_durable(&tmp, &dir, AUTHOR, text.as_bytes(), Place::Over)?)
}

/// The clone, on its branch, with the true repository as its origin.
fn fill(git: &Git, mirror: &Mirror, wish: &Wish, workspace: &Workspace, at: &std::path::Path) -> Result<()> {
    let to = at.join(REPO);
    let main = format!("--branch={}", wish.main.short());
    let mut options = vec!["--local", "--no-checkout", "--single-branch", &main];
    // A link to a file of the mirror is a way into all other workspaces, for whoever writes in place as git never does.
    if !mirror.is_shared {
        options.push("--no-hardlinks");
    }
    if let Some(author) = &wish.author {
        write_author(at, author)?;
    }
    // From its `.git`: it is changed where somebody else goes on with the task, and git is never run in there again.
    let author = format!("--config=include.path=../../{AUTHOR}");
    options.extend(["--config=remote.origin.pushurl=/dev/null", &author]);
    // All of it is synced at once when it is whole.
    crate::git::clone(git, &options, crate::git::text(mirror.repo.dir())?, &to, &["core.fsync=none"])?;
    // A template would bring hooks too; this one folder of it is written to by hand (`exclude`).
    Dir::make(to.join(".git/info"))?;
    let repo = Repo::new(git, &to.join(".git")).with_tree(&to).unsynced();
    repo.bytes(&["config", "--replace-all", "remote.origin.url", wish.repo.as_str()], &[])?;
    let branch = workspace.branch.short();
    repo.fill(&[
        "checkout",
        "--quiet",
        "--no-track",
        "--no-recurse-submodules",
        "-B",
        branch,
        workspace.base.as_str(),
    ])
}
