//! `kernel/reap`: look at every session again and put the ended ones aside.

use netsky_model::id::AgentId;
use serde::{Deserialize, Serialize};

/// Put ended sessions aside and remove what they left.
#[derive(Debug)]
pub struct Reap;

/// Nothing is asked.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Params {}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Sessions that were put aside now.
    pub reaped: Vec<AgentId>,
}

impl super::Method for Reap {
    const NAME: &'static str = "kernel/reap";
    type Params = Params;
    type Answer = Answer;
}
