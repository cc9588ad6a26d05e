//! Repositories within a workspace: what one has that nobody else has would go with the workspace.
//!
//! Promise: what an agent committed in one keeps the workspace, however it did that. Nothing keeps it that a branch of a remote
//! elsewhere names, that a clone or the last fetch brought from there, that the owner has, or that is before these. Where that cannot
//! be seen, it is its agent's. Their names are read from files; git reads their objects alone, in the owner's repository. A bare one that
//! is not called `.git` is not looked for: projects have such among their files.

use std::collections::BTreeSet;
use std::fs::{FileType, read_dir};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netsky_disk::env;

use super::names::{GIT, MOST, MOST_REF, Names, bytes_of, git_of, refs, remotes};
use super::{Elsewhere, REPO, Workspace};
use crate::Result;
use crate::git::{Sha, plain_line};

/// Most repositories of a workspace that one was cloned from by way of each other.
const MOST_HOPS: u8 = 4;

/// What of a workspace that is in a folder has what nobody else has, as plain text.
pub(super) fn unkept(
    at: &Path,
    known: &Workspace,
    elsewhere: &dyn Elsewhere,
) -> std::io::Result<Option<String>> {
    let at = at.canonicalize()?;
    let was = at.with_file_name(known.task.as_str());
    let look = Look { git: git_of(&at), was, elsewhere, at };
    let mut open = vec![look.at.clone()];
    while let Some(folder) = open.pop() {
        let entries = match read_dir(&folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            // What its agent shut goes with the workspace all the same, and it made nothing in what is another's.
            Err(e) if e.kind() == ErrorKind::PermissionDenied && !look.is_ours(&folder) => continue,
            Err(e) => return Ok(Some(format!("{} cannot be looked into: {e}", look.name(&folder)))),
        };
        for entry in entries {
            let entry = entry?;
            let (of, path) = (entry.file_type()?, entry.path());
            if let Some(found) = look.repository(&path, of)
                && !look.is_brought(&found, MOST_HOPS).unwrap_or(false)
            {
                let way = "push them, or move it out of the workspace";
                return Ok(Some(format!(
                    "{} has commits that are seen nowhere else: {way}",
                    look.name(&found)
                )));
            }
            if of.is_dir() {
                open.push(path);
            }
        }
    }
    Ok(None)
}

/// One look through a workspace.
struct Look<'a> {
    /// Where it is now.
    at: PathBuf,
    /// Where it is while it has its name.
    was: PathBuf,
    /// The repository of its clone.
    git: PathBuf,
    elsewhere: &'a dyn Elsewhere,
}

impl Look<'_> {
    /// What is below it, as whoever mends it finds it.
    fn name(&self, path: &Path) -> String {
        let name = path.strip_prefix(&self.at).map_or_else(|_| path.to_owned(), |path| self.was.join(path));
        plain_line(&name.to_string_lossy())
    }

    fn is_ours(&self, folder: &Path) -> bool {
        folder.symlink_metadata().is_ok_and(|of| of.uid() == env::user())
    }

    /// The repository that something in the workspace is, or leads to; not that of its clone, nor one that stays.
    fn repository(&self, path: &Path, of: FileType) -> Option<PathBuf> {
        let is_git = path.ends_with(GIT);
        let found = if of.is_dir() {
            // A submodule's is below that of who has it.
            let is_below = path.starts_with(&self.git) || path.iter().any(|name| name == GIT);
            (is_git || is_below && path.join("HEAD").is_file()).then(|| path.to_owned())
        } else if is_git && of.is_file() {
            self.led(path, "gitdir: ")
        } else {
            is_git.then(|| self.real(path)).flatten()
        };
        // Of a linked checkout it is elsewhere, maybe by a name of no repository.
        let found = found.and_then(|found| self.led(&found.join("commondir"), "").or(Some(found)));
        found.filter(|found| {
            *found != self.git && found.starts_with(&self.at) && found.join("objects").is_dir()
        })
    }

    /// Where a file of git's leads, behind these words.
    fn led(&self, file: &Path, words: &str) -> Option<PathBuf> {
        let said = bytes_of(file, MOST_REF).ok()??;
        let to = std::str::from_utf8(&said).ok()?.strip_prefix(words)?.trim_end();
        self.real(&file.parent()?.join(to))
    }

    /// Where a path leads that was written in the workspace when it was where it is not now: it goes, or its home was moved.
    fn real(&self, path: &Path) -> Option<PathBuf> {
        let name = Path::new(self.was.parent()?.file_name()?).join(self.was.file_name()?);
        let rest = path
            .ancestors()
            .filter(|above| above.ends_with(&name))
            .last()
            .map(|above| path.strip_prefix(above));
        let now = rest.and_then(|rest| self.at.join(rest.ok()?).canonicalize().ok());
        now.or_else(|| path.canonicalize().ok())
    }

    /// Whether all that a repository has names of is kept elsewhere.
    fn is_brought(&self, git: &Path, hops: u8) -> Result<bool> {
        let names = refs(git)?;
        let brought = self.brought(git, &names, hops)?;
        let all: std::result::Result<BTreeSet<Sha>, _> = names.values().map(|at| at.parse()).collect();
        // What is no commit's name is nobody's to read.
        let Ok(all) = all else { return Ok(false) };
        let own = &all - &brought;
        Ok(own.is_empty() || self.elsewhere.has_all(git, &own, &brought))
    }

    /// What it has from elsewhere: what its remotes have, where all of these are there, and what was cloned and fetched last.
    fn brought(&self, git: &Path, names: &Names, hops: u8) -> Result<BTreeSet<Sha>> {
        let text = |name: &str| {
            let bytes = bytes_of(&git.join(name), MOST)?.unwrap_or_default();
            Ok::<_, crate::Error>(String::from_utf8_lossy(&bytes).into_owned())
        };
        let is_elsewhere = |from: &str| self.is_elsewhere(git, from, hops);
        let (remotes, log, fetched) = (remotes(git)?, text("logs/HEAD")?, text("FETCH_HEAD")?);
        let mut found = BTreeSet::new();
        for (who, from) in log.lines().filter_map(|line| line.split_once("\tclone: from ")) {
            if !is_elsewhere(from) {
                return Ok(BTreeSet::new());
            }
            found.extend(who.split(' ').nth(1).and_then(|new| new.parse().ok()));
        }
        // `<commit> TAB … TAB [branch 'x' of ]<where>`
        for line in fetched.lines() {
            let (at, from) = (line.split('\t').next(), line.rsplit('\t').next().unwrap_or_default());
            if is_elsewhere(from.rsplit(" of ").next().unwrap_or(from)) {
                found.extend(at.and_then(|at| at.parse().ok()));
            }
        }
        let mut urls = remotes.iter().filter(|remote| remote.key == "url").peekable();
        if urls.peek().is_some() && urls.all(|remote| is_elsewhere(&remote.value)) {
            let is_mirror = remotes.iter().any(|remote| remote.key == "mirror" && remote.value == "true");
            let theirs = names.iter().filter(|(name, _)| is_mirror || name.starts_with(b"refs/remotes/"));
            found.extend(theirs.filter_map(|(_, at)| at.parse().ok()));
        }
        Ok(found)
    }

    /// Whether what a repository was cloned or fetched from is still there without the workspace; an address is.
    fn is_elsewhere(&self, git: &Path, from: &str, hops: u8) -> bool {
        let path = from.strip_prefix("file://").unwrap_or(from);
        // As git tells them apart.
        if path == from && path.split('/').next().is_some_and(|first| first.contains(':')) {
            return true;
        }
        let Some(base) = git.parent() else { return false };
        // Git leaves the end of a name out where it says what it fetched.
        let real = ["", ".git"].iter().find_map(|end| self.real(&base.join(format!("{path}{end}"))));
        let Some(real) = real else { return false };
        if !real.starts_with(&self.at) {
            return true;
        }
        let clone = self.at.join(REPO);
        let inner = match real.join(GIT) {
            _ if real == clone || real == clone.join(GIT) => self.git.clone(),
            git if git.is_dir() => git,
            _ => real,
        };
        hops > 0 && self.is_brought(&inner, hops - 1).unwrap_or(false)
    }
}
