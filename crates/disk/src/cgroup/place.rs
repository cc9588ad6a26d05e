//! Where groups can be made: below the own group of this process, wherever version 2 is mounted.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD};

use super::{APART, Group, PREFIX, is_cgroup2, of_root};
use crate::error::{Error, Result};
use crate::{clock, seam};

/// How old an empty group of another root is before it is taken for one that its root left: a worker makes its group and
/// fills it at once.
const LEFT: Duration = Duration::from_secs(600);

/// A folder in which this process may make groups and move its children into them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    folder: PathBuf,
}

impl Place {
    /// Finds it. Started from within a session's group, it is beside that one: sessions do not nest.
    ///
    /// # Errors
    /// There is none; the reason for a person.
    pub fn find() -> Result<Place> {
        let none = |why: &str| Error::because("find", "a cgroup", why);
        if seam::cgroup_is_off() {
            return Err(none("a test turned them off"));
        }
        let text = |path: &str| fs::read(path).map_err(|e| Error::new("read", path, e));
        let own = own(&String::from_utf8_lossy(&text("/proc/self/cgroup")?))
            .ok_or_else(|| none("this process is in no group of version 2"))?;
        let mut refused = none("version 2 is not mounted where this process can see its own group");
        for folder in folders(&text("/proc/self/mountinfo")?, &own) {
            match usable(&folder) {
                Ok(()) => return Ok(Place { folder }),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// The path of the group of a root's generation; nothing is made.
    ///
    /// # Errors
    /// The root cannot be looked at.
    pub fn of(&self, root: &Path, mark: &str) -> Result<PathBuf> {
        Ok(self.folder.join(of_root(root)? + mark))
    }

    /// The groups of a root that are there, with their marks.
    ///
    /// # Errors
    /// The folder cannot be listed, or the root not be looked at.
    pub fn groups(&self, root: &Path) -> Result<Vec<(String, Group)>> {
        let prefix = of_root(root)?;
        let ours = |name: String| {
            Some((name.strip_prefix(&prefix)?.to_owned(), Group { path: self.folder.join(name) }))
        };
        Ok(self.names()?.into_iter().filter_map(ours).collect())
    }

    /// Removes the empty groups that roots left which nobody serves any more; how many. A root of its own is told by
    /// [`Place::groups`] what is there.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn remove_left(&self, root: &Path) -> Result<usize> {
        let (prefix, now) = (of_root(root)?, clock::wall());
        let mut removed = 0;
        for name in self.names()?.into_iter().filter(|name| !name.starts_with(&prefix) && name != APART) {
            let path = self.folder.join(&name);
            let made = fs::metadata(&path).and_then(|folder| folder.modified()).ok();
            let made = made.and_then(|made| jiff::Timestamp::try_from(made).ok());
            let is_old = made.is_some_and(|made| now.duration_since(made).unsigned_abs() > LEFT);
            // One with members or groups in it is refused by the system, and so is another user's.
            if is_old && rustix::fs::rmdir(&path).is_ok() {
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn names(&self) -> Result<Vec<String>> {
        let entries =
            fs::read_dir(&self.folder).map_err(|e| Error::new("list cgroups in", &self.folder, e))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.filter(|name| name.starts_with(PREFIX)).collect())
    }
}

/// Whether groups can be made in a folder, and processes be moved between it and them.
fn usable(folder: &Path) -> Result<()> {
    for path in [folder.to_owned(), folder.join("cgroup.procs")] {
        rustix::fs::accessat(CWD, &path, Access::WRITE_OK, AtFlags::EACCESS)
            .map_err(|e| Error::new("write in cgroup", &path, e))?;
    }
    if is_cgroup2(folder) { Ok(()) } else { Err(Error::because("use cgroup", folder, "it is none")) }
}

/// The group of this process, from `/proc/self/cgroup`, up to the first of our own: `0::/a/netsky-…` is `/a`.
fn own(cgroup: &str) -> Option<PathBuf> {
    let path = Path::new(cgroup.lines().find_map(|line| line.strip_prefix("0::"))?);
    let ours = |part: &Component<'_>| part.as_os_str().to_str().is_some_and(|name| name.starts_with(PREFIX));
    // Of a group that is not below the root of our cgroup namespace the path begins with `/..`.
    let seen = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
    seen.then(|| path.components().take_while(|part| !ours(part)).collect())
}

/// Where the group of this process is found, from `/proc/self/mountinfo`: the mount that covers the others first.
fn folders(mounts: &[u8], own: &Path) -> Vec<PathBuf> {
    let found = mounts.split(|byte| *byte == b'\n').rev().filter_map(|line| {
        let line = String::from_utf8_lossy(line);
        let (mount, kind) = line.split_once(" - ")?;
        let fields: Vec<&str> = mount.split(' ').collect();
        let below = own.strip_prefix(unescaped(fields.get(3)?)).ok()?;
        (kind.split(' ').next() == Some("cgroup2"))
            .then(|| unescaped(fields[4..].first()?).join(below).into())?
    });
    found.collect()
}

/// A path as it stands in mountinfo, where blanks are `\040`.
fn unescaped(text: &str) -> PathBuf {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        let octal = bytes.get(at + 1..at + 4).filter(|_| *byte == b'\\');
        let octal = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        out.push(octal.unwrap_or(*byte));
        at += if octal.is_some() { 4 } else { 1 };
    }
    OsString::from_vec(out).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_in_pure_hybrid_and_nested_layouts() {
        let pure = b"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let hybrid = b"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let nested = b"50 40 0:26 /docker/0a /sys/fs/cg\\040roup rw - cgroup2 cgroup rw\n";
        let v1 = b"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let at = |mounts: &[u8], cgroup: &str| {
            own(cgroup).and_then(|own| folders(mounts, &own).into_iter().next())
        };
        let slice = "12:pids:/x\n0::/user.slice/user-1.slice/user@1.service/app.slice/a.scope\n";
        let found = |path: &str| Some(PathBuf::from(path));
        assert_eq!(at(pure, "0::/\n"), found("/sys/fs/cgroup/"));
        assert_eq!(
            at(hybrid, slice),
            found("/sys/fs/cgroup/unified/user.slice/user-1.slice/user@1.service/app.slice/a.scope")
        );
        assert_eq!(at(nested, "0::/docker/0a/b\n"), found("/sys/fs/cg roup/b"));
        assert_eq!(at(nested, "0::/elsewhere\n"), None, "its own group cannot be seen");
        assert_eq!(at(pure, "0::/../x\n"), None, "outside of its cgroup namespace");
        assert_eq!(at(v1, "0::/\n"), None);
        assert_eq!(at(pure, "4:memory:/\n"), None, "a kernel without version 2");
    }

    #[test]
    fn a_session_that_is_started_from_within_another_gets_its_group_beside_it() {
        let cgroup = "0::/a.scope/netsky-fe00-1f-agent0-0badcafe.g1/deeper\n";
        assert_eq!(own(cgroup), Some("/a.scope".into()));
    }
}
