//! `lineage/show`: one lineage, and what it has behind it.

use super::carrier;
use crate::anchor::state::Anchor;
use crate::drain::State;
use crate::rpc::lineage::show::{Answer, Params};
use crate::rpc::{Refusal, SessionView};

pub(in crate::anchor) fn show(anchor: &Anchor, params: &Params) -> Result<Answer, Refusal> {
    let session = anchor.view(&carrier(anchor, &params.id)?)?;
    let (state, damaged) = match anchor
        .check_drain(&params.id)
        .and_then(|()| anchor.drain(&params.id, |drain| drain.state().clone()))
    {
        Ok(state) => (state, None),
        Err(error) => (State::default(), Some(error.to_string())),
    };
    let State { usage, messages, model, intents, .. } = state;
    let SessionView { name, lineage, generation, state, progress, .. } = session;
    Ok(Answer {
        id: lineage,
        session: name,
        generation,
        state,
        progress,
        usage,
        messages,
        model,
        intents,
        damaged,
    })
}
