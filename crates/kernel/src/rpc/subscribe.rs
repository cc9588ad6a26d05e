//! `client/subscribe`: rows of the journal on this connection, as they are written.

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Follow the journal.
#[derive(Debug)]
pub struct Subscribe;

/// How far a subscriber may fall behind before it gets a `gap` instead of the rows.
pub const LAG: usize = 1_024;

/// From where.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// The last row the caller has; absent: only what happens from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Only rows of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<AgentId>,
}

/// What follows are `event` notifications.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The newest row at the time of the call.
    pub head: u64,
}
