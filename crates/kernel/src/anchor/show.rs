//! `session/show`: one session.

use super::state::Anchor;
use crate::rpc::show::Params;
use crate::rpc::{Refusal, SessionView};

pub(super) fn show(anchor: &Anchor, params: &Params) -> Result<SessionView, Refusal> {
    anchor.view(&params.session)
}
