//! `session/spawn`: start the next generation of a session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Guard;
use crate::session::Spec;

/// Start the next generation of a session.
#[derive(Debug)]
pub struct Spawn;

/// Most bytes of a [`Spec`] as JSON: an answer that shows it fits a line, and its description fits its file.
pub const MAX_SPEC: usize = 256 << 10;

/// Most bytes of what stands in every list about a session: its tags, runtime and model. Hundreds fit a line.
pub const MAX_LABELS: usize = 4 << 10;

/// What to run.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// All of it.
    pub spec: Spec,
    /// `if_generation` and `request_id`.
    #[serde(flatten)]
    pub guard: Guard,
}
