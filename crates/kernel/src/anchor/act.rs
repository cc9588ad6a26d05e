//! `session/input`, `prompt`, `resize` and `signal`: what somebody does to a program, through its worker.
//!
//! Promise: answered once the worker has taken it whole; what is refused was not begun. A worker whose program does not read
//! says `busy`; nothing waits here. Under one `request_id` a generation is typed to once: its worker remembers, so that it
//! holds over an anchor that dies before it has answered. Where a worker does not say what became of it, nobody says
//! `busy`: it may have been typed.
//!
//! A prompt is let in as the lifecycle of its generation says; of finalization prompts at most one ever, and it counts once
//! its bytes are with the worker.

use std::rc::Rc;
use std::time::Duration;

use netsky_disk::fault;
use netsky_model::lifecycle::{LifecycleState, Prompt};

use super::report;
use super::state::{Anchor, about, internal, not_found};
use super::table::Life;
use crate::drain::Report;
use crate::frame::{self, Form, FromWorker};
use crate::output_log::LogReader;
use crate::paste;
use crate::rpc::{
    EventKind, Guard, Refusal, RefusalKind, SessionView, event_data, input, prompt, resize, signal,
};
use crate::session::{Io, Meta};
use crate::worker_client::{WorkerClient, WorkerError};

/// How long a worker may take to greet, and to say that it took what came: its loop comes round in milliseconds.
const ROUND: Duration = Duration::from_secs(2);
/// The name of a generation's finalization prompt with its worker; those of callers begin otherwise.
const FINALIZATION: &str = "finalization";

pub(super) async fn input(anchor: &Rc<Anchor>, params: input::Params) -> Result<SessionView, Refusal> {
    let input::Params { session, text, epoch, guard } = params;
    no_longer_than("a text", &text, input::MAX_TEXT)?;
    let meta = living(anchor, &session, &guard, "typed")?;
    let data = event_data::Input { bytes: text.len(), request_id: guard.request_id.clone() };
    type_in(anchor, &meta, Typing { epoch, form: Form::Keys, id: id_of(&guard), text }).await?;
    anchor.observe(EventKind::Input, Some(about(&meta)), data);
    anchor.view(&session)
}

pub(super) async fn resize(anchor: &Rc<Anchor>, params: resize::Params) -> Result<SessionView, Refusal> {
    let resize::Params { session, rows, cols, guard } = params;
    if rows == 0 || cols == 0 {
        return Err(Refusal::new(RefusalKind::BadParams, "a terminal has at least one line and one column"));
    }
    if rows.max(cols) > resize::MAX_SIDE {
        let most = resize::MAX_SIDE;
        let message =
            format!("{rows}x{cols} is too large: a terminal has at most {most} lines and {most} columns");
        return Err(Refusal::new(RefusalKind::BadParams, message));
    }
    let meta = living(anchor, &session, &guard, "done")?;
    act(&meta, move |worker| worker.resize(rows, cols)).await?;
    anchor.observe(EventKind::Resize, Some(about(&meta)), event_data::Resize { rows, cols });
    anchor.view(&session)
}

pub(super) async fn signal(anchor: &Rc<Anchor>, params: signal::Params) -> Result<SessionView, Refusal> {
    let signal::Params { session, signal, guard } = params;
    let meta = living(anchor, &session, &guard, "sent")?;
    act(&meta, move |worker| worker.signal(signal)).await?;
    anchor.observe(EventKind::Signal, Some(about(&meta)), event_data::Signal { signal });
    anchor.view(&session)
}

pub(super) async fn prompt(anchor: &Rc<Anchor>, params: prompt::Params) -> Result<SessionView, Refusal> {
    let prompt::Params { session, text, finalization, epoch, guard } = params;
    no_longer_than("a prompt", &text, prompt::MAX_TEXT)?;
    let meta = living(anchor, &session, &guard, "typed")?;
    let begins = if finalization { Report::Finalization } else { Report::Begun };
    if let Some(id) = &guard.request_id
        && let Ok(Ok(true)) =
            anchor.drain(&meta.lineage, |drain| drain.state().has_told(id, meta.generation, &begins))
    {
        // Its answer was lost with an anchor; where the context stands since is no concern of a repeat.
        return anchor.view(&session);
    }
    let lifecycle = anchor.view(&session)?.progress.lifecycle;
    let kind = if finalization { Prompt::Finalization } else { Prompt::Ordinary };
    if !lifecycle.admits(kind) || (finalization && lifecycle != LifecycleState::Dying) {
        return Err(Refusal::new(RefusalKind::Refused, fenced(&meta, lifecycle, finalization)));
    }
    let data = event_data::Prompt { bytes: text.len(), finalization, request_id: guard.request_id.clone() };
    // One name for all of them: a second one is never typed, whoever dies before the first is written down.
    let id = if finalization { FINALIZATION.to_owned() } else { id_of(&guard) };
    type_in(anchor, &meta, Typing { epoch, form: Form::Text, id, text }).await?;
    fault::point("anchor.prompt.typed").map_err(internal)?;
    let since = anchor.view(&session)?.progress.lifecycle;
    if finalization && since != LifecycleState::Dying {
        // Another caller's was typed and written down meanwhile; of this one nothing was.
        return Err(Refusal::new(RefusalKind::Refused, fenced(&meta, since, finalization)));
    }
    anchor.observe(EventKind::Prompt, Some(about(&meta)), data);
    let guard = Guard { if_generation: Some(meta.generation), ..guard };
    let begun = crate::rpc::report::Params { session: session.clone(), report: begins, guard };
    match report::report(anchor, &begun) {
        Err(refusal) if finalization => {
            let message = format!("{session} has its finalization prompt, and {refusal}");
            return Err(Refusal::new(refusal.kind(), message));
        }
        // Of an ordinary one nothing hangs on it but how its turn is told from the last.
        Err(refusal) => crate::log::say!("that a turn of {session} begins is not written down: {refusal}"),
        Ok(_) => {}
    }
    anchor.view(&session)
}

fn no_longer_than(what: &str, text: &str, limit: usize) -> Result<(), Refusal> {
    if text.len() <= limit {
        return Ok(());
    }
    let message = format!("{what} of {} bytes; the limit is {limit}", text.len());
    Err(Refusal::new(RefusalKind::TooLarge, message))
}

/// The name of a call with a worker; empty where it has none.
fn id_of(guard: &Guard) -> String {
    guard.request_id.as_ref().map(|id| format!("call.{id}")).unwrap_or_default()
}

/// What is to be typed.
struct Typing {
    epoch: u64,
    form: Form,
    id: String,
    text: String,
}

/// Types once under a name and returns when the worker has it whole.
async fn type_in(anchor: &Rc<Anchor>, meta: &Meta, typing: Typing) -> Result<(), Refusal> {
    let log = anchor.layout.out(&meta.spec.name);
    let (name, meta) = (meta.spec.name.clone(), meta.clone());
    let again = if typing.id.is_empty() { "" } else { "; a repeat under its request_id types it once" };
    let doing = tokio::task::spawn_blocking(move || {
        let mut worker = match reach(&meta) {
            Ok(worker) => worker,
            Err(error) => return Err((false, error)),
        };
        let Typing { epoch, form, id, text } = typing;
        if worker.hello().types {
            let typed = worker.type_once(epoch, form, &id, text.as_bytes(), ROUND);
            return typed.map(drop).map_err(|error| (true, error));
        }
        // A worker of a program before this one: it takes keys, and remembers none.
        let keys = match (form, meta.spec.io) {
            (Form::Keys, _) => text,
            (Form::Text, Io::Pipes) => paste::piped(&text),
            (Form::Text, Io::Pty { .. }) => {
                let bracketed = LogReader::open(&log).and_then(|log| paste::is_bracketed(&log));
                // Output that does not read tells of no mode: the text is typed as by hand.
                paste::typed(&text, bracketed.unwrap_or(false))
            }
        };
        let typed = worker.input_whole(epoch, keys.as_bytes()).and_then(|()| obeyed(&mut worker));
        typed.map_err(|error| (true, error))
    });
    match doing.await.map_err(internal)? {
        Ok(()) => Ok(()),
        Err((sent, error)) if sent && !matches!(error, WorkerError::Refused(_)) => {
            let message = format!("{name}: {error}; it may have been typed{again}");
            Err(Refusal::new(RefusalKind::Internal, message))
        }
        Err((_, error)) => Err(refusal(&name, &error)),
    }
}

fn fenced(meta: &Meta, lifecycle: LifecycleState, finalization: bool) -> String {
    let name = &meta.spec.name;
    match lifecycle {
        LifecycleState::Healthy | LifecycleState::Aging if finalization => {
            format!("{name} is {lifecycle}: its finalization turn comes when it is dying")
        }
        LifecycleState::Dying => {
            format!("{name} is dying: its context lets in one finalization turn and no other")
        }
        other => format!("{name} is {other}: its context lets nothing in"),
    }
}

/// The description of a session that lives, if it is the generation that was meant; `undone` is what was not done to another.
fn living(
    anchor: &Anchor,
    session: &netsky_model::id::AgentId,
    guard: &Guard,
    undone: &str,
) -> Result<Meta, Refusal> {
    let found = anchor.entry(session, |entry| (entry.life, entry.meta.clone()));
    let (life, meta) = found.ok_or_else(|| not_found(session))?;
    guard.believes(session, meta.generation)?;
    match life {
        Life::Live => Ok(meta),
        Life::Starting => Err(Refusal::new(RefusalKind::Busy, format!("{session} is starting"))),
        Life::Ending | Life::Gone => {
            Err(Refusal::new(RefusalKind::Refused, format!("{session} does not run; nothing was {undone}")))
        }
        Life::Foreign => {
            Err(Refusal::new(RefusalKind::Refused, format!("{session} cannot be reached from here")))
        }
    }
}

/// Does it and waits until the worker has said that it was taken.
async fn act(
    meta: &Meta,
    what: impl FnOnce(&mut WorkerClient) -> Result<(), WorkerError> + Send + 'static,
) -> Result<(), Refusal> {
    let (name, meta) = (meta.spec.name.clone(), meta.clone());
    let doing = tokio::task::spawn_blocking(move || {
        let mut worker = reach(&meta)?;
        what(&mut worker)?;
        obeyed(&mut worker)
    });
    doing.await.map_err(internal)?.map_err(|error| refusal(&name, &error))
}

fn reach(meta: &Meta) -> Result<WorkerClient, WorkerError> {
    WorkerClient::of(&meta.socket, &about(meta), ROUND)
}

/// Frames are taken in their order: whoever answers a probe has obeyed, or refused, what came before it.
fn obeyed(worker: &mut WorkerClient) -> Result<(), WorkerError> {
    worker.probe(ROUND)?;
    match worker.buffered()? {
        Some(FromWorker::Refused(refusal)) => Err(WorkerError::Refused(refusal)),
        _ => Ok(()),
    }
}

fn refusal(name: &netsky_model::id::AgentId, error: &WorkerError) -> Refusal {
    let kind = match error {
        WorkerError::Refused(refused) => match refused.kind {
            frame::RefusalKind::Full | frame::RefusalKind::Busy => RefusalKind::Busy,
            frame::RefusalKind::BadSignal => RefusalKind::BadParams,
            _ => RefusalKind::Refused,
        },
        WorkerError::Silent(_) | WorkerError::Connect { .. } | WorkerError::Closed => RefusalKind::Busy,
        WorkerError::Protocol(_) | WorkerError::Io(_) => RefusalKind::Internal,
    };
    Refusal::new(kind, format!("{name}: {error}"))
}
