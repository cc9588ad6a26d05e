//! Lineages: the logical identities of a root.

pub mod list;
pub mod resolve;
pub mod show;

use netsky_model::id::{AgentId, Generation, LineageId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SessionState;

/// One lineage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineageView {
    /// `<session name>-<8 hex>`.
    pub id: LineageId,
    /// The session that carries it.
    pub session: AgentId,
    /// The newest generation.
    pub generation: Generation,
    /// Where that stands.
    pub state: SessionState,
    /// Turns that are over.
    #[serde(default)]
    pub turn: u64,
}
