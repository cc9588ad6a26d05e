//! `lineage/list`: the logical identities of the root and where each stands.

use serde::{Deserialize, Serialize};

use super::LineageView;
use crate::rpc::Method;

/// The lineages of the root.
#[derive(Debug)]
pub struct List;

/// Nothing is asked.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Params {}

/// Lineages, by session name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// All of them.
    pub lineages: Vec<LineageView>,
}

impl Method for List {
    const NAME: &'static str = "lineage/list";
    type Params = Params;
    type Answer = Answer;
}
