//! What a workspace has that is kept nowhere else, and would go with it.
//!
//! Promise: a workspace goes without force only when all that its clone names is kept elsewhere; and all that each other repository
//! in it names, unless its owner lets these go. What is kept is asked of the repositories that work lands in, by the names of its
//! commits alone: nothing that an agent can write says so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use netsky_disk::fs::is_real_folder;
use netsky_disk::state;

use super::names::{GIT, Names, UNDER_WAY, refs};
use super::nested::repositories;
use super::taken::{TAKEN, git_of, is_going};
use super::{Elsewhere, KNOWN, REPO, Workspace};
use crate::Result;
use crate::git::{Sha, plain_line};

/// The first that is found, as plain text. Where `lets_nested_go`, repositories in it besides its clone are not looked at.
pub(super) fn unlanded(at: &Path, elsewhere: &dyn Elsewhere, lets_nested_go: bool) -> Option<String> {
    look(at, elsewhere, lets_nested_go)
        .unwrap_or_else(|error| Some(plain_line(&format!("what is kept elsewhere cannot be seen: {error}"))))
}

fn look(at: &Path, elsewhere: &dyn Elsewhere, lets_nested_go: bool) -> Result<Option<String>> {
    let Ok(Some(known)) = state::read_json::<Workspace>(at.join(KNOWN)) else {
        return Ok(Some("it does not say what it is".to_owned()));
    };
    let plain = |path: &Path| plain_line(&path.to_string_lossy());
    let taken = at.join(TAKEN);
    if !is_going(at) && is_real_folder(&taken) {
        return Ok(Some(format!("{} is in the way: move it out of the workspace", plain(&taken))));
    }
    let git = git_of(at);
    // As whoever mends it finds it, where this one has lost its name, and its clone its repository.
    let name = |path: &Path| {
        let was = at.with_file_name(known.task.as_str());
        plain(&match (path.strip_prefix(&git), path.strip_prefix(at)) {
            (Ok(rest), _) => was.join(REPO).join(GIT).join(rest).components().collect(),
            (_, Ok(rest)) => was.join(rest),
            _ => path.to_owned(),
        })
    };
    let Ok(own) = refs(&git) else { return Ok(Some(unread(&name(&git)))) };
    let found = if lets_nested_go { Ok(BTreeSet::new()) } else { repositories(at, &git) };
    let nested: Vec<(PathBuf, Option<Names>)> =
        found.iter().flatten().map(|git| (git.clone(), refs(git).ok())).collect();
    // Of all of them at once: a question goes through all names of the owner's repository.
    let all = nested.iter().filter_map(|(_, names)| names.as_ref()).chain([&own]);
    let all: BTreeSet<Sha> = all.flat_map(BTreeMap::values).filter_map(|at| at.parse().ok()).collect();
    let lacking = if all.is_empty() { all } else { elsewhere.lacks(all)? };
    if let Some(first) = first(&own, &lacking) {
        return Ok(Some(first));
    }
    if let Err((folder, error)) = found {
        return Ok(Some(format!("{} cannot be looked into: {error} (`--nested` lets it go)", name(&folder))));
    }
    for (git, names) in nested {
        let at = name(&git);
        let Some(names) = names else { return Ok(Some(format!("{} (`--nested` lets it go)", unread(&at)))) };
        if let Some(what) = first(&names, &lacking) {
            let ways = "push that to the owner's repository, fetch it there, or move it out of the workspace; `--nested` lets such repositories go";
            return Ok(Some(format!("{at} is a repository of its own: {what} ({ways})")));
        }
    }
    Ok(None)
}

/// That names in a repository cannot be seen.
fn unread(git: &str) -> String {
    format!("the refs of {git} do not read (it is shut or gone, has them in tables, or has a link for one)")
}

/// The first name of what is lacking elsewhere, and what it is of.
fn first(names: &Names, lacking: &BTreeSet<Sha>) -> Option<String> {
    names.iter().find_map(|(name, at)| {
        let is = match at.parse::<Sha>() {
            Ok(at) => lacking.contains(&at).then(|| format!("at {at}"))?,
            Err(_) if at == UNDER_WAY => format!("{UNDER_WAY} (`--continue`, `--abort` or `--quit` ends it)"),
            // Nor is what stands there told.
            Err(_) => "at no commit".to_owned(),
        };
        Some(plain_line(&format!("{} is {is}", String::from_utf8_lossy(name))))
    })
}
