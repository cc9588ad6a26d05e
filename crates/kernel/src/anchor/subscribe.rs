//! `client/subscribe`: rows of the journal on a connection.
//!
//! Promise: a subscriber has a place in the journal, not a queue: it costs nothing while it does not read. One that falls
//! more than [`LAG`](crate::rpc::subscribe::LAG) rows behind gets one `gap {from, to}` and goes on with what is at hand; it
//! reads the rest by `since`. A replay asked for by `since` has no gap, however long it is.

use serde_json::json;

use super::state::Anchor;
use crate::log::say;
use crate::rpc::subscribe::Params;
use crate::rpc::{Event, EventKind, Notification};

/// A subscriber's place.
pub(super) struct Subscription {
    params: Params,
    /// The last row it has.
    at: u64,
    /// It has had every row that was there when it was last asked.
    following: bool,
}

impl Subscription {
    pub(super) fn new(params: Params, head: u64) -> Subscription {
        let at = params.since.map_or(head, |since| since.min(head));
        Subscription { following: at == head, at, params }
    }

    /// Lines to write now; none when it has everything.
    pub(super) fn due(&mut self, anchor: &Anchor) -> Option<Vec<u8>> {
        let (head, oldest) = anchor.journal(|journal| (journal.head(), journal.oldest_recent()));
        if self.at >= head {
            self.following = true;
            return None;
        }
        if self.following && oldest > self.at + 1 {
            let (from, to) = (self.at + 1, oldest - 1);
            self.at = to;
            return Some(line(&gap(anchor, from, to)));
        }
        let rows = match anchor.journal(|journal| journal.after(self.at)) {
            Ok(rows) => rows,
            Err(error) => {
                say!("{error}");
                Vec::new()
            }
        };
        let Some(last) = rows.last() else {
            // Rows that cannot be read are a gap like any other.
            let from = std::mem::replace(&mut self.at, head) + 1;
            return Some(line(&gap(anchor, from, head)));
        };
        self.at = last.seq;
        let wanted = rows.iter().filter(|event| match &self.params.session {
            Some(session) => event.session.as_ref() == Some(session),
            None => true,
        });
        Some(wanted.flat_map(|event| line(event)).collect())
    }
}

fn gap(anchor: &Anchor, from: u64, to: u64) -> Event {
    Event {
        seq: to,
        ts: netsky_disk::clock::wall(),
        epoch: anchor.epoch,
        kind: EventKind::Gap,
        session: None,
        lineage: None,
        generation: None,
        data: json!({"from": from, "to": to}),
    }
}

fn line(event: &Event) -> Vec<u8> {
    let params = serde_json::to_value(event).unwrap_or_default();
    let mut bytes =
        serde_json::to_vec(&Notification { method: "event".to_owned(), params }).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}
