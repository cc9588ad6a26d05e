//! What a workspace has that is kept nowhere else, and would go with it.
//!
//! Promise: a workspace goes without force only when all that its clone names is kept elsewhere; and all that each other repository
//! in it names, unless its owner lets these go. What is kept is asked of the repositories that work lands in, by the names of its
//! commits alone: nothing that an agent can write says so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use netsky_disk::fs::is_real_folder;
use netsky_disk::state;

use super::names::{Names, refs, tip_of};
use super::nested::repositories;
use super::taken::{TAKEN, git_of, is_going};
use super::{Elsewhere, KNOWN, Workspace};
use crate::Result;
use crate::git::{Sha, plain_line};

/// The first that is found, as plain text. Where `nested`, repositories in it besides its clone are not looked at.
pub(super) fn unlanded(at: &Path, elsewhere: &dyn Elsewhere, nested: bool) -> Option<String> {
    look(at, elsewhere, nested)
        .unwrap_or_else(|error| Some(plain_line(&format!("what is kept elsewhere cannot be seen: {error}"))))
}

fn look(at: &Path, elsewhere: &dyn Elsewhere, nested: bool) -> Result<Option<String>> {
    let Ok(Some(known)) = state::read_json::<Workspace>(at.join(KNOWN)) else {
        return Ok(Some("it does not say what it is".to_owned()));
    };
    let plain = |path: &Path| plain_line(&path.to_string_lossy());
    let taken = at.join(TAKEN);
    if !is_going(at) && is_real_folder(&taken) {
        return Ok(Some(format!("{} is in the way: move it out of the workspace", plain(&taken))));
    }
    let git = git_of(at);
    // Names that are kept otherwise than in files are not seen.
    if tip_of(&git, &known).is_none() {
        return Ok(Some(format!("{} is not there", known.branch)));
    }
    let Ok(own) = refs(&git) else { return Ok(Some("its refs do not read".to_owned())) };
    if let Some(lacking) = first_lacking(&own, &known.base, elsewhere)? {
        return Ok(Some(lacking));
    }
    if nested {
        return Ok(None);
    }
    // As whoever mends it finds it, where this one has lost its name.
    let name = |path: &Path| {
        let rest = path.strip_prefix(at).map(|rest| at.with_file_name(known.task.as_str()).join(rest));
        plain(&rest.unwrap_or_else(|_| path.to_owned()))
    };
    let found = match repositories(at, &git) {
        Ok(found) => found,
        Err((folder, error)) => {
            return Ok(Some(format!("{} cannot be looked into: {error}", name(&folder))));
        }
    };
    for git in found {
        let what = match refs(&git) {
            Ok(names) => first_lacking(&names, &known.base, elsewhere)?,
            Err(_) => Some("its refs do not read".to_owned()),
        };
        if let Some(what) = what {
            let ways = "push that to the owner's repository, or move it out of the workspace; `--nested` lets such repositories go";
            return Ok(Some(format!("{} is a repository of its own: {what} ({ways})", name(&git))));
        }
    }
    Ok(None)
}

/// The first name of what is kept nowhere else, and what it is of.
fn first_lacking(names: &Names, base: &Sha, elsewhere: &dyn Elsewhere) -> Result<Option<String>> {
    let named = |name: &[u8], at: &str| plain_line(&format!("{} is at {at}", String::from_utf8_lossy(name)));
    let mut asked = BTreeMap::new();
    for (name, at) in names {
        // Nor is what stands there told, where it is none of a commit.
        let Ok(at) = at.parse::<Sha>() else { return Ok(Some(named(name, "no commit"))) };
        asked.insert(name, at);
    }
    let all: BTreeSet<Sha> = asked.values().filter(|at| *at != base).cloned().collect();
    let lacking = if all.is_empty() { all } else { elsewhere.lacks(all)? };
    let first = asked.into_iter().find(|(_, at)| lacking.contains(at));
    Ok(first.map(|(name, at)| named(name, at.as_str())))
}
