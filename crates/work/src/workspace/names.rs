//! What a repository has names of, read from its files: no git runs in it.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use netsky_disk::fs::{Dir, is_real_folder};
use netsky_disk::{ReadError, state};

use super::taken::{TAKEN, git_of, is_going};
use super::{AUTHORS, Elsewhere, KNOWN, NO_PUSH, Workspace, each_below, inner};
use crate::git::{Sha, plain_line};
use crate::{Error, Result};

/// All names of a repository, and what each is of.
pub(super) type Names = BTreeMap<Vec<u8>, String>;

/// What a workspace's repository is called as a remote.
const ORIGIN: &str = "origin";
/// Most bytes of a file of one ref.
pub(super) const MOST_REF: u64 = 4096;
/// Most bytes of the file of many.
pub(super) const MOST: u64 = 64 * 1024 * 1024;

/// What git calls the folder of a repository.
pub(super) const GIT: &str = ".git";
/// What a workspace has that did not land: a name of a commit that is kept nowhere else.
pub(super) fn unlanded(at: &Path, elsewhere: &dyn Elsewhere) -> Option<String> {
    let Ok(Some(known)) = state::read_json::<Workspace>(at.join(KNOWN)) else {
        return Some("it does not say what it is".to_owned());
    };
    if !is_going(at) && is_real_folder(at.join(TAKEN)) {
        return Some(format!(
            "{} is in the way: move it out of the workspace",
            plain_line(&at.join(TAKEN).to_string_lossy())
        ));
    }
    let git = git_of(at);
    // Names that are kept otherwise than in files are not seen.
    if tip_of(&git, &known).is_none() {
        return Some(format!("{} is not there", known.branch));
    }
    let Ok(all) = refs(&git) else { return Some("its refs do not read".to_owned()) };
    // Whatever else its agent has made of it says nothing of what is there. One of this machine is asked itself.
    let remotes = remotes(&git).unwrap_or_default();
    let is_it = |to: &String| to == known.repo.as_str() || to == NO_PUSH;
    let is_origin = !remotes.may_differ && remotes.all.get(ORIGIN).is_some_and(|to| to.iter().all(is_it));
    let (theirs, all): (Names, Names) =
        all.into_iter().partition(|(name, _)| is_origin && remotes.has(ORIGIN, &git, name));
    let theirs: HashSet<&str> =
        theirs.values().filter(|_| known.repo.path().is_none()).map(|at| &**at).collect();
    let is_there = |at: &str| {
        at == known.base.as_str() || theirs.contains(at) || at.parse().is_ok_and(|at| elsewhere.has(&at))
    };
    // What a search for a culprit goes through are commits of others, or of a branch.
    let is_searched = |name: &[u8]| {
        let name = String::from_utf8_lossy(name);
        let of_one = name.strip_prefix("worktrees/").and_then(|rest| Some(rest.split_once('/')?.1));
        of_one.unwrap_or(&name).starts_with("refs/bisect/")
    };
    let mut own = all.iter().filter(|(name, _)| !is_searched(name));
    let Some((name, at)) = own.find(|(_, at)| !is_there(at)) else {
        let failed = |error: Error| Some(format!("its files cannot be looked through: {error}"));
        return inner::unkept(at, &known, elsewhere).unwrap_or_else(failed);
    };
    // Nor is what stands there told, where it is none of a commit.
    let at = at.parse::<Sha>().map_or_else(|_| "no commit".to_owned(), |at| at.to_string());
    Some(plain_line(&format!("{} is at {at}", String::from_utf8_lossy(name))))
}

/// All names in a clone and what they are of, each `HEAD` that is no branch's among them; read from its files, and not what only
/// leads on.
pub(super) fn refs(git: &Path) -> Result<Names> {
    if !is_real_folder(git) || !is_real_folder(git.join("refs")) {
        return Err(Error::unfit(git, "it is no folder of its own"));
    }
    // A merge that is not committed yet names what it is of.
    let mut files = vec![git.join("HEAD"), git.join("MERGE_HEAD")];
    let linked = git.join("worktrees");
    let is_ref =
        |path: &Path, of: &Metadata| !of.is_dir() && path.extension().is_none_or(|end| end != "lock");
    each_below(&linked, |path, of| {
        // `<name>/HEAD`, and what is of that checkout alone: `<name>/refs/…`
        let mut rest = path.strip_prefix(&linked).into_iter().flatten().skip(1);
        let is_its = match rest.next() {
            Some(first) if first == "HEAD" || first == "MERGE_HEAD" => rest.next().is_none(),
            Some(first) => first == "refs" && is_ref(path, of),
            None => false,
        };
        files.extend(is_its.then(|| path.to_owned()));
    })?;
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
    let mut last = Vec::new();
    for line in packed.split(|byte| *byte == b'\n') {
        let mut parts = line.splitn(2, |byte| *byte == b' ');
        match (parts.next().filter(|at| *at != b"#"), parts.next()) {
            (Some(at), Some(name)) => {
                all.entry(name.to_owned()).or_insert_with(|| Some(text(at)));
                last = name.to_owned();
            }
            // Which commit the tag before it is of.
            (Some([b'^', at @ ..]), None) => drop(all.insert([&last, &b"^"[..]].concat(), Some(text(at)))),
            _ => {}
        }
    }
    Ok(all.into_iter().filter_map(|(name, at)| Some((name, at?))).collect())
}

/// A file of git's; none if it is not there. What a link in its place leads to is nobody's to see.
pub(super) fn bytes_of(file: &Path, most: u64) -> Result<Option<Vec<u8>>> {
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

/// The remotes of a repository.
#[derive(Default)]
pub(super) struct Remotes {
    /// Where each is fetched from and pushed to.
    pub(super) all: BTreeMap<String, Vec<String>>,
    /// Whether other files say more, or some address is another.
    pub(super) may_differ: bool,
}

impl Remotes {
    /// Whether a name is what one of them had as it was fetched or pushed to last: not of another whose name goes on behind its own,
    /// nor put there otherwise.
    pub(super) fn has(&self, remote: &str, git: &Path, name: &[u8]) -> bool {
        let is_below = |remote: &str| name.starts_with(format!("refs/remotes/{remote}/").as_bytes());
        let is_anothers = || self.all.keys().any(|other| other != remote && is_below(other));
        if !is_below(remote) || is_anothers() {
            return false;
        }
        let log = bytes_of(&git.join("logs").join(OsStr::from_bytes(name)), MOST);
        let Ok(Some(log)) = log else {
            // What came with a clone is in no log, and in the one file of all.
            return matches!(log, Ok(None)) && !git.join(OsStr::from_bytes(name)).exists();
        };
        let log = String::from_utf8_lossy(&log);
        let what = log.lines().last().and_then(|line| Some(line.split_once('\t')?.1)).unwrap_or_default();
        ["fetch", "pull", "update by push"].iter().any(|by| what.starts_with(by))
            && !what.contains("refs/remotes/")
    }
}

/// What its settings say of them.
pub(super) fn remotes(git: &Path) -> Result<Remotes> {
    let (mut found, mut last, mut is_include) = (Remotes::default(), None, false);
    for file in ["config", "config.worktree"] {
        let config = bytes_of(&git.join(file), MOST)?.unwrap_or_default();
        for line in String::from_utf8_lossy(&config).lines() {
            let mut line = line.trim();
            if let Some((head, rest)) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
                let (kind, name) = head.split_once(' ').unwrap_or((head, ""));
                let kind = kind.to_ascii_lowercase();
                found.may_differ |= ["includeif", "url"].contains(&&*kind);
                // As git wrote it in former days.
                found.may_differ |= kind.starts_with("remote") && kind != "remote";
                is_include = kind == "include";
                last = (kind == "remote").then(|| name.trim().trim_matches('"').to_owned());
                line = rest;
            }
            let (key, value) = line.split_once('=').unwrap_or_default();
            let value = value.trim().trim_matches('"');
            found.may_differ |= is_include && !key.trim().is_empty() && value != AUTHORS;
            let Some(last) = &last else { continue };
            match &*key.trim().to_ascii_lowercase() {
                "url" | "pushurl" => found.all.entry(last.clone()).or_default().push(value.to_owned()),
                // To the names of another.
                "fetch" => {
                    let to = value.split_once(':').map_or("", |(_, to)| to);
                    let own = format!("refs/remotes/{last}/");
                    let is_own = ["refs/heads/", "refs/tags/", &own].iter().any(|own| to.starts_with(own));
                    found.may_differ |= !to.is_empty() && !is_own;
                }
                _ => {}
            }
        }
    }
    found.may_differ |= git.join("remotes").exists();
    each_below(&git.join("worktrees"), |path, _| found.may_differ |= path.ends_with("config.worktree"))?;
    Ok(found)
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
