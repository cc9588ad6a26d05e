//! What should be running, and why: the tick only ever reconciles towards this.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::AgentId;

/// Version that this program writes.
pub const VERSION: u64 = 1;

/// `state/desired/<agent>.json`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Desired {
    /// Format version.
    pub v: u64,
    /// Which agent.
    pub agent: AgentId,
    /// Up or stopped.
    pub want: Want,
    /// Which verb said so.
    pub by: String,
    /// When it was last said; a start for this wish bears it as its tag.
    pub since: Timestamp,
    /// Which sort of program runs in the slot.
    pub runtime: String,
    /// Which model the program is asked to use; its own choice if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A conversation from before that its first start goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Whether its kind, model or program was named by a command: the defaults of the settings say nothing of these then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_hand: bool,
    /// Working folder.
    pub cwd: PathBuf,
    /// Whether that is the folder of a task that it was started for: a command that names no folder leaves it there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub placed: bool,
    /// Environment beyond what netsky sets.
    pub env: BTreeMap<String, String>,
    /// What ends a message's life for this program.
    pub receipts: Receipts,
    /// The user's umask: the program's files are its user's business.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// Keys of newer versions.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl fmt::Debug for Desired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of an environment are secrets until proved otherwise.
        write!(f, "Desired({} {:?} by {} since {})", self.agent, self.want, self.by, self.since)
    }
}

/// Whether an agent should be running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Want {
    /// Running, and started again when it dies.
    Up,
    /// Not running, on purpose.
    Stopped,
}

/// What ends a message's life for a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Receipts {
    /// The program acknowledges what it finished; what it had not, its successor gets again.
    #[default]
    Ack,
    /// The program knows no acks: what it was shown is done.
    None,
}
