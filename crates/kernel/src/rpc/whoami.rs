//! `kernel/whoami`: below which session the caller runs.

use netsky_model::id::{AgentId, Generation, LineageId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Below which session the caller runs.
#[derive(Debug)]
pub struct Whoami;

/// Nothing is asked: the socket says who calls.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Params {}

/// The session, where there is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// None for whoever runs below no session of this root.
    pub session: Option<Who>,
}

/// One incarnation of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Who {
    /// Its name.
    pub name: AgentId,
    /// Its logical identity.
    pub lineage: LineageId,
    /// Which incarnation.
    pub generation: Generation,
}
