//! `lineage/list`: the logical identities of the root and where each stands.

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LineageView;
use crate::rpc::Page;

/// The lineages of the root.
#[derive(Debug)]
pub struct List;

/// Which part.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// Absent: all of it, which is refused (`too-large`) where no line holds that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<Page>,
}

/// Lineages: agent0, the clones by their numbers, then the others by name; those of a part by name alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// All of them, or those of the part.
    pub lineages: Vec<LineageView>,
    /// Of a part: where the next one begins behind; absent in the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<AgentId>,
}
