//! `request_id`: said twice is done once. The same one for another method, another session or other parameters is a mistake
//! and refused.
//!
//! Promise: a repeat gets the first result, also while the first is still at work, also from a restarted anchor. What was
//! refused because of how things stood (`busy`, `stale-generation`, …) changed nothing and is judged anew.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use netsky_disk::fault;
use netsky_model::id::AgentId;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

use super::recall::{Answered, Outcome};
use super::state::{Anchor, internal};
use crate::log::say;
use crate::rpc::{EventKind, Guard, MAX_REQUEST_ID, Refusal, RefusalKind};

/// What a repeat of a call may say otherwise: what it says of how things stand, how patient it is, and who drives.
const OF_THE_MOMENT: [&str; 4] = ["if_generation", "request_id", "grace_ms", "epoch"];
/// What of it stands nowhere, not even as a hash: it may be a secret, and short.
const UNSEEN: [&str; 1] = ["text"];
/// What of a start is that of the shell it was asked from; a repeat may come from another one.
const OF_THE_SHELL: [&str; 2] = ["env", "umask"];
/// Hexadecimal digits of a hash: it tells mistakes apart, not enemies.
const DIGITS: usize = 16;

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
    asked: String,
    work: impl Future<Output = Result<Value, Refusal>>,
) -> Result<Value, Refusal> {
    check(guard)?;
    let Some(id) = &guard.request_id else { return work.await };
    loop {
        if let Some(answered) = anchor.recall(|recall| recall.answer(id).cloned()) {
            return first_result(answered, method, session, &asked);
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
            asked: Some(asked),
            outcome,
        };
        if let Err(error) = anchor.commit(EventKind::Answer, None, answered) {
            say!("a repeat of {method} {id} will not be known: {error}");
        }
    }
    fault::point("anchor.answer.kept").map_err(internal)?;
    result
}

/// What a call asks for, as a short hash: that of a repeat is the same.
pub(super) fn essence(params: &impl Serialize) -> Result<String, Refusal> {
    let mut params = serde_json::to_value(params).map_err(internal)?;
    if let Some(params) = params.as_object_mut() {
        params.retain(|name, _| !OF_THE_MOMENT.contains(&name.as_str()) && !UNSEEN.contains(&name.as_str()));
    }
    if let Some(spec) = params.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|name, _| !OF_THE_SHELL.contains(&name.as_str()));
    }
    let mut hash = blake3::hash(params.to_string().as_bytes()).to_hex().to_string();
    hash.truncate(DIGITS);
    Ok(hash)
}

/// The refusal of a name that another call has.
pub(super) fn conflict(request_id: &str, used: &str) -> Refusal {
    let message = format!("request_id {request_id} was used for {used}: a new call takes a new one");
    Refusal::new(RefusalKind::BadParams, message)
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

fn first_result(answered: Answered, method: &str, session: &AgentId, asked: &str) -> Result<Value, Refusal> {
    if answered.method != method || answered.session.as_ref().is_some_and(|first| first != session) {
        let of = answered.session.map(|first| format!(" of {first}")).unwrap_or_default();
        return Err(conflict(&answered.request_id, &format!("{}{of}", answered.method)));
    }
    if answered.asked.as_ref().is_some_and(|first| first != asked) {
        return Err(conflict(&answered.request_id, &format!("{method} of {session} with other parameters")));
    }
    match answered.outcome {
        Outcome::Result(value) => Ok(value),
        Outcome::Error(refusal) => Err(refusal),
    }
}
