//! `netsky loop`: delayed and repeated prompts.

use std::time::Duration;

use netsky_model::stamp::Stamp;
use netsky_schedule::interval;
use netsky_schedule::loops::{Loop, LoopId, Standing, Store};
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

/// What is asked for by who makes or changes one.
const A_LOOP: &str = "a loop";

/// An interval as a user types it.
fn spaced(text: &str) -> Result<Duration, String> {
    interval::parse(text).map_err(|error| error.to_string())
}

fn id(text: &str) -> Result<LoopId, String> {
    text.parse().map_err(|error: netsky_schedule::loops::BadLoopId| error.to_string())
}

/// Changes a loop, alone; `change` refuses what it will not have.
fn change(
    cx: &Context,
    id: LoopId,
    change: impl FnOnce(&mut Loop, &Stamp) -> Result<(), Error>,
) -> Result<Loop, Error> {
    let mut store = Store::open(cx.home()?)?;
    let mut entry = store.get(id)?;
    cx.may_schedule(A_LOOP, &entry.agent)?;
    let was_over = entry.standing() == Standing::Expired;
    change(&mut entry, &store.now().clone())?;
    fits(&entry)?;
    if !was_over {
        comes(&entry)?;
    }
    cx.may_schedule(A_LOOP, &entry.agent)?;
    store.save(&entry)?;
    close(store);
    Ok(entry)
}

/// Refuses what would not be read again.
fn fits(entry: &Loop) -> Result<(), Error> {
    entry.unfit().map_or(Ok(()), |flaw| Err(usage(flaw)))
}

/// Refuses a loop of which nobody would be told.
fn comes(entry: &Loop) -> Result<(), Error> {
    match entry.expires_utc.filter(|_| entry.standing() == Standing::Expired) {
        Some(expires) => {
            Err(usage(format!("it expires at {expires}, before it fires for {}", entry.next_fire_utc)))
        }
        None => Ok(()),
    }
}

fn close(store: Store) {
    // What was changed is durable; without its seal the next look is at each file.
    let _ = store.close();
}

fn usage(what: impl Into<String>) -> Error {
    Error::new(Kind::Usage, what).hint("nothing was changed")
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
