//! `session/list`: every session the root knows, also what was put aside.

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Page, SessionView};

/// Every session of the root.
#[derive(Debug)]
pub struct List;

/// Which part.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// Absent: all of it, which is refused (`too-large`) where no line holds that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<Page>,
}

/// Sessions, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// All of them, or those of the part.
    pub sessions: Vec<SessionView>,
    /// Of a part: where the next one begins behind; absent in the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<AgentId>,
}
