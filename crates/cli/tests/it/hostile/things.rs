//! Things that are no plain file of ours, the folder outside that they lead to, and runs with a hard bound.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::bus_home::Home;
use crate::screen::{Said, program, said};

/// What nobody may be shown.
pub(crate) const SECRET: &str = "only-the-owner-knows";

/// Longest run in seconds: a program that waits for a pipe's other end waits for ever.
const BOUND: &str = "30";

/// Something that stands where a plain file should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thing {
    Link,
    Dangling,
    LinkToFolder,
    LinkToItself,
    HardLink,
    Pipe,
    Socket,
    Folder,
    FullFolder,
    Foreign,
    Device,
}

impl Thing {
    /// All that this user can make.
    pub(crate) fn all() -> Vec<Thing> {
        use Thing::*;
        let mut all =
            vec![Link, Dangling, LinkToFolder, LinkToItself, HardLink, Pipe, Socket, Folder, FullFolder];
        if rustix::process::geteuid().is_root() {
            all.extend([Foreign, Device]);
        } else {
            crate::skipped::skipped("root: devices and files of a foreign owner");
        }
        all
    }

    /// Makes it at `path`; links lead to `outside`.
    pub(crate) fn make(self, path: &Path, outside: &Outside) {
        let done = match self {
            Thing::Link => symlink(outside.secret(), path),
            Thing::Dangling => symlink(outside.folder.join("nothing"), path),
            Thing::LinkToFolder => symlink(&outside.folder, path),
            Thing::LinkToItself => symlink(path, path),
            Thing::HardLink => fs::hard_link(outside.secret(), path),
            Thing::Pipe => mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).map_err(Into::into),
            Thing::Socket => UnixListener::bind(path).map(drop),
            Thing::Folder => fs::create_dir(path),
            Thing::FullFolder => {
                fs::create_dir_all(path.join("a/b")).and_then(|()| fs::write(path.join("c"), "c"))
            }
            Thing::Foreign => fs::write(path, "{}")
                .and_then(|()| std::os::unix::fs::chown(path, Some(65_534), Some(65_534))),
            // The one that never ends.
            Thing::Device => {
                let mode = Mode::RUSR | Mode::WUSR;
                mknodat(CWD, path, FileType::CharacterDevice, mode, makedev(1, 5)).map_err(Into::into)
            }
        };
        done.unwrap_or_else(|error| panic!("{self:?} at {}: {error}", path.display()));
    }
}

/// Removes whatever has the name.
pub(crate) fn clear(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).expect("ours"),
        Ok(_) => fs::remove_file(path).expect("ours"),
        Err(_) => {}
    }
}

/// A folder outside of every home, which no verb has any business with.
pub(crate) struct Outside {
    pub(crate) folder: PathBuf,
    before: BTreeMap<PathBuf, (u32, i64, Vec<u8>)>,
}

impl Outside {
    /// Beside a home, on its file system, so that hard links can be made.
    pub(crate) fn beside(home: &Home) -> Outside {
        let folder = home.path().with_file_name("outside");
        fs::create_dir(&folder).expect("a new folder");
        let outside = Outside { folder, before: BTreeMap::new() };
        let envelope = format!(r#"{{"from":"agent1","text":"{SECRET}","ts":"2026-04-19T17:22:57Z"}}"#);
        fs::write(outside.secret(), envelope).expect("a new file");
        fs::write(outside.folder.join("other"), "untouched\nhalf").expect("a new file");
        Outside { before: outside.tree(), ..outside }
    }

    fn secret(&self) -> PathBuf {
        self.folder.join("secret")
    }

    fn tree(&self) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
        let entries = fs::read_dir(&self.folder).expect("there").map(|entry| entry.expect("readable").path());
        let told = |path: PathBuf| {
            let found = fs::symlink_metadata(&path).expect("there");
            let bytes = fs::read(&path).expect("plain files only");
            (path, (found.mode(), found.mtime_nsec(), bytes))
        };
        entries.map(told).collect()
    }

    /// Asserts that nothing in it was made, changed or removed.
    #[track_caller]
    pub(crate) fn is_untouched(&self, after: &str) {
        assert!(self.tree() == self.before, "after {after}: {:?}", self.tree());
    }
}

/// Runs a program of ours to its end within the bound; it ended by itself with a documented code, told nobody the
/// secret, and said at most one line.
#[track_caller]
pub(crate) fn bounded(home: &Home, args: &[&str]) -> Said {
    let inner = program(home, args);
    let mut command = Command::new("timeout");
    command.args(["--foreground", "-s", "KILL", BOUND]).arg(inner.get_program()).args(inner.get_args());
    command.env_clear().current_dir("/").stdin(std::process::Stdio::null());
    command.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let answer = said(home, command.output().expect("timeout is part of coreutils"));
    assert!((0..=7).contains(&answer.code), "{args:?} ended with {}: {}", answer.code, answer.err);
    assert!(answer.err.lines().count() <= 1, "{args:?}: {}", answer.err);
    assert!(!answer.out.contains(SECRET) && !answer.err.contains(SECRET), "{args:?}: {}", answer.out);
    answer
}
