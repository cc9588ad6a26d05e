//! `session/resize`: the size of a terminal.

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Guard;

/// Give a terminal another size.
#[derive(Debug)]
pub struct Resize;

/// Most lines and most columns: several times what a wall of screens shows.
pub const MAX_SIDE: u16 = 4096;

/// Which, and what.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// Its name.
    pub session: AgentId,
    /// Lines, 1 to 4096.
    pub rows: u16,
    /// Columns, 1 to 4096.
    pub cols: u16,
    /// `if_generation` and `request_id`.
    #[serde(flatten)]
    pub guard: Guard,
}
