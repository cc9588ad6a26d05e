//! Repositories within a workspace: commits in one that are seen nowhere else would go with the workspace.
//!
//! Promise: what an agent committed in one keeps the workspace, however it did that. Seen elsewhere is what a branch of a remote out
//! of the workspace names, what a clone or the last fetch brought from there, what the owner has, and what is before these. What cannot
//! be seen is its agent's. Names are read from files; git reads objects alone, in the owner's repository.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{FileType, read_dir};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netsky_disk::env;

use super::names::{GIT, MOST, MOST_REF, Names, bytes_of, refs, remotes};
use super::taken::git_of;
use super::{Elsewhere, Workspace, each_below};
use crate::git::{Sha, plain_line, real};
use crate::{Error, Result};

/// What of a workspace that is in a folder has what nobody else has, as plain text.
pub(super) fn unkept(at: &Path, known: &Workspace, elsewhere: &dyn Elsewhere) -> Result<Option<String>> {
    let at = real(at)?;
    let look = Look { git: git_of(&at), was: at.with_file_name(known.task.as_str()), at };
    let found = match look.repositories() {
        Ok(found) => found,
        Err((folder, e)) => return Ok(Some(format!("{} cannot be looked into: {e}", look.name(&folder)))),
    };
    // What one has from elsewhere is elsewhere, also where another one within the workspace was cloned of it.
    let (mut all, mut brought) = (Vec::new(), BTreeSet::new());
    for git in found {
        let Ok(names) = refs(&git) else {
            return Ok(Some(format!("{} does not read as a repository", look.name(&git))));
        };
        brought.extend(look.brought(&git, &names)?);
        all.push((git, names));
    }
    for (git, names) in all {
        let own: std::result::Result<BTreeSet<Sha>, _> = names.values().map(|at| at.parse()).collect();
        let is_kept = |own: BTreeSet<Sha>| match &own - &brought {
            own if own.is_empty() => true,
            own => look.plain_objects(&git).is_ok_and(|objects| elsewhere.has_all(&objects, &own, &brought)),
        };
        if !own.is_ok_and(is_kept) {
            let way =
                "`git push` them to a remote of it and `git fetch` that, or move it out of the workspace";
            return Ok(Some(format!("{} has commits that are seen nowhere else: {way}", look.name(&git))));
        }
    }
    Ok(None)
}

/// One look through a workspace.
struct Look {
    /// Where it is now.
    at: PathBuf,
    /// Where it is while it has its name.
    was: PathBuf,
    /// The repository of its clone.
    git: PathBuf,
}

impl Look {
    /// What is below it, as whoever mends it finds it.
    fn name(&self, path: &Path) -> String {
        let name = path.strip_prefix(&self.at).map_or_else(|_| path.to_owned(), |path| self.was.join(path));
        plain_line(&name.to_string_lossy())
    }

    /// All repositories that are in it, but that of its clone; or which folder cannot be looked into.
    fn repositories(&self) -> std::result::Result<BTreeSet<PathBuf>, (PathBuf, std::io::Error)> {
        let (mut open, mut found) = (vec![self.at.clone()], BTreeSet::new());
        while let Some(folder) = open.pop() {
            let is_anothers = || folder.symlink_metadata().is_ok_and(|of| of.uid() != env::user());
            let entries = match read_dir(&folder) {
                Ok(entries) => entries,
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                // What its agent shut goes with the workspace all the same, and it made nothing in what is another's.
                Err(e) if e.kind() == ErrorKind::PermissionDenied && is_anothers() => continue,
                Err(e) => return Err((folder, e)),
            };
            for entry in entries {
                let of = entry.and_then(|entry| Ok((entry.file_type()?, entry.path())));
                let (of, path) = of.map_err(|e| (folder.clone(), e))?;
                if path.ends_with(GIT) && of.is_file() {
                    bytes_of(&path, MOST_REF).map_err(|e| (path.clone(), std::io::Error::other(e)))?;
                }
                found.extend(self.repository(&path, of));
                if of.is_dir() {
                    open.push(path);
                }
            }
        }
        Ok(found)
    }

    /// The repository that something in the workspace is, or leads to; not that of its clone, nor one that stays.
    fn repository(&self, path: &Path, of: FileType) -> Option<PathBuf> {
        // A submodule's is below that of who has it; one with linked checkouts may be called anything.
        let is_below = || path.starts_with(&self.git) || path.iter().any(|name| name == GIT);
        let may_be = || of.is_dir() && (is_below() || path.join("worktrees").is_dir());
        let is_one = path.ends_with(GIT) || may_be() && path.join("HEAD").is_file();
        let found = is_one.then(|| self.led(path)).flatten()?;
        let is_it = found != self.git && found.starts_with(&self.at) && found.join("objects").is_dir();
        is_it.then_some(found)
    }

    /// The repository that a `.git` is, or leads to; of a linked checkout the one of all.
    fn led(&self, git: &Path) -> Option<PathBuf> {
        let words = |file: &Path, before: &[u8]| {
            let said = bytes_of(file, MOST_REF).ok()??;
            let end = said.iter().rposition(|byte| !b"\r\n".contains(byte))?;
            Some(PathBuf::from(OsStr::from_bytes(said[..=end].strip_prefix(before)?)))
        };
        let mut real = self.real(git)?;
        if !real.is_dir() {
            // Also where it is a link to such a file: of where the link is.
            real = self.real(&git.parent()?.join(words(&real, b"gitdir: ")?))?;
        }
        let common = words(&real.join("commondir"), b"").and_then(|to| self.real(&real.join(to)));
        Some(common.unwrap_or(real))
    }

    /// Where a path leads that was written in the workspace when it was where it is not now: it goes, or its home was moved.
    fn real(&self, path: &Path) -> Option<PathBuf> {
        let name = Path::new(self.was.parent()?.file_name()?).join(self.was.file_name()?);
        let above = path.ancestors().filter(|above| above.ends_with(&name)).last();
        let now = above.and_then(|above| self.at.join(path.strip_prefix(above).ok()?).canonicalize().ok());
        now.or_else(|| path.canonicalize().ok())
    }

    /// The folders that its objects are in: its own, those that it borrows, and those that these borrow.
    fn objects(&self, git: &Path) -> Result<BTreeSet<PathBuf>> {
        let (mut open, mut found) = (vec![real(&git.join("objects"))?], BTreeSet::new());
        while let Some(folder) = open.pop() {
            let borrowed = bytes_of(&folder.join("info/alternates"), MOST)?.unwrap_or_default();
            for line in
                borrowed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && line[0] != b'#')
            {
                let gone = || Error::unfit(&folder, "it borrows of what is not there");
                open.push(self.real(&folder.join(OsStr::from_bytes(line))).ok_or_else(gone)?);
            }
            open.retain(|other| *other != folder && !found.contains(other));
            found.insert(folder);
        }
        Ok(found)
    }

    /// The same, where git can read them: of a pipe it waits.
    fn plain_objects(&self, git: &Path) -> Result<Vec<PathBuf>> {
        let (all, mut odd) = (self.objects(git)?, None);
        for folder in all.iter().filter(|folder| folder.starts_with(&self.at)) {
            each_below(folder, |path, of| {
                odd = odd.take().or_else(|| (!of.is_file() && !of.is_dir()).then(|| path.to_owned()));
            })?;
        }
        match odd {
            Some(odd) => Err(Error::unfit(&odd, "it is neither a file nor a folder")),
            None => Ok(all.into_iter().collect()),
        }
    }

    /// What one has from elsewhere: what it was cloned from and has fetched last, and what its remotes have.
    fn brought(&self, git: &Path, names: &Names) -> Result<BTreeSet<Sha>> {
        let text = |name: &str| {
            let bytes = bytes_of(&git.join(name), MOST)?.unwrap_or_default();
            Ok::<_, Error>(String::from_utf8_lossy(&bytes).into_owned())
        };
        let (log, fetched) = (text("logs/HEAD")?, text("FETCH_HEAD")?);
        let mut found = BTreeSet::new();
        // `<commit> TAB … TAB [branch 'x' of ]<where>`
        for line in fetched.lines() {
            let (at, from) = (line.split('\t').next(), line.rsplit('\t').next().unwrap_or_default());
            if self.is_elsewhere(git, from.split_once("' of ").map_or(from, |(_, from)| from)) {
                found.extend(at.and_then(|at| at.parse().ok()));
            }
        }
        for (who, from) in log.lines().filter_map(|line| line.split_once("\tclone: from ")) {
            // What its remotes are called by now says nothing then of where that came from.
            if !self.is_elsewhere(git, from) {
                return Ok(found);
            }
            found.extend(who.split(' ').nth(1).and_then(|new| new.parse().ok()));
        }
        let remotes = remotes(git)?;
        for (remote, to) in remotes.all.iter().filter(|_| !remotes.may_differ) {
            if to.iter().all(|to| self.is_elsewhere(git, to)) {
                let theirs = names.iter().filter(|(name, _)| remotes.has(remote, git, name));
                found.extend(theirs.filter_map(|(_, at)| at.parse().ok()));
            }
        }
        Ok(found)
    }

    /// Whether what a repository was cloned or fetched from, or pushed to, is there without the workspace; an address is.
    fn is_elsewhere(&self, git: &Path, to: &str) -> bool {
        let path = to.strip_prefix("file://").unwrap_or(to);
        // As git tells them apart.
        if path == to && path.split('/').next().is_some_and(|first| first.contains(':')) {
            return true;
        }
        // Of one in another place only itself knows where its files are.
        let Some(base) = git.parent().filter(|_| git.ends_with(GIT) || Path::new(path).is_absolute()) else {
            return false;
        };
        // Git leaves the end of a name out where it says what it fetched.
        let mut real = ["", ".git"].iter().filter_map(|end| self.real(&base.join(format!("{path}{end}"))));
        let Some(real) = real.next() else { return false };
        let git = self.led(&real.join(GIT)).unwrap_or_else(|| real.clone());
        // What is out of the workspace may lead into it all the same, borrow there, or have a part of it.
        let is_whole = !git.join("shallow").exists()
            && bytes_of(&git.join("config"), MOST).is_ok_and(|config| {
                let config = String::from_utf8_lossy(&config.unwrap_or_default()).to_ascii_lowercase();
                !config.contains("promisor") && !config.contains("partialclone")
            });
        let is_out = |path: &PathBuf| !path.starts_with(&self.at);
        is_whole && is_out(&real) && self.objects(&git).is_ok_and(|objects| objects.iter().all(is_out))
    }
}
