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
use crate::session::Phase;

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
        let aside = matches!(meta.phase, Phase::Inactive { .. }) || reap::put_aside(anchor, &about(&meta))?;
        if !aside {
            let message = format!("{name} cannot be put aside: somebody holds the lock of its worker");
            return Err(Refusal::new(RefusalKind::Busy, message));
        }
        return anchor.view(&name);
    }
    if damaged {
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

#[cfg(test)]
mod tests {
    use netsky_disk::lock::Lock;

    use super::*;
    use crate::anchor::stage::{on_stage, session};
    use crate::rpc::Guard;
    use crate::session::{Keeper, Meta, PhaseEvent};

    async fn reap(anchor: &Rc<Anchor>, meta: &Meta) -> Result<SessionState, RefusalKind> {
        let params = Params { id: meta.lineage.clone(), action: Action::Reap, guard: Guard::none() };
        resolve(anchor, params).await.map(|view| view.state).map_err(|refusal| refusal.kind())
    }

    #[test]
    fn who_waits_and_cannot_be_put_aside_just_now_is_not_said_to_be() {
        on_stage(async |anchor| {
            let meta = session("agent1", Keeper::Policy);
            anchor.put(meta.clone(), Life::Gone);
            asking(&anchor, &meta.spec.name, true);
            std::fs::create_dir_all(anchor.layout.agents()).expect("made");
            let held = Lock::take(anchor.layout.worker_lock(&meta.spec.name)).expect("taken");
            assert_eq!(reap(&anchor, &meta).await, Err(RefusalKind::Busy));
            drop(held);
            assert_eq!(reap(&anchor, &meta).await, Ok(SessionState::Inactive));
        });
    }

    #[test]
    fn who_is_put_aside_and_whose_log_is_damaged_is_not_refused_a_reap() {
        on_stage(async |anchor| {
            let mut meta = session("agent1", Keeper::Policy);
            meta.phase = meta.phase.next(PhaseEvent::Reaped).expect("it has ended");
            anchor.put(meta.clone(), Life::Gone);
            let log = anchor.layout.drain().join(format!("{}.turns.jsonl", meta.lineage));
            netsky_disk::fs::Dir::make(anchor.layout.drain()).expect("made");
            std::fs::write(&log, "no row\nno row\n").expect("written");
            assert_eq!(reap(&anchor, &meta).await, Ok(SessionState::Inactive));
        });
    }
}
