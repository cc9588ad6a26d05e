//! `event` notifications: the rows of the journal as subscribers see them.
//!
//! A new kind is a line of the list below, with its shape in `event_data`; then `ostk rpc schema --markdown > docs/rpc.md`.

use jiff::Timestamp;
use netsky_model::id::{AgentId, Generation, LineageId};
use netsky_model::lifecycle::LifecycleState;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::event_data;

/// Declares the kinds: the word in JSON and on the command line, the shape of its `data`, and whether its row is synced
/// before the effect.
macro_rules! kinds {
    (
        $($(#[doc = $doc:literal])+ $name:ident = $word:literal, $data:ident $(, $synced:ident)?;)*
    ) => {
        /// What happened.
        ///
        /// Rows that say what is about to be done are synced before it ([`EventKind::durable`]). The others tell what was
        /// seen. What workers saw and programs reported stands in files of theirs too: where an anchor died, or the power
        /// went, before its row was there, the next anchor writes that.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum EventKind {
            $($(#[doc = $doc])+ #[serde(rename = $word)] $name,)*
            /// Not in the journal: rows `from..=to` did not reach this client, who may ask for them by `since`.
            #[serde(rename = "gap")]
            Gap,
            /// A kind of a later program.
            #[serde(rename = "unknown", other)]
            Unknown,
        }

        impl EventKind {
            /// Every kind that stands in a journal, in the order of a life.
            pub const ALL: [EventKind; [$($word),*].len()] = [$(EventKind::$name),*];

            /// The word that stands in JSON and on the command line.
            pub fn word(self) -> &'static str {
                match self {
                    $(EventKind::$name => $word,)*
                    EventKind::Gap => "gap",
                    EventKind::Unknown => "unknown",
                }
            }

            /// What it says, a sentence or two.
            pub fn doc(self) -> &'static str {
                match self {
                    $(EventKind::$name => concat!($($doc),+),)*
                    EventKind::Gap => {
                        " Not in the journal: rows `from` to `to` did not reach this client, who may ask for them by `since`."
                    }
                    EventKind::Unknown => " A kind of a later program.",
                }
            }

            /// Whether a row of this kind is synced before its effect.
            pub fn durable(self) -> bool {
                match self {
                    $(EventKind::$name => synced!($($synced)?),)*
                    EventKind::Gap | EventKind::Unknown => false,
                }
            }

            /// Whether this is what a row of the kind holds, and nothing else. Of a later program's kind nothing is known.
            pub fn fits(self, data: &Value) -> bool {
                match self {
                    $(EventKind::$name => event_data::fits::<event_data::$data>(data),)*
                    EventKind::Gap => event_data::fits::<event_data::Gap>(data),
                    EventKind::Unknown => true,
                }
            }

            /// The schema of its `data`.
            pub(super) fn schema(self, generator: &mut SchemaGenerator) -> Schema {
                match self {
                    $(EventKind::$name => event_data::$data::json_schema(generator),)*
                    EventKind::Gap => event_data::Gap::json_schema(generator),
                    EventKind::Unknown => true.into(),
                }
            }
        }
    };
}

macro_rules! synced {
    () => {
        false
    };
    (synced) => {
        true
    };
}

kinds! {
    /// An anchor took the root.
    AnchorStarted = "anchor-started", AnchorStarted;
    /// An anchor left it on request.
    AnchorStopped = "anchor-stopped", AnchorStopped;
    /// The journal goes on in a new file, of which this is the first row.
    Rotated = "rotated", Rotated;
    /// A generation is about to be started.
    Spawn = "spawn", Spawn, synced;
    /// The worker saw its program start.
    Started = "started", Started;
    /// The program never ran.
    Failed = "failed", Ended;
    /// A restarted anchor found the session's worker alive.
    Adopted = "adopted", Adopted;
    /// A kill was asked of the anchor.
    Kill = "kill", Kill, synced;
    /// A kill reached the worker.
    KillAsked = "kill-asked", KillAsked;
    /// The worker saw its program end and swept the tree.
    Exited = "exited", Ended;
    /// The worker died without saying how its program ended; the anchor swept the tree.
    Died = "died", Ended;
    /// Neither worker nor program was there when an anchor started.
    Orphaned = "orphaned", Ended;
    /// The worker has not beaten for more than 90 s.
    Hung = "hung", Hung;
    /// The worker beats again.
    Recovered = "recovered", Nothing;
    /// The anchor will revive the session, which is its own to keep.
    Revive = "revive", Revive;
    /// A turn is over. What was said is in the turns log.
    Turn = "turn", Turn;
    /// A tool call is about to be made.
    Intent = "intent", Intent;
    /// A tool call came back.
    Result = "result", ToolResult;
    /// The program named its conversation.
    SessionId = "session-id", SessionId;
    /// Keys were typed. Which, stands nowhere.
    Input = "input", Input;
    /// A text was put before the program. Which, stands nowhere.
    Prompt = "prompt", Prompt;
    /// A terminal got another size.
    Resize = "resize", Resize;
    /// A signal was sent on request.
    Signal = "signal", Signal;
    /// The context of a generation moved on.
    Lifecycle = "lifecycle", Lifecycle;
    /// What a generation leaves to the next one.
    Handoff = "handoff", Handoff;
    /// The context of a generation is dead: it is ended, and the next one starts with its handoff.
    Succeed = "succeed", Nothing, synced;
    /// A turn is in the turns log and could not be written into a snapshot; the one before stands.
    Unsnapped = "unsnapped", Unsnapped;
    /// A turns log that did not hold was begun anew, with what of it did; or it has fewer rows than were told.
    Anew = "anew", Anew;
    /// Five revivals within half an hour: one in an hour is tried from here on; one in a minute of what is kept in any case.
    Crashloop = "crashloop", Crashloop;
    /// It was taken away, and somebody must say what becomes of it.
    Asking = "asking", Asking;
    /// An ended session was put aside, or what it left was acknowledged.
    Reaped = "reaped", Reaped;
    /// A session that has ended is about to get another name; the row bears the one it had.
    Renamed = "renamed", Renamed, synced;
    /// A file of the root does not read and was put aside or left alone.
    Damaged = "damaged", Damaged;
    /// A call with a `request_id` was answered.
    Answer = "answer", Answer, synced;
    /// A client came to stay: it follows the journal, or is at a terminal. Of many in one second the rest is a count.
    Arrived = "arrived", Arrived;
}

/// One row of the journal, without its chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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

    /// Whether nothing goes into its session's context any more, from here on.
    pub fn is_used_up(&self) -> bool {
        let moved =
            (self.kind == EventKind::Lifecycle).then(|| event_data::Lifecycle::deserialize(&self.data));
        moved.is_some_and(|moved| moved.is_ok_and(|moved| moved.to == LifecycleState::Dead))
    }

    /// What its session is called from here on, if it is a row that says so.
    pub fn renamed_to(&self) -> Option<AgentId> {
        let renamed = (self.kind == EventKind::Renamed).then(|| event_data::Renamed::deserialize(&self.data));
        Some(renamed?.ok()?.to)
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
