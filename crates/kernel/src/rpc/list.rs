//! `session/list`: every session the root knows, also what was put aside.

use serde::{Deserialize, Serialize};

use super::SessionView;

/// Every session of the root.
#[derive(Debug)]
pub struct List;

/// Nothing is asked.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Params {}

/// Sessions, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// All of them.
    pub sessions: Vec<SessionView>,
}

impl super::Method for List {
    const NAME: &'static str = "session/list";
    type Params = Params;
    type Answer = Answer;
}
