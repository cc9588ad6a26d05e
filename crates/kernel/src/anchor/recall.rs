//! What the rows of the journal mean to an anchor.
//!
//! Promise: a row goes through [`Recall::fold`] once, whether it was just written or is read by a successor, so both know
//! the same; what goes into a checkpoint comes out of it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use jiff::Timestamp;
use netsky_model::id::{AgentId, Generation, LineageId};
use netsky_model::process::ProcessId;
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::journal::{About, Fold};
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
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Remembered {
    pub(super) lineage: LineageId,
    pub(super) generation: Generation,
    /// The call that reserved the generation.
    pub(super) request_id: Option<String>,
    /// Its program was seen running.
    pub(super) started: bool,
    /// Its end is in the journal.
    pub(super) ended: bool,
    /// How, as far as that row says it.
    #[serde(default)]
    pub(super) how: Option<End>,
    /// Somebody wanted it down: it is not revived.
    pub(super) kill_asked: bool,
    /// Its context is dead, and the next generation takes over from it.
    pub(super) succeeded: bool,
    /// It was reserved to take over from one whose context is dead, and none of its lineage was seen running since.
    #[serde(default)]
    pub(super) follows: bool,
    /// That its description is gone or does not read was told, and it was not adopted by one since.
    #[serde(default)]
    pub(super) undescribed: bool,
    /// What the rows make of it, in a word.
    pub(super) state: SessionState,
    /// The newest row of a worker that was taken over: whose, and its number.
    pub(super) folded: Option<(ProcessId, u64)>,
    /// Rows of its lineage's turns log that are told, up to this one; none where that is not known: a program told that did
    /// not number them, or the rows from its beginning on are lost.
    #[serde(default)]
    pub(super) told: Option<u64>,
    /// In how many rows that one is told: there may be more to come. None in checkpoints of programs that did not count.
    #[serde(default)]
    pub(super) told_in: Option<usize>,
    /// Revivals that came to a generation and that no life since has taken back.
    #[serde(default)]
    pub(super) revivals: u32,
    /// When the next one was announced first, as long as it has not come to a generation: its pause began then.
    #[serde(default)]
    pub(super) reviving: Option<Timestamp>,
    /// The same on both clocks; none where a program told it that did not say that.
    #[serde(default)]
    pub(super) began: Option<Stamp>,
    /// Whether it was told that they come to nothing.
    #[serde(default)]
    pub(super) crashloop: bool,
}

/// The newest row that gave a lineage's session another name.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
    /// What was asked for, as a hash; absent in rows of programs that did not compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<String>,
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

    /// Whether that file is the description of a session of which it was told that it does not read.
    pub(super) fn is_undescribed(&self, file: &str) -> bool {
        let name = described(file);
        name.and_then(|name| self.session(&name)).is_some_and(|known| known.undescribed)
    }

    /// The session whose lineage that is; nothing where its name is another's by now.
    pub(super) fn of(&self, about: &About) -> Option<&Remembered> {
        self.session(&about.session).filter(|known| known.lineage == about.lineage)
    }

    /// Revivals of a lineage that no life since has taken back. The next generation, reserved while this is still the one
    /// that is described, was refused: that revival is tried again.
    pub(super) fn revivals(&self, about: &About) -> u32 {
        self.of(about).map_or(0, |known| {
            let refused = known.generation > about.generation;
            known.revivals.saturating_sub(refused.into())
        })
    }

    /// Whether a revival after a generation was announced, or a next one reserved.
    pub(super) fn is_tried(&self, about: &About) -> bool {
        self.of(about).is_some_and(|known| {
            let announced = known.generation == about.generation && known.reviving.is_some();
            known.generation > about.generation || announced
        })
    }

    /// Whether the end of a generation is told; it is before the next one has a row.
    pub(super) fn is_told(&self, about: &About) -> bool {
        self.of(about).is_some_and(|known| {
            let since = known.generation > about.generation;
            since || known.generation == about.generation && known.ended
        })
    }

    /// How a generation ended, as the journal has it.
    pub(super) fn end(&self, about: &About) -> Option<End> {
        let known = self.of(about).filter(|known| known.generation == about.generation)?;
        known.how.clone()
    }

    /// The session that carries a lineage, and what the journal has of it.
    pub(super) fn carrier(&self, lineage: &LineageId) -> Option<(&AgentId, &Remembered)> {
        self.sessions.iter().find(|(_, known)| known.lineage == *lineage)
    }

    /// Whose a lineage is, up to which row of its turns log it is told, and in how many rows that one; nothing where that
    /// is not known.
    pub(super) fn told(&self, lineage: &LineageId) -> Option<(About, u64, Option<usize>)> {
        let (name, known) = self.carrier(lineage)?;
        let (session, lineage) = (name.clone(), lineage.clone());
        let about = About { session, lineage, generation: known.generation };
        Some((about, known.told?, known.told_in))
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

    fn fold_answer(&mut self, data: &Value) {
        // A row of a later shape: the repeat of that call is then judged by the state of its session.
        if let Ok(answered) = Answered::deserialize(data) {
            self.keep(answered);
        }
    }

    fn keep(&mut self, answered: Answered) {
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

    fn fold_renamed(&mut self, from: AgentId, lineage: &LineageId, data: &Value) {
        let Ok(event_data::Renamed { to, request_id }) = event_data::Renamed::deserialize(data) else {
            return;
        };
        if let Some(known) = self.sessions.remove(&from) {
            self.sessions.insert(to.clone(), known);
        }
        self.renamed.insert(lineage.clone(), Renamed { from, to, request_id });
    }
}

impl Fold for Recall {
    fn fold(&mut self, event: &Event) {
        self.epoch = self.epoch.max(event.epoch);
        if event.kind == EventKind::Answer {
            self.fold_answer(&event.data);
        }
        if event.kind == EventKind::Damaged
            && let Some(name) = event.data["file"].as_str().and_then(described)
            && let Some(known) = self.sessions.get_mut(&name)
        {
            known.undescribed = true;
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
            *known = known.next(lineage, generation);
        }
        if let Some(row) = worker_row(&event.data) {
            known.folded = Some(row);
        }
        known.tells(event);
        if event.kind == EventKind::Renamed {
            return self.fold_renamed(name.clone(), lineage, &event.data);
        }
        if generation < known.generation {
            return;
        }
        if let Some(state) = state_after(event) {
            known.state = state;
        }
        known.follows &= !is_past(event.kind);
        match event.kind {
            EventKind::Spawn => known.begins(&event.data),
            EventKind::Started => known.started = true,
            EventKind::Adopted => known.undescribed = false,
            // Who wants it down wants no successor either; what the worker tells may be the end that we asked for.
            EventKind::Kill => {
                (known.kill_asked, known.succeeded) = (true, false);
                // It was lost before, and is meant to be from now on.
                let lost = [SessionState::Died, SessionState::Orphaned, SessionState::Asking];
                if known.ended && lost.contains(&known.state) {
                    known.state = SessionState::Stopped;
                }
            }
            EventKind::KillAsked => known.kill_asked |= !known.succeeded,
            EventKind::Succeed => known.succeeded = !known.kill_asked,
            EventKind::Revive => known.announced(event),
            EventKind::Crashloop => known.crashloop = true,
            EventKind::Exited | EventKind::Died | EventKind::Orphaned | EventKind::Failed => {
                (known.ended, known.how) = (true, End::deserialize(&event.data["how"]).ok());
            }
            _ => {}
        }
    }

    fn checkpoint(&self) -> Value {
        let answers: Vec<_> = self.order.iter().filter_map(|id| self.answers.get(id)).collect();
        json!({"epoch": self.epoch, "sessions": self.sessions, "renamed": self.renamed, "answers": answers})
    }

    fn restored(checkpoint: Value) -> Option<Recall> {
        #[derive(Deserialize)]
        struct Kept {
            epoch: u64,
            sessions: BTreeMap<AgentId, Remembered>,
            /// Nobody had another name when the first ones were written.
            #[serde(default)]
            renamed: BTreeMap<LineageId, Renamed>,
            answers: Vec<Answered>,
        }
        let Kept { epoch, sessions, renamed, answers } = serde_json::from_value(checkpoint).ok()?;
        let mut recall = Recall { epoch, sessions, renamed, ..Recall::default() };
        answers.into_iter().for_each(|answered| recall.keep(answered));
        Some(recall)
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
            how: None,
            kill_asked: false,
            succeeded: false,
            follows: false,
            undescribed: false,
            state: SessionState::Starting,
            folded: None,
            told: None,
            told_in: None,
            revivals: 0,
            reviving: None,
            began: None,
            crashloop: false,
        }
    }

    /// The worker of a program that was seen running and whose end is not told.
    pub(super) fn running(&self) -> Option<&ProcessId> {
        let (worker, _) = self.folded.as_ref().filter(|_| self.started && !self.ended)?;
        Some(worker)
    }

    /// A row that may be of a report: of one there may be several.
    fn tells(&mut self, row: &Event) {
        if row.kind == EventKind::Anew {
            // Its rows are others than those that were told before.
            (self.told, self.told_in) = (row.data["rows"].as_u64(), None);
        }
        if let Some(told) = told_row(row, self.told) {
            self.told_in = if told == self.told { self.told_in.map(|rows| rows + 1) } else { Some(1) };
            self.told = told;
        }
    }

    /// Its generation is reserved.
    fn begins(&mut self, data: &Value) {
        self.request_id = data["request_id"].as_str().map(str::to_owned);
        if self.generation == Generation::NONE.next() {
            // Its lineage begins here, so that nothing was told of it before.
            self.told = Some(0);
        }
    }

    /// Takes in that the next one was announced.
    fn announced(&mut self, event: &Event) {
        let Ok(event_data::Revive { attempt, at, .. }) = event_data::Revive::deserialize(&event.data) else {
            return;
        };
        // The next anchor announces what is left of the same pause.
        if self.reviving.is_none() || self.revivals != attempt {
            (self.reviving, self.began) = (Some(event.ts), at);
        }
        self.revivals = attempt;
        self.crashloop &= attempt > 0;
    }

    /// What begins behind it: one more try where it was about to be brought back, the same one where that was reserved and
    /// came to nothing, not even an end, and anew where somebody started it.
    fn next(&mut self, lineage: &LineageId, generation: Generation) -> Remembered {
        let new = Remembered::new(lineage, generation);
        let same = self.lineage == *lineage;
        let follows = same && (self.succeeded || self.follows);
        let (told, told_in) = if same { (self.told, self.told_in) } else { (new.told, new.told_in) };
        let next = Remembered { folded: self.folded.take(), told, told_in, follows, ..new };
        let refused = !self.started && !self.ended;
        if !same || self.reviving.is_none() && !refused {
            return next;
        }
        let revivals = self.revivals.saturating_add(self.reviving.is_some().into());
        Remembered { revivals, crashloop: self.crashloop, ..next }
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

/// Whose description a file of a root is.
fn described(file: &str) -> Option<AgentId> {
    file.strip_prefix("agents/")?.strip_suffix(".meta")?.parse().ok()
}

/// Whether a successor has run by then, though the row of its start may not read, or is wanted down.
fn is_past(kind: EventKind) -> bool {
    matches!(kind, EventKind::Started | EventKind::Adopted | EventKind::Exited | EventKind::Kill)
}

/// Up to which row of its lineage's turns log a row says that it is told, if it does, where those before say `told`.
fn told_row(event: &Event, told: Option<u64>) -> Option<Option<u64>> {
    use EventKind::{Handoff, Intent, Lifecycle, Reaped, Result, SessionId, Turn};
    match (event.kind, event.data["row"].as_u64()) {
        (Turn | Intent | Result | SessionId | Lifecycle | Handoff, Some(row)) => Some(Some(row)),
        // Of a program that did not say it.
        (Turn | Intent | Result | SessionId | Lifecycle, None) => Some(None),
        // Behind the one that numbers its report.
        (Handoff, None) => Some(told),
        (Reaped, _) if !event.data["acknowledged_by"].is_null() => Some(told),
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
    use super::*;

    /// Row `n` of a journal in which everything happens to four sessions, more or less at random.
    fn nth(n: u64) -> Event {
        let chance = |salt: u64, of: u64| {
            let hash = blake3::hash(&(n * 16 + salt).to_le_bytes());
            u64::from(hash.as_bytes()[0]) % of
        };
        let kind = EventKind::ALL[chance(0, EventKind::ALL.len() as u64) as usize];
        let answer = json!({
            "request_id": format!("r{}", chance(1, 200)), "method": "session/kill", "session": "agent0", "result": {"n": n},
        });
        let worker = netsky_disk::process::identity().expect("known");
        let data = match kind {
            EventKind::Answer => answer,
            EventKind::Spawn => json!({"request_id": format!("r{n}")}),
            EventKind::Renamed => json!({"to": format!("agent{}", chance(5, 4))}),
            EventKind::Revive if chance(7, 2) == 0 => json!({"after_ms": 0, "attempt": chance(6, 4)}),
            EventKind::Revive => {
                let at = netsky_disk::clock::stamp();
                json!({"after_ms": 0, "attempt": chance(6, 4), "at": at})
            }
            EventKind::Exited => json!({"how": {"exited": {"code": 1}}, "worker": worker, "n": n}),
            EventKind::Turn | EventKind::Lifecycle => json!({"row": n}),
            _ => json!({"worker": worker, "n": n}),
        };
        Event {
            seq: n,
            ts: jiff::Timestamp::UNIX_EPOCH,
            epoch: n / 50,
            kind,
            session: Some(format!("agent{}", chance(2, 4)).parse().expect("a name")),
            lineage: Some(format!("agent0-0000000{}", chance(3, 6)).parse().expect("a lineage")),
            generation: Some(Generation(n / 60 + chance(4, 2))),
            data,
        }
    }

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
    fn what_goes_into_a_checkpoint_comes_out_of_it_wherever_it_is_made() {
        let rows: Vec<Event> = (1..=1_500).map(nth).collect();
        let mut whole = Recall::default();
        let mut other = Recall::default();
        for (n, event) in rows.iter().enumerate() {
            whole.fold(event);
            other.fold(event);
            if n % 7 == 0 {
                let written = serde_json::to_string(&other.checkpoint()).expect("plain");
                let read = serde_json::from_str(&written).expect("JSON");
                other = Recall::restored(read).expect("it reads back");
            }
            assert_eq!(format!("{:?}", other.sessions), format!("{:?}", whole.sessions), "row {n}");
        }
        assert_eq!(other.checkpoint(), whole.checkpoint());
        assert_eq!((other.order.len(), other.answers.len()), (whole.order.len(), whole.answers.len()));
        assert!(whole.sessions.len() > 1 && !whole.renamed.is_empty() && whole.order.len() > 20);
    }

    #[test]
    fn the_sample_of_a_continued_journal_loads() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("root/journal.jsonl");
        netsky_disk::fs::Dir::create(path.parent().expect("a root")).expect("made");
        std::fs::write(&path, include_bytes!("../../samples/journal.v2.jsonl")).expect("writes");
        let (journal, chain, recall) = crate::journal::Journal::open::<Recall>(&path).expect("opens");
        assert_eq!((journal.head(), chain.broken), (4, vec![]));
        let known = recall.session(&"agent0".parse().expect("a name")).expect("known");
        assert_eq!((known.generation, known.state, recall.epoch()), (Generation(3), SessionState::Active, 7));
        assert_eq!(recall.answer("r1").map(|answered| answered.method.as_str()), Some("session/spawn"));
    }

    #[test]
    fn t13_a_start_that_was_reserved_and_refused_is_the_same_try_again() {
        let mut recall = Recall::default();
        let mut tell = |kind, generation, data| {
            let row = row(kind, "agent0", "agent0-00000000", data);
            recall.fold(&Event { generation: Some(Generation(generation)), ..row });
            [1, generation].map(|described| {
                let (session, lineage) = ("agent0".parse(), "agent0-00000000".parse());
                recall.revivals(&About {
                    session: session.expect("a name"),
                    lineage: lineage.expect("a lineage"),
                    generation: Generation(described),
                })
            })
        };
        let end = || json!({"how": {"exited": {"code": 1}}});
        tell(EventKind::Spawn, 1, json!({}));
        tell(EventKind::Started, 1, json!({}));
        tell(EventKind::Exited, 1, end());
        tell(EventKind::Revive, 1, json!({"after_ms": 0, "attempt": 0}));
        for refused in 2..8 {
            assert_eq!(
                tell(EventKind::Spawn, refused, json!({}))[0],
                0,
                "{refused}: none has been brought back"
            );
        }
        assert_eq!(tell(EventKind::Spawn, 8, json!({}))[1], 1, "the one that is described was");
        tell(EventKind::Started, 8, json!({}));
        tell(EventKind::Exited, 8, end());
        assert_eq!(tell(EventKind::Revive, 8, json!({"after_ms": 10_000, "attempt": 1}))[1], 1);
        assert_eq!(tell(EventKind::Spawn, 9, json!({}))[1], 2);
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
