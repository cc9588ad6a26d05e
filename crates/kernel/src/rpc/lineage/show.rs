//! `lineage/show`: one lineage, and what it has behind it.

use std::collections::BTreeMap;

use netsky_model::id::{AgentId, Generation, LineageId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::drain::{Intent, Messages, Model, Progress, Usage};
use crate::rpc::SessionState;

/// Look at one.
#[derive(Debug)]
pub struct Show;

/// Which.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// Its id.
    pub id: LineageId,
}

/// What is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// `<session name>-<8 hex>`.
    pub id: LineageId,
    /// The session that carries it.
    pub session: AgentId,
    /// The newest generation.
    pub generation: Generation,
    /// Where that stands.
    pub state: SessionState,
    /// What its newest generation says about itself.
    #[serde(flatten)]
    pub progress: Progress,
    /// The sums of all turns.
    pub usage: Usage,
    /// How many messages, and their digest.
    pub messages: Messages,
    /// Who answered last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Tool calls without a result.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub intents: BTreeMap<String, Intent>,
    /// What a line does not hold with the rest, `intents.input` or `model.config`; it is in the turns log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Why its files cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
}
