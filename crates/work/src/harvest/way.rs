//! What lies in the way of files that land and git does not know.
//!
//! Why it is not left to git: since 2.34 `read-tree` takes what is ignored for nothing. It overwrites such a file and removes such a
//! folder with all that is in it, and has no setting against that.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use netsky_disk::fs::{Dir, is_real_folder};

use crate::Result;
use crate::git::{Repo, Sha, plain_line};

/// What changes from one tree to another: for each name a letter of how, and the name, as `diff-tree -z` writes them.
#[derive(Default)]
pub(super) struct Way(Vec<u8>);

impl Way {
    /// What changes between two.
    pub(super) fn between(repo: &Repo, old: &Sha, new: &Sha) -> Result<Way> {
        // What `.gitmodules` has left out of a diff changes all the same, and where it does not read git would end.
        let all = "--ignore-submodules=none";
        let args =
            ["diff-tree", "-r", "-z", "--no-renames", "--name-status", all, old.as_str(), new.as_str()];
        repo.bytes(&args, &[]).map(Way)
    }

    fn all(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let mut fields = self.0.split(|byte| *byte == 0);
        std::iter::from_fn(move || Some((*fields.next()?.first()?, fields.next()?)))
    }

    /// The names of all that changes.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.all().map(|(_, name)| name)
    }

    /// The names, each with a zero behind it, as `update-index` takes them: without what comes or goes where a folder is, or behind
    /// a link, for there is none of it on disk.
    pub(super) fn files_in(&self, tree: &Path) -> Vec<u8> {
        let is_file = |(how, name): &(u8, &[u8])| {
            let at = path(name);
            let mut above = at.ancestors().skip(1).filter(|above| *above != Path::new(""));
            let is_behind = matches!(how, b'A' | b'D') && above.any(|above| tree.join(above).is_symlink());
            !(is_behind || *how == b'A' && is_real_folder(tree.join(at)))
        };
        self.all().filter(is_file).flat_map(|(_, name)| [name, b"\0"].concat()).collect()
    }

    /// The first that is in the way below `tree` and git does not know, ignored or not; said as plain text.
    pub(super) fn blocked(&self, tree: &Path) -> Option<String> {
        let goes = self.all().filter(|(how, _)| *how == b'D').map(|(_, name)| path(name)).collect();
        let mut comes = self.all().filter(|(how, _)| matches!(how, b'A' | b'T'));
        let at = comes.find_map(|(how, name)| unknown_at(tree, path(name), how == b'T', &goes))?;
        Some(format!("{} is there, and git does not know it", plain_line(&at.to_string_lossy())))
    }
}

fn path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

/// What is where one lands, or where a folder above it is to be, and is none of those that go; `is_known` of one that is a file before
/// and after.
fn unknown_at(tree: &Path, name: &Path, is_known: bool, goes: &HashSet<&Path>) -> Option<PathBuf> {
    let mut at = PathBuf::new();
    for part in name {
        at.push(part);
        // What cannot be looked at git cannot write to either, and says so.
        let of = tree.join(&at).symlink_metadata().ok()?;
        if !of.is_dir() {
            let is_known = goes.contains(&*at) || (is_known && at == name);
            return (!is_known).then_some(at);
        }
    }
    unknown_in(tree, &at, goes)
}

/// The first in a folder that is none of those that go. Folders alone hold nothing.
fn unknown_in(tree: &Path, folder: &Path, goes: &HashSet<&Path>) -> Option<PathBuf> {
    let listed = Dir::look_into(tree.join(folder)).and_then(|folder| folder.raw_names());
    let Ok(names) = listed else { return Some(folder.to_owned()) };
    names.into_iter().map(|name| folder.join(name)).find_map(|at| {
        if is_real_folder(tree.join(&at)) {
            return unknown_in(tree, &at, goes);
        }
        (!goes.contains(&*at)).then_some(at)
    })
}
