//! Our own copy of a repository, which workspaces are cloned from.
//!
//! Why: the owner's repository is asked by git's protocol alone, once, and then for what is new; each object is looked at as it
//! comes. A workspace is then a copy of files of ours, which costs what copying costs.

use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{state, throwaway};

use crate::git::{Git, Reach, Remote, Repo, Run};
use crate::{Error, Result};

/// How long whoever fetches into it now is waited for.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Old sins of real histories, which do no harm; everything else that git objects to is refused.
const OLD: &[&str] = &[
    "fetch.fsck.zeroPaddedFilemode=warn",
    "fetch.fsck.badTimezone=warn",
    "fetch.fsck.missingSpaceBeforeDate=warn",
    "fetch.fsck.missingEmail=warn",
];

/// A mirror that nobody else changes or removes as long as this is held.
pub(super) struct Mirror {
    pub(super) repo: Repo,
    _lock: Lock,
}

/// What the mirror of a repository is called.
pub(super) fn key(remote: &Remote) -> String {
    blake3::hash(remote.as_str().as_bytes()).to_hex()[..16].to_owned()
}

fn lock_of(layout: &Layout, key: &str) -> PathBuf {
    layout.mirrors().join(format!("{key}.lock"))
}

/// The mirror of a repository, brought up to date.
pub(super) fn fresh(layout: &Layout, git: &Git, remote: &Remote) -> Result<Mirror> {
    if let Some(path) = remote.path()
        && !path.is_dir()
    {
        return Err(Error::Missing { path: path.to_owned() });
    }
    let mirrors = Dir::create(layout.mirrors())?;
    let key = key(remote);
    let lock = Lock::take_within(lock_of(layout, &key), PATIENCE)?;
    let lock = lock.ok_or_else(|| Error::Busy { repo: remote.as_str().into(), secs: PATIENCE.as_secs() })?;
    let name = format!("{key}.git");
    if !mirrors.exists(&name)? {
        begin(&mirrors, git, &key, &name)?;
    }
    let repo = Repo::new(git, &mirrors.path().join(&name).join("git"));
    let reach = if remote.path().is_some() { Reach::Files } else { Reach::Network };
    let all = "+refs/heads/*:refs/heads/*";
    repo.fetch_refs_with(remote.as_str(), all, &["--prune"], reach, OLD)?;
    crate::point("work.mirror.fetched")?;
    Ok(Mirror { repo, _lock: lock })
}

/// An empty one, there at once or not at all.
fn begin(mirrors: &Dir, git: &Git, key: &str, name: &str) -> Result<()> {
    let new = format!("{key}.new");
    let at = mirrors.path().join(&new);
    if mirrors.exists(&new)? {
        // Of a dead one: we have the lock.
        throwaway::discard(&at)?;
    }
    throwaway::create_at(&at)?;
    let folder = at.join("git");
    let args = ["init", "--quiet", "--bare", "--template=", crate::git::text(&folder)?];
    git.run(&Run::of_files(&args))?;
    mirrors.rename(&new, mirrors, name)?;
    Ok(mirrors.sync()?)
}

/// Remove the mirrors that none of these need; how many went.
pub(super) fn sweep(layout: &Layout, needed: &[Remote]) -> Result<usize> {
    let mirrors = match Dir::open(layout.mirrors()) {
        Err(e) if e.is_not_found() => return Ok(0),
        opened => opened?,
    };
    let needed: Vec<String> = needed.iter().map(key).collect();
    let mut gone = 0;
    for name in mirrors.names()? {
        let Some(key) = name.strip_suffix(".git") else { continue };
        if needed.iter().any(|needed| needed == key) {
            continue;
        }
        // Somebody who makes a workspace of it has the lock.
        if let Some(_lock) = Lock::try_take(lock_of(layout, key))?
            && state::exists(mirrors.path().join(&name))?
        {
            throwaway::remove(&mirrors.path().join(&name))?;
            gone += 1;
        }
    }
    Ok(gone)
}
