//! `kernel/ps`: the process table, without what was put aside.

use super::list;
use super::state::Anchor;
use crate::rpc::SessionState;
use crate::rpc::ps::{Answer, Params};

pub(super) fn ps(anchor: &Anchor, params: &Params) -> Answer {
    let (sessions, next) = list::part(params.page.as_ref(), anchor.names(), |name| {
        anchor.view(name).ok().filter(|session| session.state != SessionState::Inactive)
    });
    Answer { sessions, next, settings: anchor.settings_trouble() }
}
