//! Taking over what workers wrote down.
//!
//! Promise: each row of `agents/<name>.events.jsonl` reaches the journal once, by `(worker, n)`, no matter how many anchors
//! came and went; a row that does not read is skipped and said so.

use netsky_disk::lines;
use netsky_model::id::AgentId;

use super::state::Anchor;
use crate::journal::About;
use crate::rpc::{EventKind, event_data};
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
    let WorkerEvent { n, ts: at, worker, lineage, generation, what, .. } = row;
    let about = Some(About { session: name.clone(), lineage, generation });
    match what {
        Seen::Started { program } => {
            anchor.observe(EventKind::Started, about, event_data::Started { worker, n, at, program });
        }
        Seen::KillAsked { grace_ms } => {
            anchor.observe(EventKind::KillAsked, about, event_data::KillAsked { worker, n, at, grace_ms });
        }
        // Told from the description, while this could not be read.
        Seen::Exited { .. } if about.as_ref().is_some_and(|about| is_told(anchor, about)) => {}
        Seen::Exited { how, swept, left, unseen } => {
            let never_ran = matches!(how, End::FailedToStart { .. });
            let kind = if never_ran { EventKind::Failed } else { EventKind::Exited };
            let (worker, n, at) = (Some(worker), Some(n), Some(at));
            let ended = event_data::Ended { worker, n, at, ..event_data::Ended::by(how) };
            anchor.observe(kind, about, event_data::Ended { swept: Some(swept), left, unseen, ..ended });
        }
    }
}

/// Whether the end of a generation is in the journal; it is before the next one has a row.
fn is_told(anchor: &Anchor, about: &About) -> bool {
    anchor.recall(|recall| {
        recall.session(&about.session).is_some_and(|known| {
            known.lineage == about.lineage
                && (known.generation > about.generation
                    || known.generation == about.generation && known.ended)
        })
    })
}

fn damaged(anchor: &Anchor, name: &AgentId, why: &str) {
    anchor.damaged(format!("agents/{name}.events.jsonl"), why);
}
