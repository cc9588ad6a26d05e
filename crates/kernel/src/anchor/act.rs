//! `session/input`, `prompt`, `resize` and `signal`: what somebody does to a program, through its worker.
//!
//! Promise: answered once the worker has taken it whole. A worker whose program does not read says `busy`; nothing waits here.
//! A prompt is let in as the lifecycle of its generation says; of finalization prompts at most one ever.

use std::rc::Rc;
use std::time::Duration;

use netsky_model::lifecycle::{LifecycleState, Prompt};

use super::report;
use super::state::{Anchor, internal, not_found};
use super::table::Life;
use crate::drain::Report;
use crate::frame::{self, FromWorker};
use crate::output_log::LogReader;
use crate::paste;
use crate::rpc::{Guard, Refusal, RefusalKind, SessionView, input, prompt, resize, signal};
use crate::session::{Io, Meta};
use crate::worker_client::{WorkerClient, WorkerError};

/// How long a worker may take to greet, and to say that it took what came: its loop comes round in milliseconds.
const ROUND: Duration = Duration::from_secs(2);

pub(super) async fn input(anchor: &Rc<Anchor>, params: input::Params) -> Result<SessionView, Refusal> {
    let input::Params { session, text, epoch, guard } = params;
    let meta = living(anchor, &session, &guard)?;
    act(anchor, meta, move |worker, _| worker.input(epoch, text.as_bytes())).await
}

pub(super) async fn resize(anchor: &Rc<Anchor>, params: resize::Params) -> Result<SessionView, Refusal> {
    let resize::Params { session, rows, cols, guard } = params;
    if rows == 0 || cols == 0 {
        return Err(Refusal::new(RefusalKind::BadParams, "a terminal has at least one line and one column"));
    }
    let meta = living(anchor, &session, &guard)?;
    act(anchor, meta, move |worker, _| worker.resize(rows, cols)).await
}

pub(super) async fn signal(anchor: &Rc<Anchor>, params: signal::Params) -> Result<SessionView, Refusal> {
    let signal::Params { session, signal, guard } = params;
    let meta = living(anchor, &session, &guard)?;
    act(anchor, meta, move |worker, _| worker.signal(signal)).await
}

pub(super) async fn prompt(anchor: &Rc<Anchor>, params: prompt::Params) -> Result<SessionView, Refusal> {
    let prompt::Params { session, text, finalization, epoch, guard } = params;
    if text.len() > prompt::MAX_TEXT {
        let message = format!("a prompt of {} bytes; the limit is {}", text.len(), prompt::MAX_TEXT);
        return Err(Refusal::new(RefusalKind::TooLarge, message));
    }
    let meta = living(anchor, &session, &guard)?;
    let lifecycle = anchor.view(&session)?.progress.lifecycle;
    let kind = if finalization { Prompt::Finalization } else { Prompt::Ordinary };
    if !lifecycle.admits(kind) || (finalization && lifecycle != LifecycleState::Dying) {
        return Err(Refusal::new(RefusalKind::Refused, fenced(&meta, lifecycle, finalization)));
    }
    if finalization {
        // Before it is typed: a second one is never let in, whoever dies meanwhile.
        let guard = Guard::if_generation(meta.generation);
        report::report(anchor, &crate::rpc::report::Params { session, report: Report::Finalization, guard })?;
    }
    let log = anchor.layout.out(&meta.spec.name);
    act(anchor, meta, move |worker, meta| {
        let bytes = match meta.spec.io {
            Io::Pipes => paste::piped(&text),
            Io::Pty { .. } => {
                let bracketed = LogReader::open(&log).and_then(|log| paste::is_bracketed(&log));
                // Output that does not read tells of no mode: the text is typed as by hand.
                paste::typed(&text, bracketed.unwrap_or(false))
            }
        };
        worker.input_whole(epoch, bytes.as_bytes())
    })
    .await
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

/// The description of a session that lives, if it is the generation that was meant.
fn living(anchor: &Anchor, session: &netsky_model::id::AgentId, guard: &Guard) -> Result<Meta, Refusal> {
    let found = anchor.entry(session, |entry| (entry.life, entry.meta.clone()));
    let (life, meta) = found.ok_or_else(|| not_found(session))?;
    if let Some(said) = guard.if_generation
        && said != meta.generation
    {
        let message = format!("{session} is at generation {}, not {said}", meta.generation);
        return Err(Refusal::new(RefusalKind::StaleGeneration, message));
    }
    match life {
        Life::Live => Ok(meta),
        Life::Starting => Err(Refusal::new(RefusalKind::Busy, format!("{session} is starting"))),
        Life::Ending | Life::Gone => {
            Err(Refusal::new(RefusalKind::Refused, format!("{session} does not run; nothing was typed")))
        }
        Life::Foreign => {
            Err(Refusal::new(RefusalKind::Refused, format!("{session} cannot be reached from here")))
        }
    }
}

/// Does it and waits until the worker has said that it was taken.
async fn act(
    anchor: &Rc<Anchor>,
    meta: Meta,
    what: impl FnOnce(&mut WorkerClient, &Meta) -> Result<(), WorkerError> + Send + 'static,
) -> Result<SessionView, Refusal> {
    let name = meta.spec.name.clone();
    let doing = tokio::task::spawn_blocking(move || {
        let mut worker = WorkerClient::connect_within(&meta.socket, ROUND)?;
        if worker.hello().generation != meta.generation || worker.hello().lineage != meta.lineage {
            return Err(WorkerError::Closed);
        }
        what(&mut worker, &meta)?;
        // Frames are taken in their order: whoever answers this has obeyed, or refused, what came before it.
        worker.probe(ROUND)?;
        match worker.buffered()? {
            Some(FromWorker::Refused(refusal)) => Err(WorkerError::Refused(refusal)),
            _ => Ok(()),
        }
    });
    match doing.await.map_err(internal)? {
        Ok(()) => anchor.view(&name),
        Err(error) => Err(refusal(&name, &error)),
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
