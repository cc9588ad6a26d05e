//! `client/subscribe`: rows of the journal on a connection.
//!
//! Promise: a subscriber has a place in the journal, not a queue: it costs its connection alone while it does not read, and that for a
//! while. One that falls
//! more than [`LAG`](crate::rpc::subscribe::LAG) rows behind gets one `gap {from, to}` and goes on with what is at hand; it
//! reads the rest by `since`. Whoever follows a session follows its lineage, whatever name that had or gets. A replay asked
//! for by `since` has no gap, however long it is, but for rows that are not there any more. No row comes twice, and none is
//! passed over without a gap that names it.

use netsky_model::id::{AgentId, LineageId};

use super::state::Anchor;
use crate::log::say;
use crate::rpc::{Event, EventKind, Notification, event_data};

/// A subscriber's place.
pub(super) struct Subscription {
    of: Option<Followed>,
    /// The last row it has.
    at: u64,
    /// It has had every row that was there when it was last asked.
    following: bool,
}

/// Whose rows they are.
pub(super) struct Followed {
    pub(super) session: AgentId,
    /// None: nobody had the name yet.
    pub(super) lineage: Option<LineageId>,
}

impl Followed {
    fn is_of(&self, event: &Event) -> bool {
        match (&self.lineage, &event.lineage) {
            (Some(ours), Some(its)) => ours == its,
            _ => event.session.as_ref() == Some(&self.session),
        }
    }
}

impl Subscription {
    pub(super) fn new(since: Option<u64>, of: Option<Followed>, head: u64) -> Subscription {
        let at = since.map_or(head, |since| since.min(head));
        Subscription { following: at == head, at, of }
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
        if rows.is_empty() {
            // Rows that cannot be read are a gap like any other.
            let from = std::mem::replace(&mut self.at, head) + 1;
            return Some(line(&gap(anchor, from, head)));
        }
        Some(rows.iter().flat_map(|event| self.push(anchor, event)).collect())
    }

    /// The lines of one row: itself, and before it the gap that is between it and the last one.
    fn push(&mut self, anchor: &Anchor, event: &Event) -> Vec<u8> {
        // A row out of its order is nobody's next one.
        if event.seq <= self.at {
            return Vec::new();
        }
        let from = std::mem::replace(&mut self.at, event.seq) + 1;
        let mut lines = if event.seq > from { line(&gap(anchor, from, event.seq - 1)) } else { Vec::new() };
        if self.of.as_ref().is_none_or(|of| of.is_of(event)) {
            lines.extend(line(event));
        }
        lines
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
        data: serde_json::to_value(event_data::Gap { from, to }).unwrap_or_default(),
    }
}

fn line(event: &Event) -> Vec<u8> {
    let params = serde_json::to_value(event).unwrap_or_default();
    let mut bytes =
        serde_json::to_vec(&Notification { method: "event".to_owned(), params }).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::anchor::stage::write;
    use crate::rpc::subscribe::LAG;

    /// Every event that is due, by kind and number.
    fn take(anchor: &Anchor, subscription: &mut Subscription) -> Vec<(String, u64)> {
        let mut taken = Vec::new();
        while let Some(bytes) = subscription.due(anchor) {
            for line in bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
                let event: Value = serde_json::from_slice(line).expect("one event a line");
                let params = &event["params"];
                taken.push((
                    params["kind"].as_str().expect("a kind").to_owned(),
                    params["seq"].as_u64().expect("a seq"),
                ));
            }
        }
        taken
    }

    #[test]
    fn a_subscriber_that_lags_past_its_bound_gets_one_gap_and_the_rest_and_since_fills_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let claim = crate::anchor::root::claim(&folder.path().join("root")).expect("a fresh root");
        let anchor = Anchor::new(claim);
        write(&anchor, 3);
        let mut live = Subscription::new(None, None, 3);
        assert_eq!(take(&anchor, &mut live), []);
        write(&anchor, 2);
        assert_eq!(take(&anchor, &mut live).iter().map(|(_, seq)| *seq).collect::<Vec<_>>(), [4, 5]);

        write(&anchor, LAG + 10);
        let taken = take(&anchor, &mut live);
        assert_eq!(taken[0], ("gap".to_owned(), 15), "rows 6..=15 were not pushed");
        assert!(taken[1..].iter().all(|(kind, _)| kind == "adopted"));
        let seen: Vec<u64> = taken[1..].iter().map(|(_, seq)| *seq).collect();
        assert_eq!(seen, (16..=LAG as u64 + 15).collect::<Vec<_>>());

        let mut replay = Subscription::new(Some(5), None, LAG as u64 + 15);
        let taken = take(&anchor, &mut replay);
        assert!(taken.iter().all(|(kind, _)| kind == "adopted"), "a replay has no gap");
        assert_eq!(taken.len(), LAG + 10);
    }

    #[test]
    fn a_row_that_is_gone_is_a_gap_also_in_a_replay_and_none_comes_twice() {
        let folder = tempfile::tempdir().expect("a folder");
        let claim = crate::anchor::root::claim(&folder.path().join("root")).expect("a fresh root");
        let anchor = Anchor::new(claim);
        write(&anchor, 6);
        let rows = anchor.journal(|journal| journal.after(0)).expect("reads");
        let mut replay = Subscription::new(Some(0), None, 6);
        let mut pushed = |n: usize| String::from_utf8(replay.push(&anchor, &rows[n - 1])).expect("text");
        assert_eq!(pushed(1).lines().count(), 1);
        let told = pushed(4);
        assert!(told.contains(r#"{"from":2,"to":3}"#) && told.lines().count() == 2, "{told}");
        assert_eq!((pushed(4), pushed(2)), (String::new(), String::new()));
        assert_eq!(pushed(5).lines().count(), 1);
    }
}
