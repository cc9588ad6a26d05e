//! Taking over what workers wrote down.
//!
//! Promise: each row of `agents/<name>.events.jsonl` reaches the journal once, by `(worker, n)`, no matter how many anchors
//! came and went; a row that does not read is skipped and said so.

use netsky_disk::lines;
use netsky_model::id::AgentId;
use serde_json::{Value, json};

use super::state::Anchor;
use crate::journal::About;
use crate::rpc::EventKind;
use crate::session::{End, Seen, VERSION, WorkerEvent};

/// Folds every row of a session's workers that the journal does not have yet.
pub(super) fn catch_up(anchor: &Anchor, name: &AgentId) {
    let path = anchor.layout.events(name);
    let lines = match lines::read(&path) {
        Ok(lines) => lines,
        Err(error) => return damaged(anchor, name, &error.to_string()),
    };
    let mut rows: Vec<WorkerEvent> = Vec::with_capacity(lines.len());
    let mut unread = 0;
    for line in &lines {
        match serde_json::from_slice::<WorkerEvent>(line) {
            Ok(row) if row.v <= VERSION => rows.push(row),
            _ => unread += 1,
        }
    }
    let folded = anchor.recall(|recall| recall.session(name).and_then(|known| known.folded.clone()));
    // Rows stand in the order of time, so everything up to the last folded one is in the journal. If that row is gone, the
    // file was begun anew after it, and all of it is new.
    let new = match &folded {
        Some((worker, n)) => {
            rows.iter().rposition(|row| row.worker == *worker && row.n == *n).map_or(0, |at| at + 1)
        }
        None => 0,
    };
    for row in rows.drain(new..) {
        take(anchor, name, row);
    }
    if unread > 0 && folded.is_none() {
        damaged(anchor, name, &format!("{unread} rows do not read"));
    }
}

fn take(anchor: &Anchor, name: &AgentId, row: WorkerEvent) {
    let kind = match &row.what {
        Seen::Started { .. } => EventKind::Started,
        Seen::KillAsked { .. } => EventKind::KillAsked,
        Seen::Exited { how: End::FailedToStart { .. }, .. } => EventKind::Failed,
        Seen::Exited { .. } => EventKind::Exited,
    };
    let mut data = json!({"worker": row.worker, "n": row.n, "at": row.ts});
    let told = serde_json::to_value(&row.what).unwrap_or_default();
    if let (Value::Object(data), Some(Value::Object(told))) = (&mut data, told.get("data")) {
        data.extend(told.clone());
    }
    let about = About { session: name.clone(), lineage: row.lineage, generation: row.generation };
    anchor.observe(kind, Some(about), data);
}

fn damaged(anchor: &Anchor, name: &AgentId, why: &str) {
    anchor.damaged(format!("agents/{name}.events.jsonl"), why);
}
