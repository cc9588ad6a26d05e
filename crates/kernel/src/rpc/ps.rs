//! `kernel/ps`: the process table, without what was put aside.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SessionView;

/// The process table.
#[derive(Debug)]
pub struct Ps;

/// Nothing is asked.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Params {}

/// Sessions, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Sessions that live or have ended and were not reaped.
    pub sessions: Vec<SessionView>,
    /// Why the settings of the root do not read, and what goes on in their place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
}
