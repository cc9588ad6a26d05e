//! `request_id`: said twice is done once. The same one for another method or session is a mistake and refused.
//!
//! Promise: a repeat gets the first result, also while the first is still at work, also from a restarted anchor. What was
//! refused because of how things stood (`busy`, `stale-generation`, …) changed nothing and is judged anew.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use netsky_disk::fault;
use netsky_model::id::AgentId;
use serde_json::Value;
use tokio::sync::watch;

use super::recall::{Answered, Outcome};
use super::state::{Anchor, internal};
use crate::log::say;
use crate::rpc::{EventKind, Guard, MAX_REQUEST_ID, Refusal, RefusalKind};

/// Calls with a `request_id` that are being worked on.
#[derive(Default)]
pub(super) struct InFlight(RefCell<HashMap<String, watch::Receiver<()>>>);

/// A call at work; whoever repeats it waits until this is dropped.
struct Working<'a> {
    anchor: &'a Anchor,
    id: &'a str,
    _told_by_drop: watch::Sender<()>,
}

impl<'a> Working<'a> {
    fn on(
        anchor: &'a Anchor,
        id: &'a str,
        told: watch::Sender<()>,
        repeats: watch::Receiver<()>,
    ) -> Working<'a> {
        anchor.in_flight.0.borrow_mut().insert(id.to_owned(), repeats);
        Working { anchor, id, _told_by_drop: told }
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.anchor.in_flight.0.borrow_mut().remove(self.id);
    }
}

/// Works on a call unless it was answered before.
pub(super) async fn once(
    anchor: &Rc<Anchor>,
    method: &'static str,
    session: &AgentId,
    guard: &Guard,
    work: impl Future<Output = Result<Value, Refusal>>,
) -> Result<Value, Refusal> {
    check(guard)?;
    let Some(id) = &guard.request_id else { return work.await };
    loop {
        if let Some(answered) = anchor.recall(|recall| recall.answer(id).cloned()) {
            return first_result(answered, method, session);
        }
        let first = anchor.in_flight.0.borrow().get(id).cloned();
        let Some(mut first) = first else { break };
        // Ends with an error once the first call is done and its sender dropped.
        let _ = first.changed().await;
    }
    let (working, watched) = watch::channel(());
    let _working = Working::on(anchor, id, working, watched);
    let result = work.await;
    fault::point("anchor.answer.known").map_err(internal)?;
    if let Some(outcome) = worth_keeping(&result) {
        let answered = Answered {
            request_id: id.clone(),
            method: method.to_owned(),
            session: Some(session.clone()),
            outcome,
        };
        if let Err(error) = anchor.commit(EventKind::Answer, None, answered) {
            say!("a repeat of {method} {id} will not be known: {error}");
        }
    }
    fault::point("anchor.answer.kept").map_err(internal)?;
    result
}

/// Whether the name of a call is one.
pub(super) fn check(guard: &Guard) -> Result<(), Refusal> {
    match &guard.request_id {
        Some(id) if id.is_empty() || id.len() > MAX_REQUEST_ID => {
            let message = format!("a request_id has 1 to {MAX_REQUEST_ID} bytes");
            Err(Refusal::new(RefusalKind::BadParams, message))
        }
        _ => Ok(()),
    }
}

fn worth_keeping(result: &Result<Value, Refusal>) -> Option<Outcome> {
    match result {
        Ok(value) => Some(Outcome::Result(value.clone())),
        Err(refusal) if refusal.kind() == RefusalKind::FailedToStart => Some(Outcome::Error(refusal.clone())),
        Err(_) => None,
    }
}

fn first_result(answered: Answered, method: &str, session: &AgentId) -> Result<Value, Refusal> {
    if answered.method != method || answered.session.as_ref().is_some_and(|first| first != session) {
        let of = answered.session.map(|first| format!(" of {first}")).unwrap_or_default();
        let message = format!("request_id {} was used for {}{of}", answered.request_id, answered.method);
        return Err(Refusal::new(RefusalKind::BadParams, message));
    }
    match answered.outcome {
        Outcome::Result(value) => Ok(value),
        Outcome::Error(refusal) => Err(refusal),
    }
}
