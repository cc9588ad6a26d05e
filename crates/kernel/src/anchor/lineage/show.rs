//! `lineage/show`: one lineage, and what it has behind it.

use super::carrier;
use super::list::view;
use crate::anchor::state::Anchor;
use crate::drain::State;
use crate::rpc::Refusal;
use crate::rpc::lineage::show::{Answer, Params};

pub(in crate::anchor) fn show(anchor: &Anchor, params: &Params) -> Result<Answer, Refusal> {
    let session = anchor.view(&carrier(anchor, &params.id)?)?;
    let (state, damaged) = match anchor.drain(&params.id, |drain| drain.state().clone()) {
        Ok(state) => (state, None),
        Err(error) => (State::default(), Some(error.to_string())),
    };
    let State { usage, messages, model, intents, .. } = state;
    let progress = session.progress.clone();
    Ok(Answer { lineage: view(session), progress, usage, messages, model, intents, damaged })
}
