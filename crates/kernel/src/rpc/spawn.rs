//! `session/spawn`: start the next generation of a session.

use serde::{Deserialize, Serialize};

use super::{Guard, SessionView};
use crate::session::Spec;

/// Start the next generation of a session.
#[derive(Debug)]
pub struct Spawn;

/// What to run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Params {
    /// All of it.
    pub spec: Spec,
    /// `if_generation` and `request_id`.
    #[serde(flatten)]
    pub guard: Guard,
}

impl super::Method for Spawn {
    const NAME: &'static str = "session/spawn";
    type Params = Params;
    type Answer = SessionView;
}
