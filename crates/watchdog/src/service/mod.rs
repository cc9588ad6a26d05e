//! What starts netsky with the machine: the ticker, and the failsafe that brings back whoever is missing, as units of systemd's
//! user manager or as agents of launchd.
//!
//! Promise: a home has units of its own, whatever its path; a file that is not ours, or was edited, is named and left.
//! Left to others: what the units run (`ticker`, `failsafe`).

mod install;
mod launchd;
mod look;
mod manager;
mod systemd;

use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::env;
use netsky_disk::layout::Layout;

pub use install::{Did, Placed, install, uninstall};
pub use look::{Service, Standing, Unit, linger, look};

/// Seconds from one run of the failsafe to the next.
const FAILSAFE_S: u64 = 120;

/// Whose files they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manager {
    /// systemd's user manager.
    Systemd,
    /// launchd of macOS.
    Launchd,
}

impl Manager {
    /// The one of this platform.
    pub fn here() -> Manager {
        if cfg!(target_os = "macos") { Manager::Launchd } else { Manager::Systemd }
    }
}

/// Why units were not written or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file.
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
    /// A path that no unit can name.
    #[error("{} cannot stand in a unit: {why}", path.display())]
    Path {
        /// Which.
        path: PathBuf,
        /// What is in the way.
        why: &'static str,
    },
    /// Nothing says where units go.
    #[error("neither $XDG_CONFIG_HOME nor $HOME is set")]
    NoFolder,
    /// Files that are not as they were installed, or never were.
    #[error("{}", files.join("; "))]
    NotOurs {
        /// Which, and why.
        files: Vec<String>,
        /// What force would do with them.
        forced: &'static str,
    },
    /// Somebody else has the units of this home for so long.
    #[error("another `netsky service install` or `uninstall` of this home has been at work for {} s", .0.as_secs())]
    Busy(Duration),
    /// The files are as they should be, and whoever runs them does not answer.
    #[error("{files}, and {manager} did not take it: {why}")]
    NoManager {
        /// What became of the files.
        files: &'static str,
        /// Who was asked.
        manager: &'static str,
        /// What it said.
        why: String,
        /// The commands to run once it answers.
        later: String,
    },
}

/// What every call of this module returns.
pub type Result<T> = std::result::Result<T, Error>;

/// What the units of one home say.
#[derive(Debug, Clone)]
pub struct Plan {
    home: String,
    program: String,
    interval: Duration,
    /// Behind each name; nothing of the default home.
    suffix: String,
}

/// One file of them.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct File {
    /// Its name.
    pub name: String,
    /// All of it.
    pub text: String,
    /// Whose it is, as it stands in the text.
    #[serde(skip)]
    pub(super) home: String,
}

impl Plan {
    /// The units of a home, which run this program, whose ticker ticks so often.
    ///
    /// # Errors
    /// A path that no unit can name.
    pub fn new(layout: &Layout, program: PathBuf, interval: Duration) -> Result<Plan> {
        let home = plain(layout.home().to_owned())?;
        let suffix = suffix(&home, is_default(layout));
        if program.to_str().is_some_and(|text| text.contains(['"', '\'', '\\'])) {
            return Err(Error::Path {
                path: program,
                why: "systemd starts no program whose path has a quote or a backslash",
            });
        }
        Ok(Plan { home, program: plain(program)?, interval, suffix })
    }

    /// What is written, the file that the others name last.
    pub fn files(&self, manager: Manager) -> Vec<File> {
        match manager {
            Manager::Systemd => systemd::files(self),
            Manager::Launchd => launchd::files(self),
        }
    }

    /// What the ticker may take from one beat to the next: two intervals, and three ticks that are killed at their deadline.
    fn hangs_after(&self) -> Duration {
        2 * self.interval + 3 * crate::ticker::DEADLINE
    }

    /// Where a program that is not there any more some day would be started from; a warning.
    pub fn passing(&self) -> Option<String> {
        let built = ["/target/debug/", "/target/release/"].iter().any(|part| self.program.contains(part));
        let temporary =
            ["/tmp/", "/var/tmp/", "/dev/shm/", "/run/"].iter().any(|part| self.program.starts_with(part));
        let what = if built { "a build's" } else { "a temporary one" };
        (built || temporary).then(|| {
            format!(
                "{} is {what}: install the program where it stays, then `netsky service install` again",
                self.program
            )
        })
    }
}

/// A path as text that stands on one line.
fn plain(path: PathBuf) -> Result<String> {
    let refused = |why| Err(Error::Path { path: path.clone(), why });
    match path.to_str() {
        None => refused("it is not UTF-8"),
        Some(text) if text.chars().any(char::is_control) => refused("it has a control character"),
        Some(text) => Ok(text.to_owned()),
    }
}

fn is_default(layout: &Layout) -> bool {
    let default = env::path("HOME").map(|user| user.join(".netsky"));
    default.is_some_and(|home| layout.home() == home.canonicalize().unwrap_or(home))
}

/// Two homes never meet: a hash of the whole path, behind a word of it for people.
fn suffix(home: &str, is_default: bool) -> String {
    if is_default {
        return String::new();
    }
    let last = home.rsplit('/').next().unwrap_or_default();
    let word: String = last.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
    let hash = blake3::hash(home.as_bytes()).to_hex();
    let word = if word.is_empty() { word } else { format!("-{}", word.to_ascii_lowercase()) };
    format!("{word}-{}", &hash[..8])
}

/// What a shell, and not this program, says where the failsafe failed: `$NETSKY_HOME` is set for it.
const PAGE: &str = "said=\"$(date): the failsafe of netsky failed for $NETSKY_HOME: nobody may keep its agents. See netsky status\"; \
    echo \"$said\" >&2; echo \"$said\" >\"$NETSKY_HOME/logs/failsafe-failed.txt\"; \
    if command -v notify-send >/dev/null; then notify-send -u critical netsky \"$said\"; fi; exit 0";

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
