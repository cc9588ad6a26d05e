//! `session/show`: one session, with what would be too long for a list of all.

use super::state::{Anchor, not_found};
use crate::rpc::show::Params;
use crate::rpc::{Refusal, SessionView};

pub(super) fn show(anchor: &Anchor, params: &Params) -> Result<SessionView, Refusal> {
    let spec = anchor.entry(&params.session, |entry| entry.meta.spec.clone());
    let spec = spec.ok_or_else(|| not_found(&params.session))?;
    Ok(SessionView { argv: spec.argv, cwd: Some(spec.cwd), ..anchor.view(&params.session)? })
}
