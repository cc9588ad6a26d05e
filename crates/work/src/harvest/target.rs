//! The owner's repository, and who has `main` checked out there now.

use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_disk::ReadError;
use netsky_disk::fs::{Dir, is_folder, read_users_file};
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use serde::{Deserialize, Serialize};

use super::job::Job;
use crate::git::{Git, RefName, Repo, plain_line, real};
use crate::{Error, Result};

/// On every process of a harvest, so that the next one finds what a dead one left.
pub(super) const MARK: &str = "NETSKY_HARVEST";
/// Longest that their end is waited for.
pub(super) const SWEEP: Duration = Duration::from_secs(5);

/// Files in which git keeps the branches that a rebase will set.
const REBASES: &[&str] = &["rebase-merge/head-name", "rebase-apply/head-name", "rebase-merge/update-refs"];
/// Most bytes of one.
const MOST: u64 = 1024 * 1024;

/// The owner's repository.
pub(crate) struct Target {
    /// What all its checkouts have together.
    pub(crate) repo: Repo,
    /// Which one it is, whatever path led to it.
    pub(crate) key: String,
}

/// Files that somebody laid out of `main`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Checkout {
    /// What is this checkout's own: its index.
    pub(crate) dir: PathBuf,
    /// The files.
    pub(crate) tree: PathBuf,
}

impl Target {
    pub(crate) fn of(job: &Job) -> Result<Target> {
        let common = owners(job)?;
        let key = blake3::hash(common.dir().as_os_str().as_encoded_bytes()).to_hex()[..16].to_owned();
        let repo = Repo::new(&job.git.clone().marked(MARK, &key).for_the_user(), common.dir());
        Ok(Target { repo, key })
    }

    /// Who has a branch checked out at this moment: a gate takes minutes, in which the owner does as he likes.
    pub(super) fn checkout(&self, job: &Job, main: &RefName) -> Result<Option<Checkout>> {
        let checkout = checkout_of(job, main, &self.repo)?;
        for folder in checkout.iter().flat_map(|checkout| [&checkout.dir, &checkout.tree]) {
            crate::outside(&job.layout, folder)?;
        }
        Ok(checkout)
    }

    /// What is in the way where a branch is being rebased: git has it out nowhere then, and at the end sets it only if it has not
    /// moved.
    pub(super) fn rebase_of(&self, main: &RefName) -> Result<Option<Vec<String>>> {
        let linked = self.repo.dir().join("worktrees");
        let mut folders = vec![self.repo.dir().to_owned()];
        match Dir::look_into(&linked) {
            Ok(names) => {
                let all = names.raw_names()?.into_iter().map(|name| linked.join(name));
                folders.extend(all.filter(|path| is_folder(path)));
            }
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e.into()),
        }
        for path in folders.iter().flat_map(|folder| REBASES.iter().map(|name| folder.join(name))) {
            let names = match read_users_file(&path, MOST) {
                Ok(names) => names,
                Err(ReadError::Io(e)) if e.is_not_found() => continue,
                Err(e) => return Err(e.on("read", &path).into()),
            };
            if names.split(|byte| *byte == b'\n').any(|name| name == main.as_str().as_bytes()) {
                let at = plain_line(&path.to_string_lossy());
                return Ok(Some(vec![format!("a rebase of {main} is under way: {at}")]));
            }
        }
        Ok(None)
    }

    /// Keep all others from harvesting there: those of this home, which finish what a dead one left, and then those of any other
    /// home. None where somebody keeps one of both for so long.
    pub(super) fn locked(&self, job: &Job, patience: Duration) -> Result<Option<[Lock; 2]>> {
        Dir::create(job.layout.harvests())?;
        let own = job.layout.harvests().join(format!("{}.lock", self.key));
        let until = netsky_disk::clock::boot() + patience;
        let Some(own) = Lock::take_within(own, patience)? else { return Ok(None) };
        let rest = until.saturating_sub(netsky_disk::clock::boot());
        Ok(Lock::of_folder_within(self.repo.dir(), rest)?.map(|all| [own, all]))
    }

    pub(super) fn note(&self, job: &Job) -> PathBuf {
        job.layout.harvests().join(format!("{}.json", self.key))
    }

    pub(crate) fn scratch(&self, job: &Job) -> PathBuf {
        job.layout.scratch().join(&self.key)
    }

    /// What every process of this harvest bears.
    pub(crate) fn mark(&self) -> (String, String) {
        (MARK.to_owned(), self.key.clone())
    }
}

/// The owner's repository, for who only asks it: what all its checkouts have together.
pub(crate) fn owners(job: &Job) -> Result<Repo> {
    owners_at(&job.layout, &job.git, &job.repo)
}

/// The same, of one that is at a path.
pub(crate) fn owners_at(layout: &Layout, git: &Git, path: &Path) -> Result<Repo> {
    crate::git::text(path)?;
    crate::outside(layout, path)?;
    let dir = crate::git::dir_in(path);
    // In a linked worktree it is a file. A `.git` that leads to nothing is no bare repository either.
    if !dir.is_file() && !netsky_disk::state::exists(dir.join("HEAD"))? {
        return Err(Error::Missing { path: path.to_owned() });
    }
    let common = Repo::new(git, &dir).common()?;
    crate::outside(layout, &common)?;
    Ok(Repo::new(&git.clone().for_the_user(), &common))
}

/// The one checkout of a branch; git lets nobody check it out twice but by force.
fn checkout_of(job: &Job, main: &RefName, repo: &Repo) -> Result<Option<Checkout>> {
    let told = repo.bytes(&["worktree", "list", "--porcelain", "-z"], &[])?;
    let told = String::from_utf8_lossy(&told);
    let (mut found, mut gone) = (Vec::new(), Vec::new());
    for entry in told.split("\0\0") {
        let value = |key: &str| entry.split('\0').find_map(|line| line.strip_prefix(key));
        if value("branch ") == Some(main.as_str()) && value("bare").is_none() {
            let list = if value("prunable").is_some() { &mut gone } else { &mut found };
            list.extend(value("worktree ").map(PathBuf::from));
        }
    }
    let second = "a second folder has it checked out, and files can follow in one alone";
    match (&found[..], &gone[..]) {
        ([], []) => Ok(None),
        ([tree], _) | ([], [tree, ..]) => Ok(Some(laid_out(job, main, repo, tree)?)),
        ([_, other, ..], _) => Err(Error::unfit(
            other,
            format!("{second}: check out another branch than {} there", main.short()),
        )),
    }
}

/// The checkout that git says is in `tree`.
fn laid_out(job: &Job, main: &RefName, repo: &Repo, tree: &Path) -> Result<Checkout> {
    if !is_folder(tree) {
        let why =
            format!("{main} is checked out there, and it is gone; `git worktree prune` if that is meant");
        return Err(Error::unfit(tree, why));
    }
    // Git takes the repository's own folder for its files where these are elsewhere; only who names them knows where.
    let is_elsewhere = real(tree)? == repo.dir();
    let tree = if is_elsewhere { real(&job.repo)? } else { tree.to_owned() };
    let inner = Repo::new(repo.git(), &crate::git::dir_in(&tree));
    // A linked checkout of another branch is of the same repository, and has a folder of its own.
    if inner.dir() == tree || (is_elsewhere && inner.own()? != repo.dir()) {
        return Err(Error::unfit(&tree, format!("the files of {main} are elsewhere: name their folder")));
    }
    let own = inner.own()?;
    // Of a linked checkout git does not ask that.
    if !is_elsewhere && own == repo.dir() && inner.files()?.is_some_and(|files| files != tree) {
        let why =
            format!("core.worktree puts the files of {main} elsewhere, where they cannot follow: unset it");
        return Err(Error::unfit(&tree, why));
    }
    if inner.common()? != repo.dir() {
        return Err(Error::unfit(
            &tree,
            format!("{main} is checked out there, and it is another repository"),
        ));
    }
    Ok(Checkout { dir: own, tree })
}
