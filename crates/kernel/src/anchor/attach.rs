//! What a connection follows: `client/attach`, `client/subscribe`, `client/detach`.
//!
//! Promise: whoever names the last row it has gets every row behind it, once, from whichever anchor serves by then.

use netsky_model::id::AgentId;

use super::dispatch::Call;
use super::recall::Recall;
use super::state::{Anchor, not_found};
use super::subscribe::{Followed, Subscription};
use crate::rpc::attach::Mode;
use crate::rpc::{Refusal, RefusalKind, attach, detach, subscribe};

pub(super) fn attach(call: &Call, params: attach::Params) -> Result<attach::Answer, Refusal> {
    let attach::Params { session: asked, mode, since } = params;
    let session = called_now(&call.anchor, &asked);
    let meta = call.anchor.entry(&session, |entry| entry.meta.clone());
    let meta = meta.ok_or_else(|| not_found(&asked))?;
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
            call.anchor.arrived(call.caller.as_ref(), Some(&session));
            (head(&call.anchor), Some(meta.socket))
        }
    };
    Ok(attach::Answer { session, generation: meta.generation, head, socket })
}

/// The name of a session now: who followed it and lost its anchor knows the one it had. Whoever has that one by now is meant
/// by it.
fn called_now(anchor: &Anchor, name: &AgentId) -> AgentId {
    let is_had = anchor.entry(name, |_| ()).is_some();
    let renamed = |recall: &Recall| {
        let mut renames = recall.renames().filter(|(_, renamed)| renamed.from == *name);
        renames.next().map(|(_, renamed)| renamed.to.clone())
    };
    let to = if is_had { None } else { anchor.recall(renamed) };
    to.unwrap_or_else(|| name.clone())
}

pub(super) fn subscribe(call: &Call, params: subscribe::Params) -> Result<subscribe::Answer, Refusal> {
    known(&call.anchor, params.since)?;
    // Its row first: who follows from now on does not meet itself.
    call.anchor.arrived(call.caller.as_ref(), None);
    let head = head(&call.anchor);
    let of = params.session.map(|session| {
        let known = call.anchor.recall(|recall| recall.session(&session).map(|known| known.lineage.clone()));
        Followed { session, lineage: known }
    });
    *call.seat.borrow_mut() = Some(Subscription::new(params.since, of, head));
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
