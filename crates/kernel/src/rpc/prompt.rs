//! `session/prompt`: a text put before a program, and nothing but a text.

use netsky_model::id::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Guard;

/// Put a text before a program, as one paste and Enter; answered once its worker has taken it whole.
#[derive(Debug)]
pub struct Prompt;

/// Longest text, in bytes: as long as a message.
pub const MAX_TEXT: usize = 256 * 1024;

/// Which, and what.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// Its name.
    pub session: AgentId,
    /// The text; control characters other than the ends of lines and tabs are left out.
    pub text: String,
    /// Whether this is the one turn in which a program whose context is nearly used writes its handoff.
    #[serde(default)]
    pub finalization: bool,
    /// 0 for a person, else the driver's: a driver that was replaced is refused.
    #[serde(default)]
    pub epoch: u64,
    /// `if_generation` and `request_id`.
    #[serde(flatten)]
    pub guard: Guard,
}
