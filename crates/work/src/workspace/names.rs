//! What a workspace's clone has names of, read from its files: no git runs in it.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use netsky_disk::fs::{Dir, is_real_folder};
use netsky_disk::{ReadError, state};

use super::{KNOWN, REPO, Workspace, each_below};
use crate::git::{Sha, plain_line};
use crate::{Error, Result};

/// How what was fetched of a workspace's repository is called.
const ORIGIN: &[u8] = b"refs/remotes/origin/";
/// Most bytes of a file of one ref.
const MOST_REF: u64 = 4096;
/// Most bytes of the file of many.
const MOST: u64 = 64 * 1024 * 1024;

/// What git calls the folder of a repository.
const GIT: &str = ".git";
/// Where that of a workspace is while it goes: beside its clone, where no git finds it.
const TAKEN: &str = "git";

/// Where the names of a workspace's clone are.
pub(super) fn git_of(at: &Path) -> PathBuf {
    let taken = at.join(TAKEN);
    if is_real_folder(&taken) { taken } else { at.join(REPO).join(GIT) }
}

/// Takes its repository from a clone: from then on nobody commits there.
pub(super) fn take_git(at: &Path) -> Result<()> {
    moved(&Dir::look_into(at.join(REPO))?, GIT, &Dir::look_into(at)?, TAKEN)
}

/// Gives it back; a clone that has another by now keeps that.
pub(super) fn give_git(at: &Path) -> Result<()> {
    moved(&Dir::look_into(at)?, TAKEN, &Dir::look_into(at.join(REPO))?, GIT)
}

/// Moves a name, where it is there and its place is free.
fn moved(from: &Dir, name: &str, to: &Dir, new: &str) -> Result<()> {
    match from.rename(name, to, new) {
        Err(e) if e.is_not_found() || e.is_exists() => Ok(()),
        moved => Ok(moved?),
    }
}

/// What a workspace has that did not land: a name of a commit that is kept nowhere else.
pub(super) fn unlanded(at: &Path, is_kept: &dyn Fn(&Sha) -> bool) -> Option<String> {
    let Ok(Some(known)) = state::read_json::<Workspace>(at.join(KNOWN)) else {
        return Some("it does not say what it is".to_owned());
    };
    let git = git_of(at);
    // Names that are kept otherwise than in files are not seen.
    if tip_of(&git, &known).is_none() {
        return Some(format!("{} is not there", known.branch));
    }
    let Ok(all) = refs(&git) else { return Some("its refs do not read".to_owned()) };
    let origin = all.iter().filter(|(name, _)| name.starts_with(ORIGIN));
    let theirs: HashSet<&str> = origin.map(|(_, at)| &**at).collect();
    let is_there = |at: &str| {
        at == known.base.as_str() || theirs.contains(at) || at.parse().is_ok_and(|at| is_kept(&at))
    };
    // What a search for a culprit goes through are commits of others, or of a branch.
    let mut own = all.iter().filter(|(name, _)| !name.starts_with(b"refs/bisect/"));
    let Some((name, at)) = own.find(|(_, at)| !is_there(at)) else {
        return inner(at, &git)
            .map(|inner| format!("{inner} has commits of its own: push them, or move it away"));
    };
    // Nor is what stands there told, where it is none of a commit.
    let at = at.parse::<Sha>().map_or_else(|_| "no commit".to_owned(), |at| at.to_string());
    Some(plain_line(&format!("{} is at {at}", String::from_utf8_lossy(name))))
}

/// A repository within a workspace that has commits which none of its own remotes, and no tag, names: nothing of it has a name in
/// the clone. What cannot be looked through has none of the agent's.
fn inner(at: &Path, git: &Path) -> Option<String> {
    let mut open = vec![at.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|of| of.is_dir()) {
                continue;
            }
            let path = entry.path();
            // A submodule's, or that of a linked checkout's, is below the clone's own.
            let is_git = path.ends_with(GIT) || path.starts_with(git) && path.join("HEAD").is_file();
            if is_git && path != git && path.join("objects").is_dir() && has_own(&path) {
                let name = path.strip_prefix(at.join(REPO)).or_else(|_| path.strip_prefix(at));
                return Some(plain_line(&name.unwrap_or(&path).to_string_lossy()));
            }
            open.push(path);
        }
    }
    None
}

/// Whether a repository has a name of a commit that came from nowhere.
fn has_own(git: &Path) -> bool {
    let Ok(all) = refs(git) else { return true };
    let is_remote = |name: &[u8]| name.starts_with(b"refs/remotes/") || name.starts_with(b"refs/tags/");
    let theirs: HashSet<&String> = all.iter().filter(|(name, _)| is_remote(name)).map(|(_, at)| at).collect();
    all.values().any(|at| !theirs.contains(at))
}

/// All names in a clone and what they are of, each `HEAD` that is no branch's among them; read from its files, and not what only
/// leads on.
fn refs(git: &Path) -> Result<BTreeMap<Vec<u8>, String>> {
    if !is_real_folder(git) || !is_real_folder(git.join("refs")) {
        return Err(Error::unfit(git, "it is no folder of its own"));
    }
    let mut files = vec![git.join("HEAD")];
    let linked = git.join("worktrees");
    each_below(&linked, |path, _| {
        let is_head = path.ends_with("HEAD") && path.parent().and_then(Path::parent) == Some(&linked);
        files.extend(is_head.then(|| path.to_owned()));
    })?;
    each_below(&git.join("refs"), |path, of| {
        let is_ref = !of.is_dir() && path.extension().is_none_or(|end| end != "lock");
        files.extend(is_ref.then(|| path.to_owned()));
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let mut all: BTreeMap<Vec<u8>, Option<String>> = BTreeMap::new();
    for file in files {
        let Some(bytes) = bytes_of(&file, MOST_REF)? else { continue };
        let name = file.strip_prefix(git).unwrap_or(&file).as_os_str().as_encoded_bytes();
        all.insert(name.to_owned(), (!bytes.starts_with(b"ref: ")).then(|| text(&bytes)));
    }
    // Behind the others: a git that packs them makes this file first, and only then removes those.
    let packed = bytes_of(&git.join("packed-refs"), MOST)?.unwrap_or_default();
    for line in packed.split(|byte| *byte == b'\n') {
        let mut parts = line.splitn(2, |byte| *byte == b' ');
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
