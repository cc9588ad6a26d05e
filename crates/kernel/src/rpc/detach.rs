//! `client/detach`: nothing is followed on this connection any more.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// End what this connection follows.
#[derive(Debug)]
pub struct Detach;

/// Nothing is asked.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Params {}

/// What was let go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Whether anything was followed. No event comes after this answer.
    pub followed: bool,
}
