//! `event` notifications: the rows of the journal as subscribers see them.

use jiff::Timestamp;
use netsky_model::id::{AgentId, Generation, LineageId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What happened.
///
/// Rows that say what is about to be done are synced before it ([`EventKind::durable`]). The others tell what other
/// files of the root say too: after a power cut the next anchor finds it there and writes the row again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// An anchor took the root: `{anchor_id, version, pid}`.
    AnchorStarted,
    /// An anchor left it on request.
    AnchorStopped,
    /// A generation is about to be started: `{request_id?, runtime, keeper}`. Synced before its effect.
    Spawn,
    /// The worker saw its program start: `{worker, n, program}`.
    Started,
    /// The program never ran: `{why}`.
    Failed,
    /// A restarted anchor found the session's worker alive: `{worker}`.
    Adopted,
    /// A kill was asked of the anchor: `{request_id?, grace_ms}`. Synced before its effect.
    Kill,
    /// A kill reached the worker: `{worker, n, grace_ms}`.
    KillAsked,
    /// The worker saw its program end and swept the tree: `{worker, n, how, swept, left}`.
    Exited,
    /// The worker died without saying how its program ended; the anchor swept the tree: `{how, swept, left}`.
    Died,
    /// Neither worker nor program was there when an anchor started: `{how, swept, left}`.
    Orphaned,
    /// The worker has not beaten for more than 90 s: `{age_ms}`.
    Hung,
    /// The worker beats again.
    Recovered,
    /// The anchor will revive the session, which is its own to keep: `{after_ms, attempt}`.
    Revive,
    /// A turn is over: `{turn, messages, usage}`. What was said is in the turns log.
    Turn,
    /// A tool call is about to be made: `{id, tool}`.
    Intent,
    /// A tool call came back: `{id, failed}`.
    Result,
    /// The program named its conversation: `{session_id}`.
    SessionId,
    /// Keys were typed: `{bytes, request_id?}`. Which, stands nowhere.
    Input,
    /// A text was put before the program: `{bytes, finalization, request_id?}`. Which, stands nowhere.
    Prompt,
    /// A terminal got another size: `{rows, cols}`.
    Resize,
    /// A signal was sent on request: `{signal}`.
    Signal,
    /// The context of a generation moved on: `{from, to, context_pct}`.
    Lifecycle,
    /// What a generation leaves to the next one: `{of, is}`, which is `prepared`, `written`, `acknowledged` or
    /// `unacknowledged`.
    Handoff,
    /// The context of a generation is dead: it is ended, and the next one starts with its handoff. Synced before its effect.
    Succeed,
    /// A turn is in the turns log and could not be written into a snapshot; the one before stands: `{turn, why}`.
    Unsnapped,
    /// Revivals in a row came to nothing: one in an hour is tried from here on: `{revivals}`.
    Crashloop,
    /// It was taken away, and somebody must say what becomes of it: `{why?}`.
    Asking,
    /// An ended session was put aside.
    Reaped,
    /// A file of the root does not read and was put aside or left alone: `{file, why}`.
    Damaged,
    /// A call with a `request_id` was answered: `{request_id, method, session, result|error}`. Synced before the answer.
    Answer,
    /// A client came to stay: it follows the journal: `{pid?}`. Of many in one second the rest is a count: `{more}`.
    Arrived,
    /// Not in the journal: rows `from..=to` were not pushed to a slow subscriber, who reads them by `since`.
    Gap,
    /// A kind of a later program.
    #[serde(other)]
    Unknown,
}

impl EventKind {
    /// Every kind that stands in a journal, in the order of a life.
    pub const ALL: [EventKind; 32] = [
        EventKind::AnchorStarted,
        EventKind::AnchorStopped,
        EventKind::Spawn,
        EventKind::Started,
        EventKind::Failed,
        EventKind::Adopted,
        EventKind::Kill,
        EventKind::KillAsked,
        EventKind::Exited,
        EventKind::Died,
        EventKind::Orphaned,
        EventKind::Hung,
        EventKind::Recovered,
        EventKind::Revive,
        EventKind::Turn,
        EventKind::Intent,
        EventKind::Result,
        EventKind::SessionId,
        EventKind::Input,
        EventKind::Prompt,
        EventKind::Resize,
        EventKind::Signal,
        EventKind::Lifecycle,
        EventKind::Handoff,
        EventKind::Succeed,
        EventKind::Unsnapped,
        EventKind::Crashloop,
        EventKind::Asking,
        EventKind::Reaped,
        EventKind::Damaged,
        EventKind::Answer,
        EventKind::Arrived,
    ];

    /// The word that stands in JSON and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            EventKind::AnchorStarted => "anchor-started",
            EventKind::AnchorStopped => "anchor-stopped",
            EventKind::Spawn => "spawn",
            EventKind::Started => "started",
            EventKind::Failed => "failed",
            EventKind::Adopted => "adopted",
            EventKind::Kill => "kill",
            EventKind::KillAsked => "kill-asked",
            EventKind::Exited => "exited",
            EventKind::Died => "died",
            EventKind::Orphaned => "orphaned",
            EventKind::Hung => "hung",
            EventKind::Recovered => "recovered",
            EventKind::Revive => "revive",
            EventKind::Turn => "turn",
            EventKind::Intent => "intent",
            EventKind::Result => "result",
            EventKind::SessionId => "session-id",
            EventKind::Input => "input",
            EventKind::Prompt => "prompt",
            EventKind::Resize => "resize",
            EventKind::Signal => "signal",
            EventKind::Lifecycle => "lifecycle",
            EventKind::Handoff => "handoff",
            EventKind::Succeed => "succeed",
            EventKind::Unsnapped => "unsnapped",
            EventKind::Crashloop => "crashloop",
            EventKind::Asking => "asking",
            EventKind::Reaped => "reaped",
            EventKind::Damaged => "damaged",
            EventKind::Answer => "answer",
            EventKind::Arrived => "arrived",
            EventKind::Gap => "gap",
            EventKind::Unknown => "unknown",
        }
    }

    /// Whether a row of this kind is synced before its effect.
    pub fn durable(self) -> bool {
        matches!(self, EventKind::Spawn | EventKind::Kill | EventKind::Succeed | EventKind::Answer)
    }
}

/// One row of the journal, without its chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Rises by one a row.
    pub seq: u64,
    /// When the anchor wrote it.
    pub ts: Timestamp,
    /// Of the anchor that wrote it.
    pub epoch: u64,
    /// What happened.
    pub kind: EventKind,
    /// The session it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<AgentId>,
    /// Its lineage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<LineageId>,
    /// Its generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Generation>,
    /// What else belongs to that kind.
    #[serde(default)]
    pub data: Value,
}

impl Event {
    /// Whether a session came to its end with it.
    pub fn is_end(&self) -> bool {
        matches!(self.kind, EventKind::Exited | EventKind::Died | EventKind::Orphaned | EventKind::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_the_word_that_stands_in_the_journal() {
        for kind in EventKind::ALL {
            assert_eq!(serde_json::to_value(kind).expect("plain"), kind.word());
            assert_eq!(serde_json::from_value::<EventKind>(kind.word().into()).expect("known"), kind);
        }
        // One that is missing above is not printed twice either: the words are all different.
        let words: std::collections::BTreeSet<_> = EventKind::ALL.map(EventKind::word).into();
        assert_eq!(words.len(), EventKind::ALL.len());
    }
}
