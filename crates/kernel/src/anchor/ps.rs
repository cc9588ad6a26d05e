//! `kernel/ps`: the process table, without what was put aside.

use super::list;
use super::state::Anchor;
use crate::rpc::SessionState;
use crate::rpc::ps::Answer;

pub(super) fn ps(anchor: &Anchor) -> Answer {
    let mut sessions = list::list(anchor).sessions;
    sessions.retain(|session| session.state != SessionState::Inactive);
    Answer { sessions, settings: anchor.settings_trouble() }
}
