//! What an agent's clone may hand over, and the scratch repository that takes it (A8, A9).
//!
//! Promise: nothing runs in the clone but git's own sender of packs, which has no network, no lazy fetch and no hook; what comes is
//! looked at object by object, into a repository that is thrown away. A clone that leads elsewhere (a `.git` that is a file or a
//! link, borrowed objects, a shared folder) is refused: what the agent itself may not see must not come out through us.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_disk::fs::{Dir, is_plain_or_free, is_real_folder};
use netsky_disk::{state, throwaway};

use super::job::Job;
use super::target::Target;
use crate::git::{Failed, RefName, Repo, Sha};
use crate::workspace::{bytes_below, each_below};
use crate::{Error, Result};

/// Most bytes that a clone's objects may be above those of the repository: what a task adds.
const MOST: u64 = 2 * 1024 * 1024 * 1024;
/// What makes a clone lead elsewhere.
const ELSEWHERE: &[&str] = &[
    "commondir",
    "gitdir",
    "objects/info/alternates",
    "objects/info/http-alternates",
    "info/grafts",
    "shallow",
];

/// Files that git would wait for if they were pipes.
const PLAIN: &[&str] = &["HEAD", "config", "config.worktree", "packed-refs"];

/// A repository for one harvest.
pub(crate) struct Scratch {
    /// Has the owner's objects, those of the branch, and what was picked.
    pub(crate) repo: Repo,
    /// The last commit of the branch.
    pub(crate) tip: Sha,
    /// All of it: `pick.git`, and for the gate `tree`, `home`, `tmp`, `root`.
    pub(crate) folder: PathBuf,
}

/// Fetch the branch; the refusal if that must not be, or is not done at its limit.
pub(super) fn fetch(
    job: &Job,
    target: &Target,
    limit: Duration,
) -> Result<std::result::Result<Scratch, String>> {
    let from = job.workspace.join(".git");
    if let Some(why) = unfit(job, &from, target)? {
        return Ok(Err(why));
    }
    Dir::create(job.layout.scratch())?;
    let folder = target.scratch(job);
    throwaway::create_at(&folder)?;
    crate::point("work.harvest.scratch")?;
    // By it the clone's git says what is not there yet.
    let Some(main) = target.repo.commit(job.main.as_str())? else {
        return Ok(Err(format!("{} is not there", job.main)));
    };
    let names = [job.main.clone()];
    let repo = crate::git::borrow(&target.repo, &main, &names, &["--bare"], &folder.join("pick.git"))?;
    match repo.fetch(&from, &job.branch, &RefName::of_harvest(&job.task), limit) {
        Err(Error::Git(failed)) => return Ok(Err(format!("the branch cannot be fetched: {failed}"))),
        fetched => fetched?,
    }
    let Some(tip) = repo.commit(RefName::of_harvest(&job.task).as_str())? else {
        return Ok(Err(format!("{} is no commit", job.branch)));
    };
    if is_endless(&repo, tip.as_str())? && !is_endless(&target.repo, job.main.as_str())? {
        return Ok(Err(format!("{} has more files than anybody lays out", job.branch)));
    }
    Ok(Ok(Scratch { repo, tip, folder }))
}

/// Whether a commit has more names of files and folders than are read of one answer: a folder may be in another many times, so a few
/// objects are any number of files. Git streams them, and ends where nobody listens on; a difference of two it keeps in memory.
pub(super) fn is_endless(repo: &Repo, commit: &str) -> Result<bool> {
    match repo.bytes(&["ls-tree", "-r", "-t", "-z", "--name-only", "--full-tree", commit], &[]) {
        Err(Error::Git(Failed::TooLong { .. })) => Ok(true),
        told => told.map(|_| false),
    }
}

/// Why a clone must not be fetched from.
fn unfit(job: &Job, from: &Path, target: &Target) -> Result<Option<String>> {
    for folder in
        [&job.workspace, from, &from.join("objects"), &from.join("refs"), &from.join("objects/pack")]
    {
        if !is_real_folder(folder) {
            return Ok(Some(format!("{} is no folder of its own", plain(folder))));
        }
    }
    for name in PLAIN.iter().copied().chain([job.branch.as_str()]) {
        if !is_plain_or_free(from.join(name))? {
            return Ok(Some(format!("its {} is no plain file", plain(Path::new(name)))));
        }
    }
    for name in ELSEWHERE {
        if state::exists(from.join(name))? {
            return Ok(Some(format!("the clone leads elsewhere by its {name}")));
        }
    }
    let most = bytes_below(&target.repo.objects())?.all().saturating_add(MOST);
    let (mut has, mut other) = (0, None);
    for folder in ["objects", "refs"] {
        let walked = each_below(&from.join(folder), |path, of| {
            has += of.blocks() * 512;
            if !of.is_file() && !of.is_dir() {
                other = other.take().or_else(|| Some(plain(path)));
            }
        });
        if let Err(error) = walked {
            return Ok(Some(crate::git::plain_line(&error.to_string())));
        }
    }
    if let Some(other) = other {
        return Ok(Some(format!("its {other} is neither a file nor a folder")));
    }
    if has > most {
        return Ok(Some(format!("its objects are {has} bytes, over the limit of {most}")));
    }
    Ok(None)
}

fn plain(path: &Path) -> String {
    crate::git::plain_line(&path.to_string_lossy())
}
