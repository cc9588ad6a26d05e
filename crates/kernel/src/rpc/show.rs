//! `session/show`: one session.

use netsky_model::id::AgentId;
use serde::{Deserialize, Serialize};

use super::SessionView;

/// One session.
#[derive(Debug)]
pub struct Show;

/// Which.
#[derive(Debug, Serialize, Deserialize)]
pub struct Params {
    /// Its name.
    pub session: AgentId,
}

impl super::Method for Show {
    const NAME: &'static str = "session/show";
    type Params = Params;
    type Answer = SessionView;
}
