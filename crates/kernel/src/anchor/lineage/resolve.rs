//! `lineage/resolve`: what becomes of a lineage that waits to be told.
//!
//! Promise: only one that waits is touched, and one that is gone and whose turns log does not read, whoever keeps it and
//! however it ended: nothing else gives such a lineage a log again. What could not be read of it stays as evidence, and a
//! revived lineage goes on from what could.

use std::rc::Rc;

use netsky_model::id::AgentId;

use super::carrier;
use crate::anchor::state::{Anchor, about, not_found};
use crate::anchor::table::Life;
use crate::anchor::{reap, report, spawn};
use crate::drain::{Drain, DrainError};
use crate::rpc::lineage::resolve::{Action, Params};
use crate::rpc::{Refusal, RefusalKind, SessionState, SessionView};

pub(in crate::anchor) async fn resolve(anchor: &Rc<Anchor>, params: Params) -> Result<SessionView, Refusal> {
    let Params { id, action, guard } = params;
    let name = carrier(anchor, &id)?;
    let meta = anchor.entry(&name, |entry| entry.meta.clone()).ok_or_else(|| not_found(&name))?;
    if let Some(revived) = spawn::done_before(anchor, &meta.spec, &guard) {
        return Ok(revived);
    }
    let session = anchor.view(&name)?;
    guard.believes(&id, session.generation)?;
    let asked = session.state == SessionState::Asking;
    let gone = anchor.entry(&name, |entry| entry.life) == Some(Life::Gone);
    let damaged = gone && matches!(anchor.check_drain(&id), Err(DrainError::Damaged { .. }));
    if !asked && !damaged {
        let message = format!("{id} does not wait to be told: {name} is {}", session.state);
        return Err(Refusal::new(RefusalKind::Refused, message));
    }
    if action == Action::Reap {
        reap::put_aside(anchor, &about(&meta))?;
        return anchor.view(&name);
    }
    if damaged {
        anchor.forget_drain(&id);
        let begun = Drain::begin_anew(&anchor.layout, &id).and_then(|()| anchor.begin_drain(&about(&meta)));
        begun.map_err(|error| report::refusal(&error))?;
    }
    asking(anchor, &name, false);
    let started = spawn::revived(anchor, meta.spec, meta.generation, guard.request_id).await;
    // What did not start waits again: nobody else brings it back.
    started.inspect_err(|_| asking(anchor, &name, asked))
}

fn asking(anchor: &Anchor, name: &AgentId, asking: bool) {
    anchor.entry(name, |entry| {
        entry.asking = asking;
        entry.revivals = 0;
    });
}
