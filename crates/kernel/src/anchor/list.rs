//! `session/list`: every session the root knows, also what was put aside.

use super::state::Anchor;
use crate::rpc::list::Answer;

pub(super) fn list(anchor: &Anchor) -> Answer {
    Answer { sessions: anchor.names().iter().filter_map(|name| anchor.view(name).ok()).collect() }
}
