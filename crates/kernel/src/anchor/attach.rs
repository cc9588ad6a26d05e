//! What a connection follows: `client/attach`, `client/subscribe`, `client/detach`.
//!
//! Promise: whoever names the last row it has gets every row behind it, once, from whichever anchor serves by then.

use super::dispatch::Call;
use super::state::{Anchor, not_found};
use super::subscribe::Subscription;
use crate::rpc::attach::Mode;
use crate::rpc::{Refusal, RefusalKind, attach, detach, subscribe};

pub(super) fn attach(call: &Call, params: attach::Params) -> Result<attach::Answer, Refusal> {
    let attach::Params { session, mode, since } = params;
    let meta = call.anchor.entry(&session, |entry| entry.meta.clone());
    let meta = meta.ok_or_else(|| not_found(&session))?;
    let (head, socket) = match mode {
        Mode::Events => {
            let of = subscribe::Params { since, session: Some(session.clone()) };
            (subscribe(call, of)?.head, None)
        }
        Mode::Terminal => {
            if since.is_some() {
                let message = "`since` is for events: a terminal begins with its screen";
                return Err(Refusal::new(RefusalKind::BadParams, message));
            }
            if !meta.phase.may_live() {
                let message = format!("{session} does not run: it has no terminal");
                return Err(Refusal::new(RefusalKind::Refused, message));
            }
            (head(&call.anchor), Some(meta.socket))
        }
    };
    Ok(attach::Answer { session, generation: meta.generation, head, socket })
}

pub(super) fn subscribe(call: &Call, params: subscribe::Params) -> Result<subscribe::Answer, Refusal> {
    known(&call.anchor, params.since)?;
    // Its row first: who follows from now on does not meet itself.
    call.anchor.arrived(call.caller.as_ref());
    let head = head(&call.anchor);
    *call.seat.borrow_mut() = Some(Subscription::new(params, head));
    Ok(subscribe::Answer { head })
}

pub(super) fn detach(call: &Call) -> detach::Answer {
    detach::Answer { followed: call.seat.take().is_some() }
}

/// A caller that has rows which this journal does not have is told so: taken at its word it would miss as many.
fn known(anchor: &Anchor, since: Option<u64>) -> Result<(), Refusal> {
    let head = head(anchor);
    match since.filter(|since| *since > head) {
        None => Ok(()),
        Some(since) => {
            let message = format!("no row {since} yet: the newest of this journal is {head}");
            Err(Refusal::new(RefusalKind::BadParams, message))
        }
    }
}

fn head(anchor: &Anchor) -> u64 {
    anchor.journal(|journal| journal.head())
}
