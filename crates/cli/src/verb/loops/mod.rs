//! `netsky loop`: delayed and repeated prompts.

use std::time::Duration;

use netsky_model::id::AgentId;
use netsky_schedule::interval;
use netsky_schedule::loops::{Loop, LoopId};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::verbs;

mod create;
mod delete;
mod edit;
mod list;
mod pause;
mod reschedule;
mod show;
mod tick;

verbs! {
    /// Prompts that come later, or again and again
    Verb {
        Create(create::Args),
        List(list::Args),
        Show(show::Args),
        Reschedule(reschedule::Args),
        Pause(pause::Pause),
        Resume(pause::Resume),
        Edit(edit::Args),
        Delete(delete::Args),
        Tick(tick::Args),
    }
}

/// An interval as a user types it.
fn spaced(text: &str) -> Result<Duration, String> {
    interval::parse(text).map_err(|error| error.to_string())
}

fn id(text: &str) -> Result<LoopId, String> {
    text.parse().map_err(|error: netsky_schedule::loops::BadLoopId| error.to_string())
}

/// Refuses an agent that has no mailbox: a loop for nobody would fail at each of its times.
fn known(cx: &Context, agent: &AgentId) -> Result<(), Error> {
    if cx.constellation()?.bus.knows(agent) {
        return Ok(());
    }
    let what = format!("{agent} has no mailbox here");
    Err(Error::new(Kind::NotFound, what).hint("`netsky agent N` starts one; nothing was changed"))
}

/// A loop as an object: its file, and how it stands.
fn object(entry: &Loop) -> Value {
    let mut value = serde_json::to_value(entry).unwrap_or_default();
    value["standing"] = entry.standing().word().into();
    value
}

/// Says what a loop is now.
fn tell(cx: &Context, entry: &Loop, what: &str) -> Result<(), Error> {
    match cx.json {
        true => output::json(&json!(object(entry))),
        false => output::say(&format!("{} {what}", entry.id)),
    }
}
