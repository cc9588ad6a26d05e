//! `session/kill`: end a session's whole tree.

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Guard;

/// End a session's whole tree; one that its anchor keeps stays down.
#[derive(Debug)]
pub struct Kill;

/// Milliseconds between SIGTERM and SIGKILL when the caller names none.
pub const DEFAULT_GRACE_MS: u32 = 5_000;
/// Most of it: a caller that wants more patience asks in steps.
pub const MAX_GRACE_MS: u32 = 600_000;

/// Which, and how patiently.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// Its name.
    pub session: AgentId,
    /// Milliseconds between SIGTERM and SIGKILL.
    #[serde(default = "default_grace_ms")]
    pub grace_ms: u32,
    /// `if_generation` and `request_id`.
    #[serde(flatten)]
    pub guard: Guard,
}

fn default_grace_ms() -> u32 {
    DEFAULT_GRACE_MS
}
