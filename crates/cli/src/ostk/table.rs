//! Sessions as a table for people and as JSON for programs.

use netsky_disk::clock;
use netsky_kernel::rpc::SessionView;
use netsky_model::duration;
use netsky_model::lifecycle::LifecycleState;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::Error;
use crate::output;

/// Prints sessions under their plural key, or one a row.
pub(super) fn sessions(cx: &Context, sessions: &[SessionView]) -> Result<(), Error> {
    if cx.json {
        return output::json(&json!({ "sessions": values(sessions)? }));
    }
    let headers = ["name", "state", "pid", "generation", "runtime", "age", "turn", "context", "note"];
    output::table(&headers, sessions.iter().map(as_row).collect(), "no sessions")
}

/// Sessions for programs.
pub(super) fn values(sessions: &[SessionView]) -> Result<Vec<Value>, Error> {
    sessions.iter().map(as_value).collect()
}

/// Prints one session whole.
pub(super) fn session(cx: &Context, session: &SessionView, sentence: &str) -> Result<(), Error> {
    if cx.json { output::json(&as_value(session)?) } else { output::say(sentence) }
}

/// As the kernel tells it, with its identity under `id` as for every other object.
fn as_value(session: &SessionView) -> Result<Value, Error> {
    let mut value = serde_json::to_value(session)
        .map_err(|e| Error::new(crate::error::Kind::Failed, format!("failed to show a session: {e}")))?;
    value["id"] = session.name.as_str().into();
    Ok(value)
}

/// What a person should know: how it ended, or what its context lets in.
fn note(session: &SessionView) -> String {
    let progress = &session.progress;
    let ended = session.end.as_ref().map(ToString::to_string);
    let aging = (progress.lifecycle != LifecycleState::Healthy).then(|| progress.lifecycle.to_string());
    let unknown =
        (progress.unknown > 0).then(|| format!("{} tool calls with unknown outcome", progress.unknown));
    let phase = progress.phase.clone().filter(|_| session.state.may_live());
    [ended, aging, unknown, phase].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn as_row(session: &SessionView) -> Vec<String> {
    let since = session.ended_at.as_ref().or(session.started_at.as_ref());
    vec![
        session.name.to_string(),
        session.state.to_string(),
        session.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        session.generation.to_string(),
        session.runtime.clone(),
        since.map_or_else(|| "-".to_owned(), |since| duration::human(clock::stamp().since(since))),
        session.progress.turn.to_string(),
        session.progress.context_pct.map_or_else(|| "-".to_owned(), |used| used.to_string()),
        note(session),
    ]
}
