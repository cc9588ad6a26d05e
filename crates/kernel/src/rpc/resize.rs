//! `session/resize`: the size of a terminal.

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Guard;

/// Give a terminal another size.
#[derive(Debug)]
pub struct Resize;

/// Which, and what.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// Its name.
    pub session: AgentId,
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
    /// `if_generation` and `request_id`.
    #[serde(flatten)]
    pub guard: Guard,
}
