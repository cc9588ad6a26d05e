//! `session/rename`: another name for a session that has ended.

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Guard;

/// Give a session another name.
#[derive(Debug)]
pub struct Rename;

/// Which, and how it is called from now on.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// Its name.
    pub session: AgentId,
    /// Its name from now on, which nobody else has.
    pub to: AgentId,
    /// `if_generation` and `request_id`.
    #[serde(flatten)]
    pub guard: Guard,
}
