//! Git repositories in a workspace besides its clone: submodules, and what an agent or a build cloned or made.
//!
//! Promise: each is found that git would take for one, whatever it is called and whatever leads to it.

use std::collections::BTreeSet;
use std::fs::read_dir;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netsky_disk::env;

use super::names::GIT;

/// What makes a folder one.
const PARTS: [&str; 3] = ["HEAD", "objects", "refs"];

/// All of them below `at`, but for the clone's own; or which folder cannot be looked into.
pub(super) fn repositories(
    at: &Path,
    own: &Path,
) -> std::result::Result<BTreeSet<PathBuf>, (PathBuf, Error)> {
    let (mut open, mut found) = (vec![at.to_owned()], BTreeSet::new());
    while let Some(folder) = open.pop() {
        let is_anothers = || folder.symlink_metadata().is_ok_and(|of| of.uid() != env::user());
        let entries = match read_dir(&folder) {
            Ok(entries) => entries,
            Err(e) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&e.kind()) => continue,
            // What its agent shut goes with the workspace all the same, and it made nothing in what is another's.
            Err(e) if e.kind() == ErrorKind::PermissionDenied && is_anothers() => continue,
            Err(e) => return Err((folder, e)),
        };
        let mut has = BTreeSet::new();
        for entry in entries {
            let of = entry.and_then(|entry| Ok((entry.file_type()?, entry)));
            let (of, entry) = of.map_err(|e| (folder.clone(), e))?;
            has.extend(PARTS.into_iter().find(|part| entry.file_name() == *part));
            if of.is_dir() {
                open.push(entry.path());
            }
        }
        // One of git's own name is one as long as it has objects, whatever else was taken from it.
        let is_one = has.len() == PARTS.len() || folder.ends_with(GIT) && has.contains("objects");
        if is_one && folder != own {
            found.insert(folder);
        }
    }
    Ok(found)
}
