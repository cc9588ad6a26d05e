//! A root of its own: only what it is told to show is there, at the same paths, so that no socket and no terminal of anybody else has
//! a name.
//!
//! Promise: nothing is made or changed but in the memory that the new root is of. All that may fail comes before the old root is left.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::thread::UnshareFlags;

use super::unshare;
use crate::error::{Error, Result};

/// Devices that are the machine's: nobody is behind them.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];
/// What else programs look for beside devices.
const LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Leave the machine's files for a root that has only `seen` of them (as they are, with all that is mounted below), and a `/dev`
/// with terminals and shared memory of its own; what is not there is passed by. `at` is an empty folder to build it on. False where
/// the system does not allow that. For a process with one thread; it is in `/` then.
///
/// # Errors
/// The old root was left, and is still to be reached.
pub fn leave_files(seen: &[&Path], at: &Path) -> Result<bool> {
    if !unshare(UnshareFlags::NEWNS) {
        return Ok(false);
    }
    let ways: Vec<Way> = seen.iter().filter_map(|path| Way::to(path)).collect();
    if build(&ways, at).and_then(|()| enter(at)).is_err() {
        return Ok(false);
    }
    // The old root lies on the new one, and is let go with all that is in it.
    let here = c".";
    // SAFETY: the path is a constant with its end, and the call keeps nothing of it.
    let done = unsafe { libc::umount2(here.as_ptr(), libc::MNT_DETACH) };
    if done != 0 {
        return Err(Error::new("let go of", "/", io::Error::last_os_error()));
    }
    let home = |e: rustix::io::Errno| Error::new("go to", "/", e);
    rustix::process::chdir("/").map_err(home)?;
    Ok(true)
}

fn enter(at: &Path) -> io::Result<()> {
    rustix::process::chdir(at)?;
    let entered = rustix::process::pivot_root(".", ".");
    if entered.is_err() {
        rustix::process::chdir("/")?;
    }
    Ok(entered?)
}

/// How a path is come to.
struct Way {
    /// Links on it, by paths that have none, each with what it leads to in the end.
    links: Vec<(PathBuf, PathBuf)>,
    /// The path without links.
    real: PathBuf,
}

impl Way {
    /// The way to a path; none if it is not there.
    fn to(path: &Path) -> Option<Way> {
        let mut way = Way { links: Vec::new(), real: PathBuf::from("/") };
        for part in path.is_absolute().then(|| path.components())? {
            match part {
                Component::Normal(part) => {
                    let next = way.real.join(part);
                    way.real = match next.symlink_metadata().ok()?.is_symlink() {
                        true => {
                            let end = next.canonicalize().ok()?;
                            way.links.push((next, end.clone()));
                            end
                        }
                        false => next,
                    };
                }
                Component::ParentDir => drop(way.real.pop()),
                _ => {}
            }
        }
        Some(way)
    }
}

/// Build the root: all folders and links first, for below what is bound they would be made in the machine's.
fn build(ways: &[Way], at: &Path) -> io::Result<()> {
    let mut reals: Vec<&Path> = ways.iter().map(|way| way.real.as_path()).collect();
    reals.sort_unstable();
    // What is within another comes with it.
    reals.dedup_by(|below, above| below.starts_with(*above));
    if reals.first() == Some(&Path::new("/")) {
        return Err(io::Error::other("the machine's root is no root of its own"));
    }
    // Nothing of this comes out to where the machine's mounts are.
    mount("", Path::new("/"), "", libc::MS_REC | libc::MS_PRIVATE, "")?;
    mount("tmpfs", at, "tmpfs", libc::MS_NOSUID | libc::MS_NODEV, "mode=755")?;
    let inside = |path: &Path| at.join(path.strip_prefix("/").unwrap_or(path));
    devices(&inside(Path::new("/dev")))?;
    for (link, end) in ways.iter().flat_map(|way| &way.links) {
        if !reals.iter().any(|real| link.starts_with(real)) {
            let link = inside(link);
            std::fs::create_dir_all(link.parent().unwrap_or(at))?;
            match symlink(end, link) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
    }
    for real in &reals {
        match real.is_dir() {
            true => std::fs::create_dir_all(inside(real))?,
            false => empty(&inside(real))?,
        }
    }
    reals.iter().try_for_each(|real| bind(real, &inside(real)))
}

fn devices(dev: &Path) -> io::Result<()> {
    let (terminals, memory) = (dev.join("pts"), dev.join("shm"));
    for folder in [&terminals, &memory] {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::set_permissions(&memory, std::fs::Permissions::from_mode(0o1777))?;
    for name in DEVICES {
        empty(&dev.join(name))?;
        bind(&Path::new("/dev").join(name), &dev.join(name))?;
    }
    for (name, end) in LINKS {
        symlink(end, dev.join(name))?;
    }
    // Older systems make terminals only for a root of their own; nobody has any then.
    let of_own = "newinstance,ptmxmode=0666,mode=620";
    let _ = mount("devpts", &terminals, "devpts", libc::MS_NOSUID | libc::MS_NOEXEC, of_own);
    Ok(())
}

/// An empty file to mount one on.
fn empty(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path.parent().unwrap_or(path))?;
    std::fs::File::create(path).map(drop)
}

fn bind(from: &Path, to: &Path) -> io::Result<()> {
    mount(from, to, "", libc::MS_BIND | libc::MS_REC, "")
}

fn mount(from: impl AsRef<Path>, to: &Path, kind: &str, flags: libc::c_ulong, data: &str) -> io::Result<()> {
    let from = CString::new(from.as_ref().as_os_str().as_bytes())?;
    let to = CString::new(to.as_os_str().as_bytes())?;
    let (kind, data) = (CString::new(kind)?, CString::new(data)?);
    // SAFETY: all four are strings with their end that live until the call is over, and it keeps none of them.
    let done = unsafe { libc::mount(from.as_ptr(), to.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_goes_by_every_link_and_its_end_has_none() {
        let temp = tempfile::tempdir().expect("a folder");
        let top = temp.path().canonicalize().expect("there");
        std::fs::create_dir_all(top.join("real/deep/end")).expect("made");
        symlink("real", top.join("one")).expect("linked");
        symlink("../real/../real/deep", top.join("real/two")).expect("linked");
        let way = Way::to(&top.join("one/./two/end/../end")).expect("there");
        assert_eq!(way.real, top.join("real/deep/end"));
        let links = [(top.join("one"), top.join("real")), (top.join("real/two"), top.join("real/deep"))];
        assert_eq!(way.links, links);
        assert!(Way::to(&top.join("none")).is_none() && Way::to(Path::new("relative")).is_none());
    }
}
