//! The gate: the command that must pass before a branch lands (A22).
//!
//! Promise: it comes from the owner's settings or from `main` as it stands, never from the branch, and what lands is what it ran on. It
//! runs shut in ([`shut`](self::serve)): it writes below its own folder, sees neither the home nor a key, and reaches no network, no
//! socket and no terminal of anybody else, as far as the system can do that, and what was in force is said. All that it started ends with it, or at its limit.
//!
//! Reading order: [`Gate`] → `pass` (before it runs) → `shut` (the process that shuts itself in).

mod pass;
mod shut;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use pass::{Verdict, pass};
use serde::{Deserialize, Serialize};
pub use shut::serve;

/// Where a repository keeps its gate if nothing else is said.
pub const USUAL: &str = "bin/check";

/// Which command it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Command {
    /// `bin/check` of `main`; none where `main` has no such file.
    #[default]
    Usual,
    /// The owner's, by arguments; a relative path in it is of the repository.
    Given(Vec<String>),
    /// None.
    None,
}

/// What must pass.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    /// The command.
    pub command: Command,
    /// More files of the repository that judge: a branch that touches one needs the owner.
    pub guards: Vec<String>,
    /// Whether the owner lets this branch touch what judges. What is run is that of `main` all the same; a guard is as the branch has it.
    pub is_allowed: bool,
    /// Its limit; ten minutes if zero.
    pub limit: Duration,
    /// Variables that it sees beside `PATH`, `HOME`, `TMPDIR` and the language.
    pub set: BTreeMap<String, String>,
    /// Folders that it may read besides those of the system: toolchains.
    pub read: Vec<PathBuf>,
    /// Whether it is refused where it cannot be shut in.
    pub is_strict: bool,
    /// The program, with its first arguments, that calls [`serve`].
    pub helper: Vec<String>,
}

/// What a gate was shut in by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shut {
    /// Files by Landlock, the network by a namespace, and by another what files, sockets and terminals there are.
    #[serde(rename = "landlock+netns+mntns")]
    All,
    /// Files by Landlock, the network by a namespace.
    #[serde(rename = "landlock+netns")]
    Both,
    /// Files, and TCP as far as it can, by Landlock.
    #[serde(rename = "landlock")]
    Landlock,
    /// The network, and what files there are; not what is done to them.
    #[serde(rename = "netns+mntns")]
    Spaces,
    /// The network alone.
    #[serde(rename = "netns")]
    Network,
    /// Nothing.
    #[serde(rename = "none")]
    None,
}

impl Shut {
    const ALL: [Shut; 6] = [Shut::All, Shut::Both, Shut::Landlock, Shut::Spaces, Shut::Network, Shut::None];

    /// As it stands in files and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Shut::All => "landlock+netns+mntns",
            Shut::Both => "landlock+netns",
            Shut::Landlock => "landlock",
            Shut::Spaces => "netns+mntns",
            Shut::Network => "netns",
            Shut::None => "none",
        }
    }

    /// Whether the files that it does not need are out of its reach.
    pub fn hides_files(self) -> bool {
        matches!(self, Shut::All | Shut::Both | Shut::Landlock)
    }

    /// Whether it reaches no network.
    pub fn hides_network(self) -> bool {
        matches!(self, Shut::All | Shut::Both | Shut::Spaces | Shut::Network)
    }

    /// Whether sockets of a path, and terminals, are its own alone.
    pub fn hides_sockets(self) -> bool {
        matches!(self, Shut::All | Shut::Spaces)
    }
}

impl fmt::Display for Shut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What the process is told that shuts itself in and runs the command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The command.
    command: Vec<String>,
    /// Where it runs.
    folder: PathBuf,
    /// An empty folder for the root that it sees.
    root: PathBuf,
    /// All that it sees of variables.
    set: BTreeMap<String, String>,
    /// Folders that it may write.
    write: Vec<PathBuf>,
    /// Folders that it may read.
    read: Vec<PathBuf>,
    /// Its limit.
    limit: Duration,
    /// Whether it is not run where it cannot be shut in.
    is_strict: bool,
}
