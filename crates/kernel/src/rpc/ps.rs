//! `kernel/ps`: the process table, without what was put aside.

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Page, SessionView};

/// The process table.
#[derive(Debug)]
pub struct Ps;

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
    /// Sessions that live or have ended and were not reaped.
    pub sessions: Vec<SessionView>,
    /// Of a part: where the next one begins behind; absent in the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<AgentId>,
    /// Why the settings of the root do not read, and what goes on in their place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
}
