//! `ostk journal`: what the anchors of a root did and saw; needs none of them.

use jiff::Timestamp;
use netsky_disk::layout::KernelLayout;
use netsky_kernel::rpc::Event;
use serde_json::{Map, Value};

use crate::error::{Error, Kind};
use crate::run::verbs;
use tail::Rows;

mod sessions;
mod tail;
mod verify;

verbs! {
    /// Read the journal, and see whether anybody touched it
    Verb {
        Tail(tail::Args),
        Verify(verify::Args),
        Sessions(sessions::Args),
    }
}

/// From where on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Since {
    /// Behind the row of that number.
    Seq(u64),
    /// At that instant or later.
    Time(Timestamp),
}

/// Reads what `--since` takes.
pub(super) fn since(text: &str) -> Result<Since, String> {
    let seq = text.parse().map(Since::Seq).ok();
    let read = seq.or_else(|| text.parse().map(Since::Time).ok());
    read.ok_or_else(|| "neither a row's number nor an instant like 2026-04-19T19:25:00Z".to_owned())
}

impl Since {
    /// Whether a row is behind it.
    pub(super) fn is_before(self, event: &Event) -> bool {
        match self {
            Since::Seq(seq) => event.seq > seq,
            Since::Time(time) => event.ts >= time,
        }
    }
}

/// The rows of a root's journal, from the file on that has those which are asked for.
pub(super) fn rows(layout: &KernelLayout, since: Option<Since>) -> Result<Rows, Error> {
    let behind = if let Some(Since::Seq(seq)) = since { seq } else { 0 };
    Rows::behind(layout, behind)
}

/// A row for people: number, time, kind, whose, and what else is known of it.
pub(super) fn line(event: &Event) -> Result<String, Error> {
    let value = serde_json::to_value(event)
        .map_err(|e| Error::new(Kind::Failed, format!("failed to show a row: {e}")))?;
    let kind = value["kind"].as_str().unwrap_or_default().to_owned();
    let whose = match (&event.session, event.generation) {
        (Some(session), Some(generation)) => format!(" {session}.g{generation}"),
        _ => String::new(),
    };
    let data = match &event.data {
        Value::Object(data) if data.is_empty() => String::new(),
        Value::Null => String::new(),
        data => format!(" {}", brief(data)),
    };
    Ok(format!("{} {:.0} {kind}{whose}{data}", event.seq, event.ts))
}

/// Without the long identities of processes, which the JSON has.
fn brief(data: &Value) -> Value {
    let Value::Object(fields) = data else { return data.clone() };
    let short = fields.iter().map(|(key, value)| {
        let value = match value.get("pid") {
            Some(pid) if value.get("start_time").is_some() => pid.clone(),
            _ => value.clone(),
        };
        (key.clone(), value)
    });
    Value::Object(short.filter(|(key, _)| key != "at").collect::<Map<_, _>>())
}
