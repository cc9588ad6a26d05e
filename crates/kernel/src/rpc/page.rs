//! Long lists in parts: a line holds about a thousand sessions of long names.
//!
//! Promise: who asks for no part gets all of it, or `too-large`, never less without a word. What stays from the first part to
//! the last is in one of them, once.

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of a list: as much of it as a line holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Page {
    /// What is behind this name, the `next` of the part before; absent: from the first on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<AgentId>,
}
