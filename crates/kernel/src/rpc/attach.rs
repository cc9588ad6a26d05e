//! `client/attach`: one session, followed on this connection.

use std::path::PathBuf;

use netsky_model::id::{AgentId, Generation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Follow one session.
#[derive(Debug)]
pub struct Attach;

/// What of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Its rows of the journal, as `event` notifications on this connection.
    Events,
    /// Its screen: the worker's socket is told, and speaks frames of its own. Nothing comes on this connection.
    Terminal,
}

/// Which, what of it, and from where.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// Its name.
    pub session: AgentId,
    /// What of it.
    pub mode: Mode,
    /// For events: the last row the caller has; what comes is every row behind it, once. Absent: only what happens from
    /// now on. A row that is not there yet is refused (`bad-params`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
}

/// Where the session stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Its name.
    pub session: AgentId,
    /// The newest generation.
    pub generation: Generation,
    /// The newest row at the time of the call.
    pub head: u64,
    /// For a terminal: the worker's socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
}
