//! `session/kill`: end a session's whole tree.

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Guard, Refusal, RefusalKind};

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
    #[schemars(range(max = MAX_GRACE_MS))]
    pub grace_ms: u32,
    /// `if_generation` and `request_id`.
    #[serde(flatten)]
    pub guard: Guard,
}

fn default_grace_ms() -> u32 {
    DEFAULT_GRACE_MS
}

/// Refuses a grace over [`MAX_GRACE_MS`]: one that is cut to it would end what was to have more time.
pub(crate) fn check_grace(grace_ms: u32) -> Result<(), Refusal> {
    if grace_ms <= MAX_GRACE_MS {
        return Ok(());
    }
    let message = format!("grace_ms is {grace_ms}, and at most {MAX_GRACE_MS}");
    Err(Refusal::new(RefusalKind::BadParams, message))
}
