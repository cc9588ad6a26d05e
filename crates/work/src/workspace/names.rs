//! What a repository has names of, read from its files: no git runs in it.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::Path;

use netsky_disk::ReadError;
use netsky_disk::fs::{Dir, is_real_folder};

use super::{Workspace, each_below};
use crate::git::Sha;
use crate::{Error, Result};

/// All names of a repository, and what each is of.
pub(super) type Names = BTreeMap<Vec<u8>, String>;

/// Most bytes of a file of one ref.
const MOST_REF: u64 = 4096;
/// Most bytes of the file of many.
const MOST: u64 = 64 * 1024 * 1024;

/// What git calls the folder of a repository.
pub(super) const GIT: &str = ".git";

/// What a checkout has names in, besides `refs`: as git itself keeps what they are of. Not what was before a change of its own
/// (`ORIG_HEAD`) and what was looked at (`FETCH_HEAD`).
const OF_A_CHECKOUT: &[&str] = &[
    "HEAD",
    "MERGE_HEAD",
    "MERGE_AUTOSTASH",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "rebase-merge/orig-head",
    "rebase-merge/autostash",
    "rebase-apply/orig-head",
    "rebase-apply/autostash",
];

/// All names in a repository and what they are of, each `HEAD` that is no branch's among them, and not what only leads on.
pub(super) fn refs(git: &Path) -> Result<Names> {
    if !is_real_folder(git) || !is_real_folder(git.join("refs")) || git.join("refs/heads").is_file() {
        return Err(Error::unfit(git, "its refs are in no folder of its own"));
    }
    let is_ref =
        |path: &Path, of: &Metadata| !of.is_dir() && path.extension().is_none_or(|end| end != "lock");
    let mut files = Vec::new();
    let mut checkouts = vec![git.to_owned()];
    let linked = git.join("worktrees");
    each_below(&linked, |path, of| {
        let mut rest = path.strip_prefix(&linked).into_iter().flatten().skip(1);
        match rest.next() {
            None if of.is_dir() => checkouts.push(path.to_owned()),
            // What is of that checkout alone.
            Some(first) if first == "refs" && is_ref(path, of) => files.push(path.to_owned()),
            _ => {}
        }
    })?;
    for folder in checkouts {
        files.extend(OF_A_CHECKOUT.iter().map(|name| folder.join(name)));
    }
    each_below(&git.join("refs"), |path, of| files.extend(is_ref(path, of).then(|| path.to_owned())))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let mut all: BTreeMap<Vec<u8>, Option<String>> = BTreeMap::new();
    for file in files {
        let Some(bytes) = bytes_of(&file, MOST_REF)? else { continue };
        let name = file.strip_prefix(git).unwrap_or(&file).as_os_str().as_encoded_bytes();
        all.insert(name.to_owned(), (!bytes.starts_with(b"ref: ")).then(|| text(&bytes)));
    }
    // Of stashes the newest alone has a name but in their log.
    let stashes = bytes_of(&git.join("logs/refs/stash"), MOST)?.unwrap_or_default();
    for (nth, line) in stashes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).rev().enumerate()
    {
        let at = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        all.insert(format!("refs/stash@{{{nth}}}").into_bytes(), Some(text(at)));
    }
    // Behind the others: a git that packs them makes this file first, and only then removes those.
    let packed = bytes_of(&git.join("packed-refs"), MOST)?.unwrap_or_default();
    for line in packed.split(|byte| *byte == b'\n') {
        let mut parts = line.splitn(2, |byte| *byte == b' ');
        // A line before names has the word `#`, and one of what a tag is of is one word.
        if let (Some(at), Some(name)) = (parts.next().filter(|at| *at != b"#"), parts.next()) {
            all.entry(name.to_owned()).or_insert_with(|| Some(text(at)));
        }
    }
    Ok(all.into_iter().filter_map(|(name, at)| Some((name, at?))).collect())
}

/// A file of git's; none if it is not there. What a link in its place leads to is nobody's to see.
fn bytes_of(file: &Path, most: u64) -> Result<Option<Vec<u8>>> {
    let Some((folder, name)) = file.parent().zip(file.file_name()) else { return Ok(None) };
    let folder = match Dir::look_into(folder) {
        Err(e) if e.is_not_found() => return Ok(None),
        folder => folder?,
    };
    match folder.read(name, most) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ReadError::Io(e)) if e.is_not_found() => Ok(None),
        Err(e) => Err(e.on("read", file).into()),
    }
}

/// Where a workspace's branch is, read from its files: no git runs in it.
pub(super) fn tip_of(git: &Path, workspace: &Workspace) -> Option<Sha> {
    let branch = workspace.branch.as_str();
    if let Ok(Some(loose)) = bytes_of(&git.join(branch), MOST_REF) {
        return String::from_utf8_lossy(&loose).trim().parse().ok();
    }
    let packed = bytes_of(&git.join("packed-refs"), MOST).ok()??;
    let packed = String::from_utf8_lossy(&packed);
    packed.lines().find_map(|line| line.split_once(' ').filter(|(_, name)| *name == branch))?.0.parse().ok()
}
