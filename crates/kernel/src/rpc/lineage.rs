//! `lineage/list`: the logical identities of the root and where each stands.

use netsky_model::id::{AgentId, Generation, LineageId};
use serde::{Deserialize, Serialize};

use super::SessionState;

/// The lineages of the root.
#[derive(Debug)]
pub struct List;

/// Nothing is asked.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Params {}

/// One lineage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineageView {
    /// `<session name>-<8 hex>`.
    pub id: LineageId,
    /// The session that carries it.
    pub session: AgentId,
    /// The newest generation.
    pub generation: Generation,
    /// Where that stands.
    pub state: SessionState,
}

/// Lineages, by session name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// All of them.
    pub lineages: Vec<LineageView>,
}

impl super::Method for List {
    const NAME: &'static str = "lineage/list";
    type Params = Params;
    type Answer = Answer;
}
