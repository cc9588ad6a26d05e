//! `kernel/hello`: who serves this root.

use netsky_model::process::ProcessId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who serves this root.
#[derive(Debug)]
pub struct Hello;

/// Nothing is asked.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Params {}

/// The anchor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Version of the protocol.
    pub protocol: u64,
    /// Of this anchor process.
    pub anchor_id: String,
    /// Rises with every anchor of the root.
    pub epoch: u64,
    /// Version of the program.
    pub version: String,
    /// The anchor itself.
    pub anchor: ProcessId,
    /// The methods it knows.
    pub capabilities: Vec<String>,
    /// Whether it is stopping: it starts nothing any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopping: bool,
    /// Rows of the journal that wait for room on the disk: until there is some, nothing is started, reported or renamed.
    #[serde(default, skip_serializing_if = "super::is_none")]
    pub waiting: usize,
}
