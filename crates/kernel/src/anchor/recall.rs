//! What the rows of the journal mean to an anchor.
//!
//! Promise: a row goes through [`Recall::fold`] once, whether it was just written or is read by a successor, so both know
//! the same.

use std::collections::{BTreeMap, HashMap, VecDeque};

use netsky_model::id::{AgentId, Generation, LineageId};
use netsky_model::process::ProcessId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::About;
use crate::rpc::{ANSWERS, Event, EventKind, Refusal, SessionState, event_data};
use crate::session::End;

/// What the rows so far say.
#[derive(Debug, Default)]
pub(super) struct Recall {
    epoch: u64,
    sessions: BTreeMap<AgentId, Remembered>,
    renamed: BTreeMap<LineageId, Renamed>,
    answers: HashMap<String, Answered>,
    order: VecDeque<String>,
}

/// What the rows say about the newest generation of one session.
#[derive(Debug, Clone)]
pub(super) struct Remembered {
    pub(super) lineage: LineageId,
    pub(super) generation: Generation,
    /// The call that reserved the generation.
    pub(super) request_id: Option<String>,
    /// Its program was seen running.
    pub(super) started: bool,
    /// Its end is in the journal.
    pub(super) ended: bool,
    /// Somebody wanted it down: it is not revived.
    pub(super) kill_asked: bool,
    /// Its context is dead, and the next generation takes over from it.
    pub(super) succeeded: bool,
    /// What the rows make of it, in a word.
    pub(super) state: SessionState,
    /// The newest row of a worker that was taken over: whose, and its number.
    pub(super) folded: Option<(ProcessId, u64)>,
}

/// The newest row that gave a lineage's session another name.
#[derive(Debug, Clone)]
pub(super) struct Renamed {
    pub(super) from: AgentId,
    pub(super) to: AgentId,
    /// The call that asked for it.
    pub(super) request_id: Option<String>,
}

/// A remembered answer: the `data` of an `answer` row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Answered {
    pub(super) request_id: String,
    pub(super) method: String,
    /// Absent in rows of the first programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<AgentId>,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Result(Value),
    Error(Refusal),
}

impl Recall {
    /// The highest epoch of any row.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn session(&self, name: &AgentId) -> Option<&Remembered> {
        self.sessions.get(name)
    }

    pub(super) fn sessions(&self) -> impl Iterator<Item = (&AgentId, &Remembered)> {
        self.sessions.iter()
    }

    /// Whether the end of a generation is told; it is before the next one has a row.
    pub(super) fn is_told(&self, about: &About) -> bool {
        self.session(&about.session).is_some_and(|known| {
            let since = known.generation > about.generation;
            known.lineage == about.lineage && (since || known.generation == about.generation && known.ended)
        })
    }

    /// Lineages whose session got another name.
    pub(super) fn renames(&self) -> impl Iterator<Item = (&LineageId, &Renamed)> {
        self.renamed.iter()
    }

    pub(super) fn renamed(&self, lineage: &LineageId) -> Option<&Renamed> {
        self.renamed.get(lineage)
    }

    pub(super) fn answer(&self, request_id: &str) -> Option<&Answered> {
        self.answers.get(request_id)
    }

    /// Takes one row in.
    pub(super) fn fold(&mut self, event: &Event) {
        self.epoch = self.epoch.max(event.epoch);
        if event.kind == EventKind::Answer {
            self.fold_answer(&event.data);
        }
        let (Some(name), Some(lineage), Some(generation)) =
            (&event.session, &event.lineage, event.generation)
        else {
            return;
        };
        // Whoever still speaks of it by the name it had speaks of it.
        let name = self.renamed.get(lineage).map_or(name, |renamed| &renamed.to);
        let known = self.sessions.entry(name.clone()).or_insert_with(|| Remembered::new(lineage, generation));
        if generation > known.generation || known.lineage != *lineage {
            let folded = known.folded.take();
            *known = Remembered { folded, ..Remembered::new(lineage, generation) };
        }
        if let Some(row) = worker_row(&event.data) {
            known.folded = Some(row);
        }
        if event.kind == EventKind::Renamed {
            return self.fold_renamed(name.clone(), lineage, &event.data);
        }
        if generation < known.generation {
            return;
        }
        if let Some(state) = state_after(event) {
            known.state = state;
        }
        match event.kind {
            EventKind::Spawn => {
                known.request_id = event.data["request_id"].as_str().map(str::to_owned);
            }
            EventKind::Started => known.started = true,
            // Who wants it down wants no successor either; what the worker tells may be the end that we asked for.
            EventKind::Kill => (known.kill_asked, known.succeeded) = (true, false),
            EventKind::KillAsked => known.kill_asked |= !known.succeeded,
            EventKind::Succeed => known.succeeded = !known.kill_asked,
            EventKind::Exited | EventKind::Died | EventKind::Orphaned | EventKind::Failed => {
                known.ended = true
            }
            _ => {}
        }
    }

    fn fold_renamed(&mut self, from: AgentId, lineage: &LineageId, data: &Value) {
        let Ok(event_data::Renamed { to, request_id }) = event_data::Renamed::deserialize(data) else {
            return;
        };
        if let Some(known) = self.sessions.remove(&from) {
            self.sessions.insert(to.clone(), known);
        }
        self.renamed.insert(lineage.clone(), Renamed { from, to, request_id });
    }

    fn fold_answer(&mut self, data: &Value) {
        // A row of a later shape: the repeat of that call is then judged by the state of its session.
        let Ok(answered) = serde_json::from_value::<Answered>(data.clone()) else { return };
        let id = answered.request_id.clone();
        if self.answers.insert(id.clone(), answered).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > ANSWERS
            && let Some(oldest) = self.order.pop_front()
        {
            self.answers.remove(&oldest);
        }
    }
}

impl Remembered {
    fn new(lineage: &LineageId, generation: Generation) -> Remembered {
        Remembered {
            lineage: lineage.clone(),
            generation,
            request_id: None,
            started: false,
            ended: false,
            kill_asked: false,
            succeeded: false,
            state: SessionState::Starting,
            folded: None,
        }
    }
}

/// What a row makes of its session; none where it says nothing of its life. Idle is nothing that rows tell.
fn state_after(event: &Event) -> Option<SessionState> {
    match event.kind {
        EventKind::Spawn => Some(SessionState::Starting),
        EventKind::Started | EventKind::Adopted | EventKind::Recovered => Some(SessionState::Active),
        EventKind::Hung => Some(SessionState::Hung),
        EventKind::Exited | EventKind::Died | EventKind::Orphaned => {
            End::deserialize(&event.data["how"]).ok().map(|how| SessionState::from(&how))
        }
        EventKind::Failed => Some(SessionState::Failed),
        EventKind::Asking => Some(SessionState::Asking),
        EventKind::Reaped => Some(SessionState::Inactive),
        _ => None,
    }
}

fn worker_row(data: &Value) -> Option<(ProcessId, u64)> {
    #[derive(Deserialize)]
    struct WorkerRow {
        worker: ProcessId,
        n: u64,
    }
    let row = WorkerRow::deserialize(data).ok()?;
    Some((row.worker, row.n))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(kind: EventKind, session: &str, lineage: &str, data: Value) -> Event {
        Event {
            seq: 1,
            ts: jiff::Timestamp::UNIX_EPOCH,
            epoch: 1,
            kind,
            session: Some(session.parse().expect("a name")),
            lineage: Some(lineage.parse().expect("a lineage")),
            generation: Some(Generation(1)),
            data,
        }
    }

    #[test]
    fn a_row_under_a_name_that_its_session_had_is_that_session_s() {
        let mut recall = Recall::default();
        for row in [
            row(EventKind::Spawn, "agent0", "agent0-00000000", json!({})),
            row(EventKind::Renamed, "agent0", "agent0-00000000", json!({"to": "scout"})),
            row(EventKind::Spawn, "agent0", "agent0-11111111", json!({})),
            row(EventKind::Kill, "agent0", "agent0-00000000", json!({})),
        ] {
            recall.fold(&row);
        }
        let known: Vec<_> = recall
            .sessions()
            .map(|(name, known)| (name.as_str(), known.lineage.as_str(), known.kill_asked))
            .collect();
        assert_eq!(known, [("agent0", "agent0-11111111", false), ("scout", "agent0-00000000", true)]);
    }
}
