//! What a workspace's clone has names of, read from its files: no git runs in it.

use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use netsky_disk::fs::{Dir, is_real_folder};
use netsky_disk::{ReadError, copy, random, state};

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

/// What is in its place then: a git that finds this ends, and looks in no folder above.
const NOWHERE: &[u8] = b"gitdir: /nowhere/netsky/removes/this\n";
/// How what a git says of a commit begins in a log, where it made none.
const BROUGHT: [&str; 5] = ["clone:", "checkout:", "fetch", "branch: Created from", "reset: moving to"];

/// Where the names of a workspace's clone are.
pub(super) fn git_of(at: &Path) -> PathBuf {
    let taken = at.join(TAKEN);
    if is_real_folder(&taken) { taken } else { at.join(REPO).join(GIT) }
}

/// Takes its repository from a clone: from then on nobody commits there, nor in one that is above it.
pub(super) fn take_git(at: &Path) -> Result<()> {
    let Some((at, repo)) = both(at)? else { return Ok(()) };
    // Whoever died as it began left it.
    at.remove(TAKEN)?;
    copy::write_new(&at, TAKEN, NOWHERE)?;
    match at.exchange(TAKEN, &repo, GIT) {
        // There is none.
        Err(e) if e.is_not_found() => Ok(at.remove(TAKEN).map(drop)?),
        exchanged => Ok(exchanged?),
    }
}

/// Gives it back, durable before its workspace has its name. What somebody has put in its place meanwhile is beside the clone then.
pub(super) fn give_git(path: &Path) -> Result<()> {
    if !is_real_folder(path.join(TAKEN)) {
        return Ok(());
    }
    let Some((at, repo)) = both(path)? else { return Ok(()) };
    match at.exchange(TAKEN, &repo, GIT) {
        Err(e) if e.is_not_found() => at.rename(TAKEN, &repo, GIT)?,
        exchanged => exchanged?,
    }
    match is_real_folder(path.join(TAKEN)) {
        true => at.rename(TAKEN, &Dir::make(path.join(format!("made-{}", random::short())))?, GIT)?,
        false => drop(at.remove(TAKEN)?),
    }
    repo.sync()?;
    Ok(at.sync()?)
}

/// A workspace's folder and its clone's; none where that is gone, or no folder.
fn both(at: &Path) -> Result<Option<(Dir, Dir)>> {
    let repo = at.join(REPO);
    if !is_real_folder(&repo) {
        return Ok(None);
    }
    Ok(Some((Dir::look_into(at)?, Dir::look_into(repo)?)))
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
        let name = |path: &Path| {
            let name = path.strip_prefix(at.join(REPO)).or_else(|_| path.strip_prefix(at)).unwrap_or(path);
            plain_line(&name.to_string_lossy())
        };
        return match inner(at, &git) {
            Ok(found) => found.map(|found| {
                format!("{} has commits of its own: move it away once they are elsewhere", name(&found))
            }),
            Err(_) => Some("its files cannot be looked through".to_owned()),
        };
    };
    // Nor is what stands there told, where it is none of a commit.
    let at = at.parse::<Sha>().map_or_else(|_| "no commit".to_owned(), |at| at.to_string());
    Some(plain_line(&format!("{} is at {at}", String::from_utf8_lossy(name))))
}

/// A repository within a workspace that has commits of its own: nothing of it has a name in the clone. In what nobody may look
/// into there is none of the agent's.
fn inner(at: &Path, git: &Path) -> std::io::Result<Option<PathBuf>> {
    let mut open = vec![at.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => continue,
            entries => entries?,
        };
        for entry in entries {
            let (entry, mut found) = (entry?, None);
            let (of, path) = (entry.file_type()?, entry.path());
            if of.is_dir() {
                // A submodule's, or that of a linked checkout's, is below the clone's own.
                let is_git = path.ends_with(GIT) || path.starts_with(git) && path.join("HEAD").is_file();
                found = is_git.then(|| path.clone());
                open.push(path);
            } else if of.is_file() && path.ends_with(GIT) {
                found = leads_to(&path).filter(|other| !other.starts_with(git));
            }
            if let Some(found) = found
                && found != git
                && found.join("objects").is_dir()
                && !is_brought(at, &found)
            {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// Where a `.git` that is a file says that the repository is.
fn leads_to(file: &Path) -> Option<PathBuf> {
    let said = bytes_of(file, MOST_REF).ok()??;
    let to = std::str::from_utf8(&said).ok()?.strip_prefix("gitdir: ")?.trim_end();
    file.parent()?.join(to).canonicalize().ok()
}

/// Whether all of a repository came from elsewhere: its logs say of nothing else than that it was cloned, fetched and checked out, or
/// all that it has a name of is on a branch of a remote. What is below `at`, or is no more, is nowhere else.
fn is_brought(at: &Path, git: &Path) -> bool {
    let (Ok(all), Ok(config)) = (refs(git), bytes_of(&git.join("config"), MOST)) else { return false };
    let Ok(at) = at.canonicalize() else { return false };
    let config = String::from_utf8_lossy(&config.unwrap_or_default()).into_owned();
    let urls = config.lines().filter_map(|line| line.trim().strip_prefix("url = "));
    let mut paths =
        urls.map(|url| url.strip_prefix("file://").unwrap_or(url)).filter(|url| !url.contains(':'));
    let is_elsewhere =
        |path: &str| git.join("..").join(path).canonicalize().is_ok_and(|path| !path.starts_with(&at));
    if !paths.all(is_elsewhere) {
        return false;
    }
    let remote = all.iter().filter(|(name, _)| name.starts_with(b"refs/remotes/"));
    let remote: HashSet<&String> = remote.map(|(_, at)| at).collect();
    all.values().all(|at| remote.contains(at)) || has_only_brought(&git.join("logs"))
}

/// Whether there are logs, and no line in them of a commit that was made there.
fn has_only_brought(logs: &Path) -> bool {
    let mut files = Vec::new();
    let walked = each_below(logs, |path, of| files.extend(of.is_file().then(|| path.to_owned())));
    let is_brought = |line: &str| {
        let what = line.split_once('\t').map_or("", |(_, what)| what);
        BROUGHT.iter().any(|start| what.starts_with(start)) || what.ends_with("Fast-forward")
    };
    let all_brought = |log: &PathBuf| match bytes_of(log, MOST) {
        Ok(Some(log)) => String::from_utf8_lossy(&log).lines().all(is_brought),
        _ => false,
    };
    walked.is_ok() && !files.is_empty() && files.iter().all(all_brought)
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
