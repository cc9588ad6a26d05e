//! `session/show`: one session.

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One session.
#[derive(Debug)]
pub struct Show;

/// Which.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// Its name.
    pub session: AgentId,
}
