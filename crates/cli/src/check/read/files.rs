//! Files of state: whether they read, and what they say.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::{Error, ReadError};
use netsky_model::desired::{self, Desired};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::place;

/// Most bytes of a file of state; the same that their readers take.
const CAP: u64 = 1024 * 1024;

/// What can be said of a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// It is what it should be.
    Whole,
    /// A later program wrote it.
    Newer,
    /// It is not, or cannot be read: why.
    Damaged(String),
}

/// One file of state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateFile {
    pub(crate) place: String,
    pub(crate) content: Content,
}

impl StateFile {
    pub(super) fn damaged(place: String, why: impl Into<String>) -> StateFile {
        StateFile { place, content: Content::Damaged(why.into()) }
    }
}

/// A folder, if it is there; one that cannot be looked into is damage, not the end of the check.
pub(super) fn folder(
    layout: &Layout,
    path: impl AsRef<Path>,
    files: &mut Vec<StateFile>,
) -> netsky_disk::Result<Option<Dir>> {
    match Dir::open(&path) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) if is_about_it(&error) => {
            files.push(StateFile::damaged(
                place(layout, path),
                format!("cannot be looked into: {}", error.source),
            ));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether an error tells of the thing itself, and not of us (no descriptors) or of the disk.
fn is_about_it(error: &Error) -> bool {
    let kinds = [ErrorKind::PermissionDenied, ErrorKind::NotADirectory];
    error.op == "trust folder" || kinds.contains(&error.source.kind())
}

/// A file's bytes; none if it is gone, the reason if it is not a file we would read.
pub(super) fn bytes(
    dir: &Dir,
    name: &OsStr,
    cap: u64,
) -> netsky_disk::Result<Option<Result<Vec<u8>, String>>> {
    match dir.read(name, cap) {
        Ok(bytes) => Ok(Some(Ok(bytes))),
        Err(ReadError::Io(error)) if error.is_not_found() => Ok(None),
        Err(ReadError::Io(error)) if is_about_it(&error) => Ok(Some(Err(error.source.to_string()))),
        Err(ReadError::Io(error)) => Err(error),
        Err(other) => Ok(Some(Err(other.to_string()))),
    }
}

/// Reads a file of format `known` and says in `files` what became of it; what it says, if it is whole.
pub(super) fn state<T: DeserializeOwned>(
    layout: &Layout,
    dir: &Dir,
    name: &str,
    known: u64,
    files: &mut Vec<StateFile>,
) -> netsky_disk::Result<Option<T>> {
    #[derive(Deserialize)]
    struct Version {
        v: u64,
    }
    let Some(read) = bytes(dir, name.as_ref(), CAP)? else { return Ok(None) };
    let parsed = read.and_then(|bytes| {
        let Version { v } = serde_json::from_slice(&bytes).map_err(|e| does_not_read(&e))?;
        if v > known {
            return Ok(None);
        }
        serde_json::from_slice::<T>(&bytes).map(Some).map_err(|e| does_not_read(&e))
    });
    let content = match &parsed {
        Ok(Some(_)) => Content::Whole,
        Ok(None) => Content::Newer,
        Err(why) => Content::Damaged(why.clone()),
    };
    files.push(StateFile { place: place(layout, dir.path().join(name)), content });
    Ok(parsed.unwrap_or_default())
}

pub(super) fn does_not_read(error: &serde_json::Error) -> String {
    format!("does not read: {error}")
}

/// The desired state of every agent.
pub(super) fn desired(layout: &Layout, files: &mut Vec<StateFile>) -> netsky_disk::Result<()> {
    for agent in layout.desired_agents()? {
        let path = layout.desired(&agent);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else {
            continue;
        };
        let Some(dir) = folder(layout, parent, files)? else { continue };
        let wish: Option<Desired> = state(layout, &dir, name, desired::VERSION, files)?;
        if let Some(wish) = wish.filter(|wish| wish.agent != agent) {
            let why = format!("is about {}", wish.agent);
            files.push(StateFile::damaged(place(layout, &path), why));
        }
    }
    Ok(())
}
