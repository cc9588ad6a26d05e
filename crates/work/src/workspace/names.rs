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
const OF_A_CHECKOUT: &[&str] =
    &["HEAD", "MERGE_HEAD", "MERGE_AUTOSTASH", "CHERRY_PICK_HEAD", "REVERT_HEAD", BISECT];

/// Where what a checkout has begun is: in it are commits by names too short to ask for, patches, and what was put aside.
const BEGUN: &[&str] = &["rebase-merge", "rebase-apply", "sequencer"];

/// What such a folder is said to be of.
pub(super) const UNDER_WAY: &str = "under way";

/// Where a search for a culprit began: a commit, or the name of a branch.
const BISECT: &str = "BISECT_START";

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
    let mut all: BTreeMap<Vec<u8>, Option<String>> = BTreeMap::new();
    let name_of =
        |path: &Path| path.strip_prefix(git).unwrap_or(path).as_os_str().as_encoded_bytes().to_owned();
    for folder in checkouts {
        let begun = BEGUN.iter().map(|name| folder.join(name)).filter(|begun| is_real_folder(begun));
        all.extend(begun.map(|begun| (name_of(&begun), Some(UNDER_WAY.to_owned()))));
        files.extend(OF_A_CHECKOUT.iter().map(|name| folder.join(name)));
    }
    each_below(&git.join("refs"), |path, of| files.extend(is_ref(path, of).then(|| path.to_owned())))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    for file in files {
        let Some(bytes) = bytes_of(&file, MOST_REF)? else { continue };
        // A merge of many has a line for each.
        for (nth, line) in text(&bytes).split('\n').enumerate() {
            let name =
                [name_of(&file), if nth == 0 { Vec::new() } else { format!(":{nth}").into_bytes() }].concat();
            // A search for a culprit that began on a branch has its name here.
            let leads_on =
                line.starts_with("ref: ") || file.ends_with(BISECT) && line.parse::<Sha>().is_err();
            all.insert(name, (!leads_on).then(|| line.to_owned()));
        }
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
