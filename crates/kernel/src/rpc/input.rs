//! `session/input`: bytes for a program, as they are.

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Guard;

/// Type into a session.
#[derive(Debug)]
pub struct Input;

/// Longest text, in bytes; with all that JSON may add to it a line still holds it. A longer one is refused whole.
pub const MAX_TEXT: usize = 128 * 1024;

/// Which, and what.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// Its name.
    pub session: AgentId,
    /// What is typed: any characters, controls too.
    pub text: String,
    /// 0 for a person, else the driver's: a driver that was replaced is refused.
    #[serde(default)]
    pub epoch: u64,
    /// `if_generation` and `request_id`.
    #[serde(flatten)]
    pub guard: Guard,
}
