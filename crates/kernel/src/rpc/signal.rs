//! `session/signal`: a signal for a program.

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Guard;

/// Send a signal to the group of a program.
#[derive(Debug)]
pub struct SendSignal;

/// Which, and what.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// Its name.
    pub session: AgentId,
    /// Its number.
    pub signal: i32,
    /// `if_generation` and `request_id`.
    #[serde(flatten)]
    pub guard: Guard,
}
