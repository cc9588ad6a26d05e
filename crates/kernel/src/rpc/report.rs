//! `session/report`: what a session says about itself; see [`drain`](crate::drain).

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Guard;
use crate::drain::{Progress, Report};

/// Take a report.
#[derive(Debug)]
pub struct SessionReport;

/// Of whom, and what. A report of a generation that is over is refused when `if_generation` tells it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// The session.
    pub session: AgentId,
    /// What it says.
    pub report: Report,
    /// Which generation says so, and the name of this call.
    #[serde(flatten)]
    pub guard: Guard,
}

/// What is known now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Where the session stands.
    #[serde(flatten)]
    pub progress: Progress,
    /// Why the snapshot is still the one before, where a turn could not be written into one; the turn itself is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsnapped: Option<String>,
}
