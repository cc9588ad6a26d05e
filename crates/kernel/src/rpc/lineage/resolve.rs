//! `lineage/resolve`: what becomes of a lineage that waits to be told.

use netsky_model::id::LineageId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rpc::Guard;

/// Tell it.
#[derive(Debug)]
pub struct Resolve;

/// One of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// The next generation starts, from the last turn that is whole.
    Revive,
    /// It is put aside.
    Reap,
}

/// Which, and what.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// The lineage.
    pub id: LineageId,
    /// What becomes of it.
    pub action: Action,
    /// Which generation was looked at, and the name of this call.
    #[serde(flatten)]
    pub guard: Guard,
}
