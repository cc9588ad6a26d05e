//! `kernel/reap`: look at every session again and put the ended ones aside.

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Put ended sessions aside, at most 8,192 and for at most 5 s at once, and remove what they left.
#[derive(Debug)]
pub struct Reap;

/// Nothing is asked.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Params {}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Sessions that were put aside now.
    pub reaped: Vec<AgentId>,
    /// There may be more of them: ask again. Which one was refused is said by the last part.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}
