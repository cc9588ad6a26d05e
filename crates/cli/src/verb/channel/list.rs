//! `netsky channel list`: every message of an agent and how far its life got.

use std::num::NonZeroUsize;

use netsky_bus::{Bus, Entry};
use netsky_disk::{clock, process};
use netsky_model::duration;
use netsky_model::id::AgentId;
use netsky_model::life::{STATES, State};
use netsky_model::name::Stage;
use netsky_model::process::Life;
use netsky_model::witness::Nobody;
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Most rows of one answer unless more are asked for: a screen of history; what is left out is counted.
pub(crate) const MAX_ROWS: NonZeroUsize = NonZeroUsize::new(1_000).expect("it is not 0");

/// List the messages of an agent
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose messages
    #[arg(value_parser = super::agent)]
    agent: AgentId,
    /// Only those that are written, claimed, delivered, acked, forwarded or poisoned
    #[arg(long, value_parser = state)]
    state: Option<State>,
    /// At most this many, the oldest of the finished ones left out first
    #[arg(long, value_name = "N", default_value_t = MAX_ROWS)]
    limit: NonZeroUsize,
}

/// A state by its word or by its folder.
fn state(text: &str) -> Result<State, String> {
    let known = STATES.into_iter().find(|state| state.word() == text || state.folder() == text);
    known.ok_or_else(|| "the states are written, claimed, delivered, acked, forwarded, poisoned".to_owned())
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let bus = Bus::open(cx.home()?, &Nobody);
        let listing = bus.listing(&self.agent, self.state, self.limit.get())?;
        if cx.json {
            let mut answer = output::Envelopes::printed();
            listing.entries().for_each(|entry| answer.row(&as_value(&entry)));
            return answer.end(listing.left_out());
        }
        let rows = listing.entries().map(|entry| as_row(&entry)).collect();
        let headers = ["state", "id", "from", "kind", "attempt", "ts", "age", "note"];
        output::table(&headers, rows, &format!("{} has no messages", self.agent))?;
        say_left_out(listing.left_out())
    }
}

/// How many rows were not shown, if any.
pub(crate) fn say_left_out(left_out: usize) -> Result<(), Error> {
    match left_out {
        0 => Ok(()),
        _ => output::say(&format!("{left_out} older ones are not shown")),
    }
}

fn as_row(entry: &Entry) -> Vec<String> {
    let envelope = entry.envelope.as_ref();
    let dash = || "-".to_owned();
    let age = envelope.map(|envelope| {
        let millis = clock::wall().as_millisecond() - envelope.ts.as_millisecond();
        // A message from a clock ahead of ours is new, not from the future.
        duration::human(std::time::Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
    });
    vec![
        entry.state.to_string(),
        entry.name.as_ref().map_or_else(|| entry.file.clone(), |name| name.key.id.to_string()),
        envelope.map_or_else(dash, |envelope| envelope.from.to_string()),
        envelope.and_then(|envelope| envelope.kind.clone()).unwrap_or_else(dash),
        entry.name.as_ref().map_or_else(dash, |name| name.attempt.to_string()),
        envelope.map_or_else(dash, |envelope| format!("{:.0}", envelope.ts)),
        age.unwrap_or_else(dash),
        note(entry),
    ]
}

fn note(entry: &Entry) -> String {
    if let Some(problem) = &entry.problem {
        return problem.clone();
    }
    match entry.name.as_ref().map(|name| &name.stage) {
        Some(Stage::Claimed(owner)) if process::probe(owner) == Life::Dead => {
            format!("was held by process {}, which has ended", owner.pid)
        }
        Some(Stage::Claimed(owner)) => format!("held by process {}", owner.pid),
        Some(Stage::Taken(generation)) if generation.0 > 0 => format!("taken by generation {generation}"),
        _ => String::new(),
    }
}

/// What the file's name, its content and its reason say; absent keys are left out.
pub(crate) fn as_value(entry: &Entry) -> Value {
    let mut value = match entry.envelope.as_ref().map(serde_json::to_value) {
        Some(Ok(Value::Object(mut fields))) => {
            // Anybody can write the word into a file.
            fields.insert("verified".to_owned(), entry.vouched.into());
            fields
        }
        _ => Map::new(),
    };
    value.insert("state".to_owned(), entry.state.word().into());
    value.insert("file".to_owned(), entry.file.as_str().into());
    if let Some(name) = &entry.name {
        value.insert("id".to_owned(), name.key.id.as_str().into());
        value.insert("hlc".to_owned(), name.key.hlc.to_string().into());
        value.insert("attempt".to_owned(), name.attempt.into());
        match &name.stage {
            Stage::Claimed(owner) => drop(value.insert("owner".to_owned(), json!(owner))),
            Stage::Taken(generation) => drop(value.insert("generation".to_owned(), generation.0.into())),
            Stage::Waiting => {}
        }
    }
    if let Some(problem) = &entry.problem {
        value.insert("reason".to_owned(), problem.as_str().into());
    }
    Value::Object(value)
}
