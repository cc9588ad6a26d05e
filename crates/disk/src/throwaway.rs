//! Folders that a run makes for itself and takes away with everything in it.
//!
//! Promise: what [`create`] made was not there before and is ours alone; [`remove`] takes away only such a folder,
//! known by a mark inside, so that a wrong path costs nobody a file.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::fs::Dir;
use crate::lock::Lock;
use crate::{env, random, state};

/// The file that says a folder may go.
const MARK: &str = ".throwaway";
/// The lock in such a folder that is [`create_held`].
pub const LOCK: &str = "lock";
/// Names tried before giving up: each is taken by chance once in four billion.
const TRIES: usize = 8;

/// Makes a folder of mode 0700 below `$TMPDIR` (else `/tmp`) whose name starts with `prefix`.
///
/// # Errors
/// The system refuses.
pub fn create(prefix: &str) -> Result<PathBuf> {
    let parent = env::path("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
    let parent = std::path::absolute(&parent).map_err(|e| Error::new("find folder", &parent, e))?;
    let mut taken = Error::because("create folder", &parent, "no name was free");
    for _ in 0..TRIES {
        let path = parent.join(format!("{prefix}{}", random::short()));
        match rustix::fs::mkdir(&path, Mode::from_raw_mode(0o700)) {
            Ok(()) => {
                state::write(path.join(MARK), b"made for one run and taken away after it\n")?;
                return Ok(path);
            }
            Err(Errno::EXIST) => taken = Error::new("create folder", &path, Errno::EXIST),
            Err(e) => return Err(Error::new("create folder", &path, e)),
        }
    }
    Err(taken)
}

/// Makes a folder that may be thrown away, at a path that is free.
///
/// # Errors
/// The path is taken, or the system refuses.
pub fn create_at(path: &Path) -> Result<Dir> {
    let dir = Dir::make_new(path)?;
    mark(path)?;
    Ok(dir)
}

/// As [`create_at`], held by its maker from before it has its mark: whoever finds [`LOCK`] free finds a dead one's.
///
/// # Errors
/// As [`create_at`].
pub fn create_held(path: &Path) -> Result<Lock> {
    Dir::make_new(path)?;
    let held = Lock::take(path.join(LOCK))?;
    mark(path)?;
    Ok(held)
}

fn mark(folder: &Path) -> Result<()> {
    state::write(folder.join(MARK), b"made to be taken away with all that is in it\n")
}

/// Takes a folder away that [`create`] or [`create_at`] made, with all that is in it; links in it are removed, not followed.
///
/// # Errors
/// It is not such a folder, or something in it cannot be removed.
pub fn remove(path: &Path) -> Result<()> {
    if !Dir::open(path)?.exists(MARK)? {
        return Err(Error::because("remove", path, "it was not made to be thrown away"));
    }
    let removed = std::fs::remove_dir_all(path).or_else(|e| {
        if e.kind() != std::io::ErrorKind::PermissionDenied {
            return Err(e);
        }
        open_up(path)?;
        std::fs::remove_dir_all(path)
    });
    removed.map_err(|e| Error::new("remove", path, e))
}

/// As [`remove`], and also a folder whose maker died before it had its mark: there is nothing in it then but its lock, which whoever
/// looks whether it is held makes, too.
///
/// # Errors
/// As [`remove`].
pub fn discard(path: &Path) -> Result<()> {
    let folder = Dir::open(path)?;
    let is_begun = |name: &String| name.starts_with("tmp") || name == LOCK;
    if folder.exists(MARK)? || !folder.names()?.iter().all(is_begun) {
        return remove(path);
    }
    match Dir::open(path.join("tmp")) {
        Ok(tmp) if tmp.names()?.iter().all(|name| name.starts_with(MARK)) => {}
        Err(e) if e.is_not_found() => {}
        _ => return remove(path),
    }
    std::fs::remove_dir_all(path).map_err(|e| Error::new("remove", path, e))
}

/// Makes the folders below one writable for us: some tools shut those that they fill.
fn open_up(folder: &Path) -> std::io::Result<()> {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // Its own type: a link is not followed.
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_died_before_it_had_its_mark_goes_and_nobodys_else() {
        let temp = tempfile::tempdir().expect("a folder");
        let at = temp.path().join("scratch");
        for inside in [
            &[][..],
            &["lock"],
            &["lock", "tmp"],
            &["tmp"],
            &["tmp", "tmp/.throwaway.x"],
            &[".throwaway", "more"],
        ] {
            let begun = Dir::create(&at).expect("made");
            for name in inside {
                let made = begun.path().join(name);
                let is_folder = *name == "tmp";
                if is_folder {
                    drop(Dir::create(made).expect("made"))
                } else {
                    std::fs::write(made, "").expect("made")
                }
            }
            discard(&at).expect("goes");
            assert!(!at.exists(), "{inside:?}");
        }
        for name in ["mine", "tmp/mine"] {
            Dir::create(at.join("tmp")).expect("made");
            std::fs::write(at.join(name), "").expect("made");
            assert!(discard(&at).is_err() && at.join(name).exists(), "{name}");
            std::fs::remove_file(at.join(name)).expect("gone");
        }
    }

    #[test]
    fn a5_it_is_ours_alone_and_only_what_was_made_here_is_removed() {
        let made = create("netsky-test-").expect("a folder");
        Dir::open(&made).expect("ours alone");
        let inner = made.join("inner");
        Dir::create(&inner).expect("a folder in it");
        assert!(remove(&inner).is_err(), "a folder without the mark stays");
        remove(&made).expect("goes");
        assert!(!made.exists());
    }
}
