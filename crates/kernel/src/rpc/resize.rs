//! `session/resize`: the size of a terminal.

use netsky_model::id::AgentId;
use serde::{Deserialize, Serialize};

use super::{Guard, SessionView};

/// Give a terminal another size.
#[derive(Debug)]
pub struct Resize;

/// Which, and what.
#[derive(Debug, Serialize, Deserialize)]
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

impl super::Method for Resize {
    const NAME: &'static str = "session/resize";
    type Params = Params;
    type Answer = SessionView;
}
