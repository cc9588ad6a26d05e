//! Folders that a run makes for itself and takes away with everything in it.
//!
//! Promise: what [`create`] made was not there before and is ours alone; [`remove`] takes away only such a folder,
//! known by a mark inside, so that a wrong path costs nobody a file.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, DirEntry, FileType, Mode, OFlags, fchmod, fstat, mkdir, openat, renameat, unlinkat,
};
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
/// Folders, each in the one before, that are open at once while they are emptied.
const OPEN: usize = 32;
/// Names of a folder that are known at once: one may have any number of them.
const NAMES: usize = 1024;
/// What is done with a folder of ours.
const OURS: Mode = Mode::RWXU;

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
        match mkdir(&path, OURS) {
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
    take_away(path)
}

/// Makes a folder of ours ours alone again, whatever mode somebody at work in it has given it. What is no folder, or is not there, stays
/// as it is.
///
/// # Errors
/// The system refuses, as where it is another user's.
pub fn reopen(path: &Path) -> Result<()> {
    let is_so = |of: std::fs::Metadata| !of.is_dir() || of.mode() & 0o777 == OURS.bits();
    if path.symlink_metadata().map_or(true, is_so) {
        return Ok(());
    }
    let all = || -> rustix::io::Result<()> {
        fchmod(
            open(CWD, &CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| Errno::INVAL)?)?,
            OURS,
        )
    };
    all().map_err(|e| Error::new("open folder", path, e))
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
    take_away(path)
}

/// Takes a folder away, however deep it is: whoever was at work in it may have nested folders beyond any path, any count of open
/// files and any stack, which is where the standard library ends. Its mark goes last, so that who dies meanwhile leaves one that may go.
fn take_away(path: &Path) -> Result<()> {
    let all = || -> rustix::io::Result<()> {
        let top = open(CWD, &CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| Errno::INVAL)?)?;
        empty(&top, &top, 1)?;
        match unlinkat(&top, MARK, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => unlinkat(CWD, path, AtFlags::REMOVEDIR),
            Err(e) => Err(e),
        }
    };
    all().map_err(|e| Error::new("remove", path, e))
}

/// Removes what is in a folder, but the mark of the first; what is too deep is moved up into that one, and removed from there.
fn empty(top: &OwnedFd, folder: &OwnedFd, depth: usize) -> rustix::io::Result<()> {
    loop {
        let names = names(folder, depth == 1)?;
        if names.is_empty() {
            return Ok(());
        }
        let mut is_stuck = true;
        for name in names {
            match unlinkat(folder, &name, AtFlags::empty()) {
                Err(Errno::NOENT) => continue,
                Ok(()) => {
                    is_stuck = false;
                    continue;
                }
                // What Linux and what others say of a folder.
                Err(Errno::ISDIR | Errno::PERM) => {}
                Err(e) => return Err(e),
            }
            let inner = open(folder, &name)?;
            if depth < OPEN {
                empty(top, &inner, depth + 1)?;
                unlinkat(folder, &name, AtFlags::REMOVEDIR)?;
            } else {
                renameat(folder, &name, top, format!("deep-{}", random::token()))?;
            }
            is_stuck = false;
        }
        // Names that are listed and not there: some file systems have them.
        if is_stuck {
            return Err(Errno::NOTEMPTY);
        }
    }
}

/// Some of the names in a folder; none where there are none, but the mark of one that has it.
fn names(folder: &OwnedFd, has_mark: bool) -> rustix::io::Result<Vec<CString>> {
    // A folder is no mark of ours, whatever it is called.
    let is_mark = |entry: &DirEntry| {
        has_mark
            && entry.file_name().to_bytes() == MARK.as_bytes()
            && entry.file_type() != FileType::Directory
    };
    let is_one = |entry: &DirEntry| ![c".", c".."].contains(&entry.file_name()) && !is_mark(entry);
    let entries = rustix::fs::Dir::read_from(folder)?;
    let some = entries.filter(|entry| entry.as_ref().map_or(true, is_one)).take(NAMES);
    some.map(|entry| Ok(entry?.file_name().to_owned())).collect()
}

/// Opens a folder to empty it: some tools shut those that they fill. A link is not followed.
fn open(at: impl std::os::fd::AsFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let opened = openat(&at, name, flags, Mode::empty()).or_else(|e| match e {
        Errno::ACCESS => {
            rustix::fs::chmodat(&at, name, OURS, AtFlags::empty())?;
            openat(&at, name, flags, Mode::empty())
        }
        e => Err(e),
    })?;
    if !Mode::from_raw_mode(fstat(&opened)?.st_mode).contains(OURS) {
        fchmod(&opened, OURS)?;
    }
    Ok(opened)
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
    #[test]
    fn a12_one_goes_however_deep_it_is_and_nothing_that_a_link_in_it_names() {
        let temp = tempfile::tempdir().expect("a folder");
        let mine = temp.path().join("mine");
        std::fs::create_dir(&mine).expect("made");
        std::fs::write(mine.join("file"), "mine").expect("made");
        let at = temp.path().join("scratch");
        create_at(&at).expect("made");
        let mut folder =
            open(CWD, &CString::new(at.as_os_str().as_encoded_bytes()).expect("a name")).expect("open");
        rustix::fs::symlinkat(&mine, &folder, c"link").expect("linked");
        for nth in 0..2 * NAMES {
            std::fs::write(at.join(nth.to_string()), "").expect("written");
        }
        for _ in 0..10_000 {
            rustix::fs::mkdirat(&folder, c"a", Mode::from_raw_mode(0o500)).expect("made");
            folder = open(&folder, c"a").expect("open");
        }
        remove(&at).expect("goes");
        assert!(!at.exists() && mine.join("file").exists());
    }
    #[test]
    fn fm_the_mark_of_what_is_to_go_goes_last() {
        let temp = tempfile::tempdir().expect("a folder");
        let at = temp.path().join("scratch");
        create_at(&at).expect("made");
        for name in ["a", "z", "a folder/b"] {
            std::fs::create_dir_all(at.join(name).parent().expect("one")).expect("made");
            std::fs::write(at.join(name), "").expect("written");
        }
        let top = open(CWD, &CString::new(at.as_os_str().as_encoded_bytes()).expect("a name")).expect("open");
        empty(&top, &top, 1).expect("empty");
        // As one that dies there leaves it.
        assert_eq!(Dir::open(&at).expect("ours").names().expect("listed"), [MARK]);
        remove(&at).expect("goes");
        assert!(!at.exists());
        // A folder of its name was put there by somebody else, and goes with what is in it.
        create_at(&at).expect("made");
        std::fs::remove_file(at.join(MARK)).expect("there");
        std::fs::create_dir_all(at.join(MARK).join("a")).expect("made");
        remove(&at).expect("goes");
        assert!(!at.exists());
    }
}
