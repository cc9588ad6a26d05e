//! Following the journal over the deaths of anchors.

use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_disk::clock;
use netsky_model::id::AgentId;
use serde::Deserialize;

use super::{Client, ClientError, Events};
use crate::rpc::{Event, EventKind, event_data};

/// How often one who follows looks whether another anchor serves.
const RECONNECT: Duration = Duration::from_millis(50);

/// Rows of the journal behind one that the caller has: every row once, in its order, whichever anchor tells it.
///
/// It starts no anchor: while none serves, or the one that does has no slot for it, it waits.
#[derive(Debug)]
pub struct Follow {
    root: PathBuf,
    session: Option<AgentId>,
    /// The last row that was handed out.
    last: u64,
    events: Option<Events>,
    /// The begin of a gap that was asked for again.
    missed: Option<u64>,
}

impl Follow {
    /// Every row behind `since`.
    pub fn all(root: &Path, since: u64) -> Follow {
        Follow { root: root.to_owned(), session: None, last: since, events: None, missed: None }
    }

    /// Those of one session.
    pub fn of(root: &Path, session: &AgentId, since: u64) -> Follow {
        Follow { session: Some(session.clone()), ..Follow::all(root, since) }
    }

    /// The next row, or `None` when `wait` passed without one (absent: waits without end).
    ///
    /// An [`EventKind::Gap`] is of rows that are not there any more: those that were only not pushed are asked for again.
    ///
    /// # Errors
    /// `bad-params` when the journal has not reached the row that the caller has; `not-found` for a session that nobody
    /// knows; whatever else keeps this program from every anchor of the root.
    pub fn next(&mut self, wait: Option<Duration>) -> Result<Option<Event>, ClientError> {
        let deadline = wait.map(|wait| clock::boot() + wait);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_sub(clock::boot()));
            let told = match self.events() {
                Ok(events) => events.next(left),
                Err(error) => Err(error),
            };
            match told {
                Ok(None) => return Ok(None),
                Ok(Some(event)) => {
                    if let Some(event) = self.take(event) {
                        return Ok(Some(event));
                    }
                }
                Err(error) if error.passes() => {
                    self.events = None;
                    if left.is_some_and(|left| left.is_zero()) {
                        return Ok(None);
                    }
                    clock::pause(left.unwrap_or(RECONNECT).min(RECONNECT));
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// What is handed out of what came.
    fn take(&mut self, event: Event) -> Option<Event> {
        if event.kind != EventKind::Gap {
            // From an anchor that was asked before: it is known.
            let new = event.seq > self.last;
            self.last = self.last.max(event.seq);
            if let (Some(session), Some(to)) = (&mut self.session, event.renamed_to()) {
                *session = to;
            }
            return new.then_some(event);
        }
        let from = event_data::Gap::deserialize(&event.data).map_or(event.seq, |gap| gap.from);
        if self.missed.replace(from) != Some(from) {
            // Not pushed, which is not yet gone.
            self.events = None;
            return None;
        }
        self.last = event.seq;
        Some(event)
    }

    fn events(&mut self) -> Result<&mut Events, ClientError> {
        let events = match (self.events.take(), &self.session) {
            (Some(events), _) => events,
            (None, None) => Client::connect(&self.root)?.subscribe(Some(self.last))?,
            (None, Some(session)) => Client::connect(&self.root)?.attach(session, Some(self.last))?,
        };
        Ok(self.events.insert(events))
    }
}

#[cfg(test)]
mod tests {
    use netsky_model::id::LineageId;

    use super::*;

    fn event(seq: u64, kind: EventKind, data: serde_json::Value) -> Event {
        let (session, lineage, generation) = (None, None::<LineageId>, None);
        Event { seq, ts: jiff::Timestamp::UNIX_EPOCH, epoch: 1, kind, session, lineage, generation, data }
    }

    #[test]
    fn rows_that_were_not_pushed_are_asked_for_again_and_those_that_are_gone_are_told() {
        let gap = |from: u64, to: u64| event(to, EventKind::Gap, serde_json::json!({"from": from, "to": to}));
        let row = |seq: u64| event(seq, EventKind::Reaped, serde_json::json!({}));
        let mut rows = Follow::all(Path::new("/nowhere"), 3);
        assert_eq!(rows.take(row(3)), None, "it is known");
        assert_eq!(rows.take(row(4)), Some(row(4)));
        assert_eq!((rows.take(gap(5, 9)), rows.last), (None, 4), "asked for again");
        assert_eq!(rows.take(row(5)), Some(row(5)));
        assert_eq!((rows.take(gap(6, 7)), rows.last), (None, 5));
        assert_eq!((rows.take(gap(6, 7)), rows.last), (Some(gap(6, 7)), 7), "they are gone");
        assert_eq!(rows.take(row(8)), Some(row(8)));
    }
}
