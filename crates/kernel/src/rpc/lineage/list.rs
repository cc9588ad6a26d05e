//! `lineage/list`: the logical identities of the root and where each stands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LineageView;

/// The lineages of the root.
#[derive(Debug)]
pub struct List;

/// Nothing is asked.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Params {}

/// Lineages, by session name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// All of them.
    pub lineages: Vec<LineageView>,
}
