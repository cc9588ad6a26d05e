//! What a workspace's clone has names of, read from its files: no git runs in it.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use netsky_disk::fs::read_users_file;
use netsky_disk::{ReadError, state};

use super::{KNOWN, REPO, Workspace, each_below};
use crate::Result;
use crate::git::{Sha, plain_line};

/// How what was fetched of a workspace's repository is called.
const ORIGIN: &[u8] = b"refs/remotes/origin/";
/// Most bytes of a file of refs.
const MOST: u64 = 64 * 1024 * 1024;

/// What a workspace has that did not land: a name of a commit that is kept nowhere else.
pub(super) fn unlanded(at: &Path, is_kept: &dyn Fn(&Sha) -> bool) -> Option<String> {
    let Ok(Some(known)) = state::read_json::<Workspace>(at.join(KNOWN)) else {
        return Some("it does not say what it is".to_owned());
    };
    // Names that are kept otherwise than in files are not seen.
    if tip_of(&at.join(REPO), &known).is_none() {
        return Some(format!("{} is not there", known.branch));
    }
    let Ok(all) = refs(&at.join(REPO).join(".git")) else { return Some("its refs do not read".to_owned()) };
    let origin = all.iter().filter(|(name, _)| name.starts_with(ORIGIN));
    let theirs: HashSet<&str> = origin.map(|(_, at)| &**at).collect();
    let is_there = |at: &str| {
        at == known.base.as_str() || theirs.contains(at) || at.parse().is_ok_and(|at| is_kept(&at))
    };
    // What a search for a culprit goes through are commits of others, or of a branch.
    let mut own = all.iter().filter(|(name, _)| !name.starts_with(b"refs/bisect/"));
    let (name, at) = own.find(|(_, at)| !is_there(at))?;
    Some(plain_line(&format!("{} is at {at}", String::from_utf8_lossy(name))))
}

/// All names in a clone and what they are of, each `HEAD` that is no branch's among them; read from its files, and not what only
/// leads on.
fn refs(git: &Path) -> Result<BTreeMap<Vec<u8>, String>> {
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
    let mut all = BTreeMap::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    for line in bytes_of(&git.join("packed-refs"))?.unwrap_or_default().split(|byte| *byte == b'\n') {
        let mut parts = line.splitn(2, |byte| *byte == b' ');
        if let (Some(at), Some(name)) = (parts.next().filter(|at| *at != b"#"), parts.next()) {
            all.insert(name.to_owned(), text(at));
        }
    }
    for file in files {
        let name = file.strip_prefix(git).unwrap_or(&file).as_os_str().as_encoded_bytes();
        match bytes_of(&file)? {
            Some(bytes) if !bytes.starts_with(b"ref: ") => drop(all.insert(name.to_owned(), text(&bytes))),
            _ => drop(all.remove(name)),
        }
    }
    Ok(all)
}

/// A file of git's; none if it is not there.
fn bytes_of(file: &Path) -> Result<Option<Vec<u8>>> {
    match read_users_file(file, MOST) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ReadError::Io(e)) if e.is_not_found() => Ok(None),
        Err(e) => Err(e.on("read", file).into()),
    }
}

/// Where a workspace's branch is, read from its files: no git runs in it.
pub(super) fn tip_of(repo: &Path, workspace: &Workspace) -> Option<Sha> {
    let (git, branch) = (repo.join(".git"), workspace.branch.as_str());
    if let Ok(Some(loose)) = bytes_of(&git.join(branch)) {
        return String::from_utf8_lossy(&loose).trim().parse().ok();
    }
    let packed = bytes_of(&git.join("packed-refs")).ok()??;
    let packed = String::from_utf8_lossy(&packed);
    packed.lines().find_map(|line| line.split_once(' ').filter(|(_, name)| *name == branch))?.0.parse().ok()
}
