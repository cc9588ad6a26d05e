//! A control group for each session's program: whatever it starts is born into it and cannot be lost sight of.
//!
//! Promise: what [`Group::sweep`] answers to be gone is gone, also what left its session, forked twice and wiped its
//! environment: the kernel counts the members. What stands apart ([`crate::env::APART`]) is moved out before anything is
//! killed, with all that it started. A group is known by its folder's name, which holds the root's device and inode and the
//! generation's mark: two homes never meet, and no other folder is ever killed or removed, whatever a file says.
//!
//! Only version 2 of the interface, at whatever folder it is mounted (hybrid layouts too). Where none can be written to,
//! nothing here happens: [`Place::find`] says why, and trees are swept by descent and by their mark alone.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_model::process::ProcessId;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::clock;
use crate::error::{Error, Result};
use crate::process::{PidFd, Signal, Stat, look_at};
use crate::seam;
use crate::sweep::{Swept, is_apart};

pub use door::Door;
pub use place::Place;

mod door;
mod place;

/// What the names of our groups begin with.
const PREFIX: &str = "netsky-";
/// Where those who stand apart go when the folder above takes no processes itself (`no internal processes`).
const APART: &str = "netsky-apart";
/// The file system's number (`linux/magic.h`).
const CGROUP2: u64 = 0x6367_7270;
/// Pause between two looks at a group that ends.
const LOOK: Duration = Duration::from_millis(2);
/// How long a freeze may take; a member in an uninterruptible system call takes as long as that call.
const FREEZE: Duration = Duration::from_millis(200);
/// Most folders below a group: a program may make groups of its own in there.
const FOLDERS: usize = 4096;

/// What stands before the mark in the names of a root's groups: `netsky-<device>-<inode>-`, both in hex.
///
/// # Errors
/// The root cannot be looked at.
fn of_root(root: &Path) -> Result<String> {
    let root = fs::metadata(root).map_err(|e| Error::new("look at", root, e))?;
    Ok(format!("{PREFIX}{:x}-{:x}-", root.dev(), root.ino()))
}

/// The group of one generation; it may not be there (yet, or any more).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    path: PathBuf,
}

/// What a look at a group found, which killed them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// Who was in it; not who stands apart, nor who is in a pid namespace that is not seen from here.
    pub living: Vec<ProcessId>,
    /// Nobody was, named or not.
    pub over: bool,
}

impl Round {
    const OVER: Round = Round { living: Vec::new(), over: true };
}

/// What a group's own file says of it.
enum Look {
    /// Nobody is in it, or it is not there.
    Empty,
    /// Who is in it or below it, by pid; those that are not seen from our pid namespace are not named.
    Populated(BTreeSet<u32>),
}

impl Group {
    /// The group that has been written down for a root's generation.
    ///
    /// # Errors
    /// The path is not that of such a group: whoever wrote it meant another, or nothing good.
    pub fn of(path: &Path, root: &Path, mark: &str) -> Result<Group> {
        let wanted = of_root(root)? + mark;
        if path.is_absolute() && path.file_name().is_some_and(|name| *name == *wanted) {
            return Ok(Group { path: path.to_owned() });
        }
        Err(Error::because("trust cgroup", path, format!("the one of this generation is called {wanted}")))
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it; returns the way into it. A group that is there and empty is as good as a new one.
    ///
    /// # Errors
    /// It cannot be made or opened, is no control group, or somebody is in it already.
    pub fn make(&self) -> Result<Door> {
        let failed = |op, e: io::Error| Error::new(op, &self.path, e);
        seam::cgroup_fails("make").map_err(|e| failed("make cgroup", e))?;
        if !self.path.parent().is_some_and(is_cgroup2) {
            return Err(Error::because("make cgroup", &self.path, "no cgroup file system is mounted there"));
        }
        match rustix::fs::mkdir(&self.path, Mode::RWXU) {
            Ok(()) => {}
            Err(Errno::EXIST) if matches!(self.look()?, Look::Empty) => {}
            Err(e) => return Err(failed("make cgroup", e.into())),
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let folder = rustix::fs::open(&self.path, flags, Mode::empty());
        let folder = folder.map_err(|e| failed("enter cgroup", e.into()))?;
        // What a test takes away between the two.
        if seam::cgroup_fails("enter").is_err() {
            rustix::fs::rmdir(&self.path).map_err(|e| failed("remove cgroup", e.into()))?;
        }
        Ok(Door::new(folder))
    }

    /// Kills all of it but what stands apart until nobody is left, and removes it.
    ///
    /// # Errors
    /// It cannot be looked into, killed or removed. Survivors at the deadline are no error where they can be named.
    pub fn sweep(&self, limit: Duration) -> Result<Swept> {
        let until = clock::boot() + limit;
        let mut killed = BTreeSet::new();
        loop {
            let round = self.kill()?;
            if round.over {
                self.remove()?;
            }
            let late = clock::boot() >= until;
            if late && !round.over && round.living.is_empty() {
                return Err(Error::because(
                    "end cgroup",
                    &self.path,
                    "somebody in it cannot be seen from here",
                ));
            }
            if round.over || late {
                return Ok(Swept { killed: killed.len(), left: round.living });
            }
            killed.extend(round.living.iter().map(|id| (id.pid, id.start_time)));
            clock::pause(LOOK);
        }
    }

    /// One round of [`Group::sweep`], without removing the group: kills whoever is in it.
    ///
    /// # Errors
    /// It cannot be looked into or killed.
    pub fn kill(&self) -> Result<Round> {
        let failed = |e| Error::new("kill cgroup", &self.path, e);
        seam::cgroup_fails("kill").map_err(failed)?;
        let Look::Populated(mut members) = self.look()? else { return Ok(Round::OVER) };
        let mut whole = apart(&members)?.is_empty();
        let at_once = self.kills_at_once();
        let mut seen = named(&members);
        let headless = seen.iter().any(|(_, stat)| stat.is_headless());
        // Somebody in it may have started us: whoever holds himself still lets nobody go again.
        let me = std::process::id();
        let is_out = !members.contains(&me) || self.put_apart(me).is_ok();
        let frozen = (is_out && (!whole || !at_once || headless)).then(|| Frozen::new(self));
        if frozen.is_some() {
            // Nobody forks or moves from here on; what is moved out goes on by that.
            let Look::Populated(found) = self.look()? else { return Ok(Round::OVER) };
            let spared = apart(&found)?;
            whole = spared.iter().all(|pid| self.put_apart(*pid).is_ok());
            members = found.difference(&spared).copied().collect();
            seen = named(&members);
        }
        let all = whole && at_once;
        if all {
            self.write("cgroup.kill", "1").map_err(failed)?;
        }
        // The kernel's kill is for the main thread of each, so it does nothing to a process that has lost it (Linux 6.18).
        for (id, _) in seen.iter().filter(|(_, stat)| !all || stat.is_headless()) {
            PidFd::open(id)?.map(|held| held.signal(Signal::KILL)).transpose()?;
        }
        let living = seen.into_iter().map(|(id, _)| id).collect();
        // Of those who stand apart and could not be moved nobody asks for an end.
        Ok(Round { over: members.is_empty() && !whole, living })
    }

    /// Removes it with the groups that were made in it; one that is not there is removed.
    ///
    /// # Errors
    /// Somebody is in it, or it is not ours to remove.
    pub fn remove(&self) -> Result<()> {
        let failed = |e: io::Error| Error::new("remove cgroup", &self.path, e);
        seam::cgroup_fails("remove").map_err(failed)?;
        // A folder of another file system is nobody's group, whatever it is called.
        for folder in self.folders()?.iter().rev().filter(|_| is_cgroup2(&self.path)) {
            match rustix::fs::rmdir(folder) {
                Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
                Err(e) => return Err(failed(e.into())),
            }
        }
        Ok(())
    }

    /// Whether the kernel kills a whole group itself (since Linux 5.14).
    fn kills_at_once(&self) -> bool {
        !seam::cgroup_is_old() && self.path.join("cgroup.kill").exists()
    }

    fn look(&self) -> Result<Look> {
        let failed = |e| Error::new("look into cgroup", &self.path, e);
        let Some(events) = read(&self.path.join("cgroup.events")).map_err(failed)? else {
            return Ok(Look::Empty);
        };
        if !says(&events, "populated") {
            return Ok(Look::Empty);
        }
        let mut members = BTreeSet::new();
        for folder in self.folders()? {
            let procs = match read(&folder.join("cgroup.procs")) {
                // A program may make a group of threads in its own; whose they are is in the list of the one above.
                Err(e) if e.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => continue,
                read => read.map_err(failed)?.unwrap_or_default(),
            };
            members.extend(procs.lines().filter_map(|pid| pid.parse().ok()).filter(|pid: &u32| *pid > 0));
        }
        Ok(Look::Populated(members))
    }

    /// Its folder and those below it, parents before children.
    fn folders(&self) -> Result<Vec<PathBuf>> {
        let mut found = vec![self.path.clone()];
        let mut at = 0;
        while at < found.len() && found.len() < FOLDERS {
            let entries = match fs::read_dir(&found[at]) {
                Err(e) if is_gone(&e) => None,
                entries => Some(entries.map_err(|e| Error::new("look into cgroup", &found[at], e))?),
            };
            let folders = entries
                .into_iter()
                .flatten()
                .flatten()
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            found.extend(folders.map(|entry| entry.path()));
            at += 1;
        }
        Ok(found)
    }

    /// Moves one that stands apart into the folder that the group was made in, where its session's daemon is as well.
    fn put_apart(&self, pid: u32) -> io::Result<()> {
        let above = self.path.parent().ok_or(io::ErrorKind::NotFound)?;
        let put = |folder: &Path| {
            let door = open(&folder.join("cgroup.procs"))?;
            rustix::io::write(&door, pid.to_string().as_bytes()).map_err(io::Error::from)
        };
        let beside = above.join(APART);
        let moved = put(above).or_else(|_| match rustix::fs::mkdir(&beside, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => put(&beside),
            Err(e) => Err(e.into()),
        });
        moved.map(drop)
    }

    fn open(&self, file: &str) -> io::Result<OwnedFd> {
        open(&self.path.join(file))
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        match self.open(file).and_then(|file| Ok(rustix::io::write(&file, text.as_bytes())?)) {
            Err(e) if is_gone(&e) => Ok(()),
            written => written.map(drop),
        }
    }
}

/// A group that is held still; it goes on when this is dropped, also after an error.
struct Frozen<'a>(&'a Group);

impl<'a> Frozen<'a> {
    /// Asks for it and waits a moment: where that takes longer, or the kernel cannot (before 5.2), the rounds that follow
    /// find what was missed.
    fn new(group: &'a Group) -> Frozen<'a> {
        let until = clock::boot() + FREEZE;
        let asked = group.write("cgroup.freeze", "1").is_ok();
        let still = || {
            read(&group.path.join("cgroup.events"))
                .map_or(true, |events| events.is_none_or(|events| says(&events, "frozen")))
        };
        while asked && !still() && clock::boot() < until {
            clock::pause(LOOK);
        }
        Frozen(group)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        // A group that is gone needs none; killed members end frozen too.
        let _ = self.0.write("cgroup.freeze", "0");
    }
}

/// Those members that can be named. Whoever cannot (`hidepid`) is killed with the group all the same, and counted by it.
fn named(members: &BTreeSet<u32>) -> Vec<(ProcessId, Stat)> {
    members.iter().filter_map(|pid| look_at(*pid).ok().flatten()).collect()
}

/// Those among a group's members who stand apart, and what they started.
fn apart(members: &BTreeSet<u32>) -> Result<BTreeSet<u32>> {
    let mut apart = BTreeSet::new();
    for pid in members {
        let mut next = *pid;
        // Only through members: the worker above them stands apart itself, and its program does not.
        for _ in 0..members.len() {
            if !members.contains(&next) {
                break;
            }
            if is_apart(next)? {
                apart.insert(*pid);
                break;
            }
            match Stat::look(next) {
                Ok(Some(stat)) => next = stat.parent,
                _ => break,
            }
        }
    }
    Ok(apart)
}

/// Whether a line of an events file says that something is so.
fn says(events: &str, what: &str) -> bool {
    events.lines().any(|line| line.split_once(' ') == Some((what, "1")))
}

/// A group's file; none if the group is gone.
fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Err(e) if is_gone(&e) => Ok(None),
        read => read.map(Some),
    }
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?)
}

/// Whether a group went away before or while it was looked at.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}

fn is_cgroup2(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|stat| stat.f_type as u64 == CGROUP2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a25_two_roots_never_meet_and_nothing_else_is_taken_for_a_group() {
        let (one, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let (mark, place) = ("agent0-0badcafe.g1", Path::new("/sys/fs/cgroup"));
        let named = |root: &Path| place.join(of_root(root).expect("it is there") + mark);
        let own = named(one.path());
        assert_ne!(own, named(other.path()));
        assert!(Group::of(&own, one.path(), mark).is_ok());
        for (path, root, mark) in [
            (own.as_path(), other.path(), mark),
            (&own, one.path(), "agent0-0badcafe.g2"),
            (place, one.path(), mark),
            (&own.join(".."), one.path(), mark),
            (own.strip_prefix("/").expect("absolute"), one.path(), mark),
        ] {
            assert!(Group::of(path, root, mark).is_err(), "{} of {}", path.display(), root.display());
        }
    }

    #[test]
    fn a_folder_of_another_file_system_is_neither_made_into_a_group_nor_removed_as_one() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join(of_root(root.path()).expect("it is there") + "agent0-0badcafe.g1");
        let group = Group::of(&path, root.path(), "agent0-0badcafe.g1").expect("by its name");
        assert!(group.make().is_err());
        assert!(!path.exists());
        fs::create_dir_all(path.join("below")).expect("ours");
        assert_eq!(group.sweep(Duration::ZERO).expect("nobody is in it"), Swept::default());
        assert!(path.join("below").exists());
    }
}
