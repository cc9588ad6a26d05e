//! `lineage/show`: one lineage, and what it has behind it.

use std::collections::BTreeMap;

use netsky_model::id::LineageId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LineageView;
use crate::drain::{Intent, Messages, Model, Progress, Usage};

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
    /// Where it stands.
    #[serde(flatten)]
    pub lineage: LineageView,
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
    /// Why its files cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
}
