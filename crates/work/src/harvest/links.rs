//! Links to other repositories among what would land: their commits do not come with it.
//!
//! One that `.gitmodules` says the place of is a submodule, and where its commits are is its owner's matter. Any other is a repository
//! that somebody made within the branch and added: its files would be on `main` by a name alone, and go with the workspace.

use super::source::Scratch;
use crate::git::{Failed, Sha, plain_line};
use crate::{Error, Result};

/// What git calls a link's mode.
const LINK: &[u8] = b"160000";
/// And none's.
const NONE: &[u8] = b"000000";
/// Where submodules are listed.
const LIST: &[u8] = b".gitmodules";

/// Why what is between two commits does not land, where a link in it leads nowhere.
pub(super) fn unfit(scratch: &Scratch, main: &Sha, commit: &Sha) -> Result<Option<String>> {
    let all = "--ignore-submodules=none";
    let args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", all, main.as_str(), commit.as_str()];
    let told = match scratch.repo.bytes(&args, &[]) {
        Err(Error::Git(Failed::TooLong { .. })) => {
            return Ok(Some("it changes more files than anybody looks through".to_owned()));
        }
        told => told?,
    };
    let mut fields = told.split(|byte| *byte == 0);
    let (mut made, mut is_listed) = (Vec::new(), false);
    // `:old new …`, and then the name.
    while let (Some(change), Some(name)) = (fields.next(), fields.next()) {
        let mut modes = change.strip_prefix(b":").unwrap_or(change).split(|byte| *byte == b' ');
        let (old, new) = (modes.next(), modes.next());
        made.extend((new == Some(LINK) && old != Some(LINK)).then_some(name));
        is_listed |= name == LIST && new != Some(NONE);
    }
    if is_listed && scratch.repo.tell(&["config", &blob(commit), "-z", "--list"], &[])?.code != 0 {
        return Ok(Some("its .gitmodules does not read, and git ends on that".to_owned()));
    }
    if made.is_empty() {
        return Ok(None);
    }
    let known = places(scratch, commit)?;
    let lost = made.into_iter().find(|name| !known.iter().any(|known| known == name));
    Ok(lost.map(|name| {
        let name = plain_line(&String::from_utf8_lossy(name));
        let word = quoted(&name);
        format!(
            "{name} is a repository of its own, of which nothing lands: `git rm --cached -- {word}`, remove its .git, \
            and `git add -- {word}` bring its files; a submodule is in .gitmodules by this very path"
        )
    }))
}

/// A name as a shell takes it.
fn quoted(name: &str) -> String {
    match name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./+".contains(&byte)) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', r"'\''")),
    }
}

fn blob(commit: &Sha) -> String {
    format!("--blob={commit}:.gitmodules")
}

/// Where submodules are, as a commit says.
fn places(scratch: &Scratch, commit: &Sha) -> Result<Vec<Vec<u8>>> {
    let told =
        scratch.repo.tell(&["config", &blob(commit), "-z", "--get-regexp", r"^submodule\..*\.path$"], &[])?;
    // There is no such file, or nothing in it.
    let out = if told.code == 0 { told.well("config")? } else { Vec::new() };
    let values = out.split(|byte| *byte == 0);
    let value = |entry: &[u8]| Some(entry.splitn(2, |byte| *byte == b'\n').nth(1)?.to_vec());
    Ok(values.filter_map(value).collect())
}
