//! How a workspace's clone loses its repository while it goes, and gets it back.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netsky_disk::fs::{Dir, is_real_folder};
use netsky_disk::{copy, random, throwaway};

use super::REPO;
use super::names::GIT;
use crate::Result;

/// Where that of a workspace is while it goes: beside its clone, where no git finds it, nor its agent makes anything.
pub(super) const TAKEN: &str = ".taken";

/// What is in its place then: a git that finds this ends, and looks in no folder above.
const NOWHERE: &[u8] = b"gitdir: /nowhere/netsky/removes/this\n";

/// Where the names of a workspace's clone are.
pub(super) fn git_of(at: &Path) -> PathBuf {
    let taken = at.join(TAKEN);
    if is_going(at) && is_real_folder(&taken) { taken } else { at.join(REPO).join(GIT) }
}

/// Whether a workspace has lost its name. While it has that, what is called [`TAKEN`] is its agent's.
pub(super) fn is_going(at: &Path) -> bool {
    at.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Takes its repository from a clone: from then on nobody commits there, nor in one that is above it.
pub(super) fn take_git(at: &Path) -> Result<()> {
    let Some((at, repo)) = both(at)? else { return Ok(()) };
    // Whoever died as it began left it.
    at.remove(TAKEN)?;
    copy::write_new(&at, TAKEN, NOWHERE)?;
    match at.exchange(TAKEN, &repo, GIT) {
        // There is none.
        Err(e) if e.is_not_found() => Ok(at.remove(TAKEN).map(drop)?),
        exchanged => Ok(exchanged?),
    }
}

/// Gives it back, durable before its workspace has its name. What somebody has put in its place meanwhile is beside the clone then.
pub(super) fn give_git(path: &Path) -> Result<()> {
    if !is_real_folder(path.join(TAKEN)) {
        return Ok(());
    }
    let Some((at, repo)) = both(path)? else { return Ok(()) };
    if is_real_folder(repo.path().join(GIT)) {
        // First, or who does this again after a death takes the one for the other.
        repo.rename(GIT, &Dir::make(path.join(format!("made-{}", random::short())))?, GIT)?;
    }
    match at.exchange(TAKEN, &repo, GIT) {
        Err(e) if e.is_not_found() => at.rename(TAKEN, &repo, GIT)?,
        exchanged => {
            exchanged?;
            at.remove(TAKEN)?;
        }
    }
    repo.sync()?;
    Ok(at.sync()?)
}

/// A workspace's folder and its clone's; none where that is gone, or no folder.
fn both(at: &Path) -> Result<Option<(Dir, Dir)>> {
    let repo = at.join(REPO);
    if !is_real_folder(&repo) {
        return Ok(None);
    }
    // An agent may have shut them against changes; that is not given back.
    let is_shut = |folder: &&Path| folder.symlink_metadata().is_ok_and(|of| of.mode() & 0o700 != 0o700);
    for folder in [at, &repo, &repo.join(GIT)].into_iter().filter(is_shut) {
        throwaway::reopen(folder)?;
    }
    Ok(Some((Dir::look_into(at)?, Dir::look_into(repo)?)))
}
