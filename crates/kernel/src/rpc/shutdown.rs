//! `kernel/shutdown`: stop the anchor, or everything.

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stop the anchor; workers live on unless `all`.
#[derive(Debug)]
pub struct Shutdown;

/// How much of it.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// Kill every session first.
    #[serde(default)]
    pub all: bool,
    /// Milliseconds between SIGTERM and SIGKILL of each session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = super::kill::MAX_GRACE_MS))]
    pub grace_ms: Option<u32>,
}

/// What was done; the anchor exits after this reply, unless other shutdowns are at work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Sessions that were ended.
    pub ended: Vec<AgentId>,
    /// Sessions that live on (with `all`: that would not end).
    pub left: Vec<AgentId>,
    /// Sessions that are to stay down, which a full disk kept from being written: the next anchor may bring them back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unwritten: Vec<AgentId>,
    /// Rows of the journal that found no room on the disk: this anchor writes them no more.
    #[serde(default, skip_serializing_if = "super::is_none")]
    pub waiting: usize,
    /// Other shutdowns that are at work: the anchor exits after the last of them.
    #[serde(default, skip_serializing_if = "super::is_none")]
    pub others: usize,
}
