//! `session/list`: every session the root knows, also what was put aside.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SessionView;

/// Every session of the root.
#[derive(Debug)]
pub struct List;

/// Nothing is asked.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Params {}

/// Sessions, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// All of them.
    pub sessions: Vec<SessionView>,
}
