//! Small state files as JSON: read whole, replaced durably, removed durably. A missing folder is made, but not what holds
//! it: a file for a home that was moved away is refused.

use std::path::Path;

use rustix::fs::AtFlags;
use rustix::io::Errno;
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Error, ReadError, Result};
use crate::fs::{self, Dir, Place};
use crate::lock::Lock;
use crate::sys;

/// Most bytes of a state file.
const CAP: u64 = 1024 * 1024;

fn split(path: &Path) -> Result<(Dir, &str)> {
    let name = path.file_name().and_then(|name| name.to_str());
    match (path.parent(), name) {
        (Some(parent), Some(name)) => Ok((Dir::make(parent)?, name)),
        _ => Err(Error::because("use state file", path, "not a file below a folder")),
    }
}

/// Whether something has that name.
///
/// # Errors
/// Its folder cannot be searched.
pub fn exists(path: impl AsRef<Path>) -> Result<bool> {
    let path = path.as_ref();
    match sys::stat(None, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(e) => Err(Error::new("look at", path, e)),
    }
}

/// Read a file; none if it is not there.
///
/// # Errors
/// It is there and is not a plain file of ours.
pub fn read(path: impl AsRef<Path>) -> Result<Option<Vec<u8>>> {
    load(path.as_ref()).map_err(|error| error.on("read", path))
}

fn load(path: &Path) -> std::result::Result<Option<Vec<u8>>, ReadError> {
    let Some((parent, name)) = path.parent().zip(path.file_name()) else { return Ok(None) };
    let dir = match Dir::open(parent) {
        Err(e) if e.is_not_found() => return Ok(None),
        opened => opened?,
    };
    match dir.read(name, CAP) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ReadError::Io(e)) if e.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// What every state file, an object, says of itself.
struct Versioned(Option<u64>);

impl<'de> Deserialize<'de> for Versioned {
    fn deserialize<D: Deserializer<'de>>(file: D) -> std::result::Result<Versioned, D::Error> {
        file.deserialize_map(Versioned(None))
    }
}

impl<'de> Visitor<'de> for Versioned {
    type Value = Versioned;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut file: A) -> std::result::Result<Versioned, A::Error> {
        while let Some(key) = file.next_key::<String>()? {
            match key.as_str() {
                "v" => self.0 = file.next_value::<serde_json::Value>()?.as_u64(),
                _ => drop(file.next_value::<IgnoredAny>()?),
            }
        }
        Ok(self)
    }
}

/// Newest version of the state files that this program understands.
const VERSION: u64 = 1;
/// What a file that does not read was tried to do; see [`Error::is_damage`].
pub(crate) const UNDERSTAND: &str = "understand";

/// Read a JSON file; none if it is not there.
///
/// # Errors
/// It is there and does not read as `T` ([`Error::is_damage`]), or a newer program wrote it.
pub fn read_json<T: DeserializeOwned>(path: impl AsRef<Path>) -> Result<Option<T>> {
    let bytes = match load(path.as_ref()) {
        // No program of ours wrote that.
        Err(error @ ReadError::TooLarge { .. }) => return Err(error.on(UNDERSTAND, path)),
        read => read.map_err(|error| error.on("read", &path))?,
    };
    let Some(bytes) = bytes else { return Ok(None) };
    let damage = |e: serde_json::Error| Error::new(UNDERSTAND, &path, std::io::Error::from(e));
    // What has no version of ours is for `T` to judge.
    let versioned = serde_json::from_slice::<Versioned>(&bytes).ok();
    if let Some(newer) = versioned.and_then(|file| file.0).filter(|v| *v > VERSION) {
        return Err(Error::because(
            "read",
            &path,
            format!("it is of version {newer}, newer than this program"),
        ));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(damage)
}

/// Move a damaged file out of the way, beside its place, where it stays as evidence.
///
/// # Errors
/// The system refuses.
pub fn set_aside(path: impl AsRef<Path>) -> Result<()> {
    let (dir, name) = split(path.as_ref())?;
    dir.rename(name, &dir, format!("{name}.damaged-{}", crate::random::short()))?;
    dir.sync()
}

/// Replace a file durably. It is written beside its place in `tmp/`.
///
/// # Errors
/// As [`fs::write_durable`], and of what is longer than anybody reads.
pub fn write(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    let (dir, name) = split(path.as_ref())?;
    fits(path.as_ref(), bytes)?;
    let tmp = Dir::make(dir.path().join("tmp"))?;
    fs::write_durable(&tmp, &dir, name, bytes, Place::Over)
}

/// Replace a JSON file durably.
///
/// # Errors
/// As [`write`].
pub fn write_json<T: Serialize>(path: impl AsRef<Path>, value: &T) -> Result<()> {
    write(&path, &encode(path.as_ref(), value)?)
}

/// Write a JSON file durably where there is none; false if there is one, which is left as it is.
///
/// # Errors
/// As [`fs::write_durable`].
pub fn create_json<T: Serialize>(path: impl AsRef<Path>, value: &T) -> Result<bool> {
    create(&path, &encode(path.as_ref(), value)?)
}

/// Write a file durably where there is none; false if there is one, which is left as it is.
pub(crate) fn create(path: impl AsRef<Path>, bytes: &[u8]) -> Result<bool> {
    let (dir, name) = split(path.as_ref())?;
    fits(path.as_ref(), bytes)?;
    let tmp = Dir::make(dir.path().join("tmp"))?;
    match fs::write_durable(&tmp, &dir, name, bytes, Place::New) {
        Ok(()) => Ok(true),
        // Of another run, which may not have synced it yet.
        Err(e) if e.is_exists() => dir.sync().map(|()| false),
        Err(e) => Err(e),
    }
}

/// What could not be read again takes the place of nothing that can.
fn fits(path: &Path, bytes: &[u8]) -> Result<()> {
    match bytes.len() as u64 <= CAP {
        true => Ok(()),
        false => {
            let why = format!("{} bytes are over the limit of {CAP}; it stays as it was", bytes.len());
            Err(Error::because("write", path, why))
        }
    }
}

fn encode<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>> {
    let mut bytes =
        serde_json::to_vec_pretty(value).map_err(|e| Error::new("encode", path, std::io::Error::from(e)))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Remove a file durably; false if it was not there.
///
/// # Errors
/// The system refuses.
pub fn remove(path: impl AsRef<Path>) -> Result<bool> {
    let (dir, name) = split(path.as_ref())?;
    let removed = dir.remove(name)?;
    if removed {
        dir.sync()?;
    }
    Ok(removed)
}

/// Claim a file by renaming it; false if somebody else did, or it was never there.
///
/// # Errors
/// The system refuses, or the new name is taken.
pub fn claim(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<bool> {
    let (from_dir, from_name) = split(from.as_ref())?;
    let (to_dir, to_name) = split(to.as_ref())?;
    match from_dir.rename(from_name, &to_dir, to_name) {
        Ok(()) => to_dir.sync().map(|()| true),
        Err(e) if e.is_not_found() => Ok(false),
        Err(e) => Err(e),
    }
}

/// The next number of a role, durable before it is returned; only rises (faults, "Fencing").
///
/// # Errors
/// The file cannot be locked, read or written; a damaged one is not guessed at.
pub fn next_epoch(path: impl AsRef<Path>, at_least: u64) -> Result<u64> {
    let path = path.as_ref();
    let (dir, _) = split(path)?;
    let _lock = Lock::take(dir.path().join("lock"))?;
    let next = epoch_after(path, at_least)?;
    write(path, format!("{next}\n").as_bytes())?;
    Ok(next)
}

/// What [`next_epoch`] would return, written nowhere: for who has no room for it and writes nothing else either.
///
/// # Errors
/// The file cannot be read; a damaged one is not guessed at.
pub fn epoch_after(path: impl AsRef<Path>, at_least: u64) -> Result<u64> {
    let path = path.as_ref();
    let last = match read(path)? {
        None => 0,
        Some(bytes) => {
            std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
                Error::because("read epoch", path, "not a number; remove it to start above the journal")
            })?
        }
    };
    Ok(at_least.max(last) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_object_is_of_a_newer_version_and_the_last_word_of_it_counts() {
        let temp = tempfile::tempdir().expect("a throwaway folder");
        let home = Dir::make(temp.path().join("home")).expect("made");
        let path = home.path().join("file.json");
        for (text, is_newer) in [
            (r#"{"v": 2, "agent": "a"}"#, true),
            (r#"{"v": 1, "v": 2}"#, true),
            (r#"{"v": 2, "v": 1, "agent": 7}"#, false),
            ("[7]", false),
            (r#"{"v": "2""#, false),
        ] {
            write(&path, text.as_bytes()).expect("written");
            let error = read_json::<std::collections::BTreeMap<String, String>>(&path).expect_err(text);
            assert_eq!(error.is_damage(), !is_newer, "{text}: {error}");
        }
        write(&path, br#"{"agent": "agent7"}"#).expect("written");
        assert_eq!(read_json(&path).expect("it reads"), Some(serde_json::json!({ "agent": "agent7" })));
    }
}
