//! Our own copy of a repository, which workspaces are cloned from.
//!
//! Why: the owner's repository is asked by git's protocol alone, once, and then for what is new; each object is looked at as it
//! comes. A workspace is then a copy of files of ours, which costs what copying costs; a large one has the packs themselves under
//! names of its own. An agent that writes to such a pack in place writes to ours: one that is not as it came makes the
//! mirror anew before the next workspace is made of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{copy, state, throwaway};

use super::{bytes_below, each_below};
use crate::git::{Git, LONG, Reach, Remote, Repo, Run};
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

/// What git calls the longer hash.
const LONGER: &str = "sha256";
/// What its packs were when they came, beside it, where workspaces share them.
const PACKS: &str = "packs.json";

/// The blake3 of each file of a pack.
type Packs = BTreeMap<String, String>;

/// A mirror that nobody else changes or removes as long as this is held.
pub(super) struct Mirror {
    pub(super) repo: Repo,
    /// Whether workspaces have its packs in common with it.
    pub(super) is_shared: bool,
    _lock: Lock,
}

/// What the mirror of a repository is called.
pub(super) fn key(remote: &Remote) -> String {
    blake3::hash(remote.as_str().as_bytes()).to_hex()[..16].to_owned()
}

fn lock_of(layout: &Layout, key: &str) -> PathBuf {
    layout.mirrors().join(format!("{key}.lock"))
}

/// The mirror of a repository as it was brought up to date last, if there is one.
pub(crate) fn found(layout: &Layout, git: &Git, remote: &Remote) -> Option<Repo> {
    let at = layout.mirrors().join(format!("{}.git/git", key(remote)));
    at.is_dir().then(|| Repo::new(git, &at))
}

/// The mirror of a repository, brought up to date.
pub(super) fn fresh(layout: &Layout, git: &Git, remote: &Remote, share_from: u64) -> Result<Mirror> {
    let format = remote.path().map_or(Ok(String::new()), |path| format_of(git, path))?;
    let mirrors = Dir::create(layout.mirrors())?;
    let key = key(remote);
    let lock = Lock::take_within(lock_of(layout, &key), PATIENCE)?;
    let lock = lock.ok_or_else(|| Error::Busy { repo: remote.as_str().into(), secs: PATIENCE.as_secs() })?;
    let name = format!("{key}.git");
    let at = mirrors.path().join(&name);
    let mut known = state::read_json::<Packs>(at.join(PACKS))?.unwrap_or_default();
    if !known.is_empty() && packs(&at, &known, true)? != known {
        remove(&mirrors, &key)?;
        known.clear();
    }
    // A git that died in it left a lock of its own, which no later one gets over.
    if mirrors.exists(&name)? && has_lock(&at.join("git"))? {
        remove(&mirrors, &key)?;
        known.clear();
    }
    if !mirrors.exists(&name)? {
        begin(&mirrors, git, &format, &key, &name)?;
    }
    let repo = Repo::new(git, &at.join("git"));
    let reach = if remote.path().is_some() { Reach::Files } else { Reach::Network };
    let all = "+refs/heads/*:refs/heads/*";
    let fetched = repo.fetch_refs_with(remote.as_str(), all, &["--prune"], reach, OLD, LONG);
    if let (Err(error), Some(path)) = (&fetched, remote.path())
        && Repo::new(git, &Repo::new(git, &crate::git::dir_in(path)).common()?).is_partial()?
    {
        let why = "it is a partial clone, which has not all of its files: name a whole one, or its address";
        return Err(Error::unfit(path, format!("{why} ({error})")));
    }
    fetched?;
    crate::point("work.mirror.fetched")?;
    let is_shared = bytes_below(&at)?.all() >= share_from;
    if is_shared {
        state::write_json(at.join(PACKS), &packs(&at, &known, false)?)?;
    }
    Ok(Mirror { repo, is_shared, _lock: lock })
}

/// Remove a mirror; under another name first, so that nobody takes for one what is left of it after a death.
fn remove(mirrors: &Dir, key: &str) -> Result<()> {
    let new = unfinished(mirrors, key)?;
    mirrors.rename(format!("{key}.git"), mirrors, &new)?;
    Ok(throwaway::discard(&mirrors.path().join(&new))?)
}

/// What one is called that nobody takes for a mirror, free of what a dead process left: we have the lock.
fn unfinished(mirrors: &Dir, key: &str) -> Result<String> {
    let new = format!("{key}.new");
    if mirrors.exists(&new)? {
        throwaway::discard(&mirrors.path().join(&new))?;
    }
    Ok(new)
}

/// Whether a lock of git's is left in it. No name of a ref ends as they do.
fn has_lock(repo: &Path) -> Result<bool> {
    let mut found = false;
    each_below(repo, |path, _| found |= path.extension().is_some_and(|end| end == "lock"))?;
    Ok(found)
}

/// What its packs are now; those of `known` are read again where `is_doubted`.
fn packs(at: &Path, known: &Packs, is_doubted: bool) -> Result<Packs> {
    // git made it, with modes of its own.
    let folder = Dir::look_into(at.join("git/objects/pack"))?;
    let digest = |name: &String| match known.get(name) {
        Some(digest) if !is_doubted => Ok(digest.clone()),
        _ => digest(&folder.path().join(name)),
    };
    folder.names()?.into_iter().map(|name| Ok((name.clone(), digest(&name)?))).collect()
}

fn digest(file: &Path) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    copy::read_pieces(file, |piece| {
        hasher.update(piece);
    })?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Which hash a repository of this machine is of: git fetches from none of another.
fn format_of(git: &Git, path: &Path) -> Result<String> {
    if !path.is_dir() {
        return Err(Error::Missing { path: path.to_owned() });
    }
    let repo = Repo::new(git, &crate::git::dir_in(path));
    if state::exists(repo.common()?.join("shallow"))? {
        let why = "its history is cut (a shallow clone); `git fetch --unshallow` there brings the rest";
        return Err(Error::unfit(path, why));
    }
    repo.ask(&["rev-parse", "--show-object-format"], &[])
}

/// An empty one, there at once or not at all.
fn begin(mirrors: &Dir, git: &Git, format: &str, key: &str, name: &str) -> Result<()> {
    let new = unfinished(mirrors, key)?;
    let at = mirrors.path().join(&new);
    throwaway::create_at(&at)?;
    let folder = at.join("git");
    let mut args = vec!["init", "--quiet", "--bare", "--template="];
    if format == LONGER {
        args.push("--object-format=sha256");
    }
    args.push(crate::git::text(&folder)?);
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
            remove(&mirrors, key)?;
            gone += 1;
        }
    }
    Ok(gone)
}
