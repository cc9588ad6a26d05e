//! What a row of each kind holds in `data`, named in the list of kinds in `event`.
//!
//! Promise: what the anchor writes is what its schema says ([`EventKind::fits`](super::EventKind::fits), held to in every
//! run that is not a release). A field more is a line here and a line where the row is written; one that older rows do
//! not have is an `Option`, left out where there is none.

use netsky_disk::sweep::Swept;
use netsky_model::id::{AgentId, Generation};
use netsky_model::lifecycle::{ContextPct, LifecycleState};
use netsky_model::process::ProcessId;
use netsky_model::stamp::Stamp;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Refusal;
use crate::drain::Usage;
use crate::session::{End, Keeper};

/// Whether `data` reads as a `T` and says nothing that a `T` does not.
pub(super) fn fits<T: Serialize + DeserializeOwned>(data: &Value) -> bool {
    let read = T::deserialize(data).ok();
    read.and_then(|read| serde_json::to_value(read).ok()).is_some_and(|again| again == *data)
}

/// Declares shapes that can be written, read and described.
macro_rules! shapes {
    ($($(#[$outer:meta])* $name:ident { $($fields:tt)* })*) => {
        $(
            $(#[$outer])*
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
            pub struct $name { $($fields)* }
        )*
    };
}

shapes! {
    /// Nothing but that it happened.
    Nothing {}

    /// Of an anchor that took the root.
    AnchorStarted {
        /// Of this anchor process.
        pub anchor_id: String,
        /// Version of the program.
        pub version: String,
        /// Its pid.
        pub pid: u32,
        /// The name of the key that its journal's heads are made with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub heads: Option<String>,
    }

    /// Of a journal that goes on in a new file.
    Rotated {
        /// The file that has the rows before it, back to the one before that.
        pub sealed: String,
        /// The name of the key that the heads are made with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub heads: Option<String>,
    }

    /// Of an anchor that left.
    AnchorStopped {
        /// Every session was to end.
        pub all: bool,
        /// Sessions that were ended.
        pub ended: Vec<AgentId>,
        /// Sessions that live on.
        pub left: Vec<AgentId>,
    }

    /// Of a generation that is reserved.
    Spawn {
        /// Which kind of program.
        pub runtime: String,
        /// Who revives it.
        pub keeper: Keeper,
        /// The name of the call that asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub request_id: Option<String>,
    }

    /// Of a program that its worker saw start.
    Started {
        /// Who holds it.
        pub worker: ProcessId,
        /// The number of the row in that worker's own file.
        pub n: u64,
        /// When the worker saw it.
        pub at: Stamp,
        /// The program.
        pub program: ProcessId,
    }

    /// Of a kill that reached the worker.
    KillAsked {
        /// Who holds the session.
        pub worker: ProcessId,
        /// The number of the row in that worker's own file.
        pub n: u64,
        /// When it came.
        pub at: Stamp,
        /// Milliseconds between SIGTERM and SIGKILL.
        pub grace_ms: u32,
    }

    /// How a program came to its end, and what became of its tree.
    Ended {
        /// How; absent where the program never ran.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub how: Option<End>,
        /// Why it never ran.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub why: Option<String>,
        /// Who saw it, where a worker did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub worker: Option<ProcessId>,
        /// The number of the row in that worker's own file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub n: Option<u64>,
        /// When the worker saw it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub at: Option<Stamp>,
        /// How many further processes of the tree had to be killed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub swept: Option<u64>,
        /// Processes that could not be ended, if any: an alarm.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub left: Vec<ProcessId>,
        /// Why nobody could look whether anything is left, if nobody could: an alarm as well.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub unseen: Option<String>,
    }

    /// Of a worker that a restarted anchor found alive.
    Adopted {
        /// The worker's pid.
        pub pid: u32,
    }

    /// Of a kill that was asked of the anchor.
    Kill {
        /// Milliseconds between SIGTERM and SIGKILL; absent where a shutdown wants all of it to stay down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub grace_ms: Option<u32>,
        /// The name of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub request_id: Option<String>,
    }

    /// Of a worker that has not beaten.
    Hung {
        /// Milliseconds since its last beat.
        pub age_ms: u64,
    }

    /// Of a session that will be brought back.
    Revive {
        /// Milliseconds from now.
        pub after_ms: u64,
        /// Tries before it that count, from 0.
        pub attempt: u32,
        /// Now, on both clocks; absent in rows of programs that did not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub at: Option<Stamp>,
    }

    /// Of a turn that is over; what was said is in the turns log.
    Turn {
        /// Its number.
        pub turn: u64,
        /// How many messages it added.
        pub messages: usize,
        /// What it took.
        pub usage: Usage,
        /// The number of the report in the lineage's turns log; absent in rows of programs that did not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub row: Option<u64>,
    }

    /// Of a tool call that is about to be made.
    Intent {
        /// The program's own id of the call.
        pub id: String,
        /// Which tool.
        pub tool: String,
        /// The number of the report in the lineage's turns log; absent in rows of programs that did not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub row: Option<u64>,
    }

    /// Of a tool call that came back.
    ToolResult {
        /// Of which intent.
        pub id: String,
        /// It failed; the program knows.
        pub failed: bool,
        /// The number of the report in the lineage's turns log; absent in rows of programs that did not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub row: Option<u64>,
    }

    /// The program's own name for its conversation.
    SessionId {
        /// That name.
        pub session_id: String,
        /// The number of the report in the lineage's turns log; absent in rows of programs that did not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub row: Option<u64>,
    }

    /// Of keys that were typed.
    Input {
        /// How many.
        pub bytes: usize,
        /// The name of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub request_id: Option<String>,
    }

    /// Of a text that was put before the program.
    Prompt {
        /// How long.
        pub bytes: usize,
        /// It begins the finalization turn.
        pub finalization: bool,
        /// The name of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub request_id: Option<String>,
    }

    /// Of a terminal's new size.
    Resize {
        /// Lines.
        pub rows: u16,
        /// Columns.
        pub cols: u16,
    }

    /// Of a signal that was sent.
    Signal {
        /// Its number.
        pub signal: i32,
    }

    /// Of what a generation leaves to the next one.
    Handoff {
        /// Whose it is.
        pub of: Generation,
        /// How far it got.
        pub is: HandoffStep,
        /// The number of the report in the lineage's turns log; absent where no report says it, and in rows of programs that did not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub row: Option<u64>,
    }

    /// Of a session that was put aside.
    Reaped {
        /// The generation that acknowledged what this one had left, if that is why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub acknowledged_by: Option<Generation>,
    }

    /// Of a session that gets another name.
    Renamed {
        /// Its name from here on.
        pub to: AgentId,
        /// The name of the call that asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub request_id: Option<String>,
    }

    /// Of a context that moved on.
    Lifecycle {
        /// Where it stood.
        pub from: LifecycleState,
        /// Where it stands.
        pub to: LifecycleState,
        /// How much of it is used; null where nobody said.
        pub context_pct: Option<ContextPct>,
        /// The number of the report in the lineage's turns log; absent in rows of programs that did not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub row: Option<u64>,
    }

    /// Of a turn that is in no snapshot.
    Unsnapped {
        /// Its number.
        pub turn: u64,
        /// Why.
        pub why: String,
    }

    /// Of a turns log that was begun anew.
    Anew {
        /// The rows it begins with, of which nothing more is told: the numbers of later rows are those of this log.
        pub rows: u64,
    }

    /// Of revivals that came to nothing.
    Crashloop {
        /// How many count.
        pub revivals: u32,
    }

    /// Of a session that waits to be told.
    Asking {
        /// What keeps it from being brought back, if it is not the policy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub why: Option<String>,
    }

    /// Of a file that does not read.
    Damaged {
        /// Which, below the root.
        pub file: String,
        /// What is wrong with it.
        pub why: String,
        /// Of a journal: the row up to which there were rows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub cut: Option<u64>,
        /// Of a journal: rows whose hash is another than it was.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub rewritten: Vec<u64>,
        /// Of a journal: files of heads that do not read.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub unread: Vec<String>,
        /// Of a journal: lines that do not follow from the one before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub lines: Vec<u64>,
    }

    /// Of a call that was answered: a repeat gets the same.
    Answer {
        /// The name of the call.
        pub request_id: String,
        /// What was asked.
        pub method: String,
        /// Of which session; absent in rows of the first programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub session: Option<AgentId>,
        /// A hash of what was asked for; absent in rows of programs that did not compare.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub asked: Option<String>,
        /// What was answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub result: Option<Value>,
        /// In its place: why it was not done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub error: Option<Refusal>,
    }

    /// Of a client that came to stay.
    Arrived {
        /// Its pid, where the system says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub pid: Option<u32>,
        /// The session whose terminal it came to; absent of one that follows the journal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub terminal: Option<AgentId>,
        /// How many others came in a second and have no row of their own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub more: Option<u64>,
    }

    /// Rows that did not reach this client.
    Gap {
        /// The first of them.
        pub from: u64,
        /// The last of them.
        pub to: u64,
    }
}

/// How far a handoff got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HandoffStep {
    /// There is a record.
    Prepared,
    /// The program wrote its part.
    Written,
    /// A later generation has it.
    Acknowledged,
    /// A later generation has lived for ten minutes without a word about it.
    Unacknowledged,
}

impl Ended {
    /// An end of that kind.
    pub(crate) fn by(how: End) -> Ended {
        Ended {
            how: Some(how),
            why: None,
            worker: None,
            n: None,
            at: None,
            swept: None,
            left: Vec::new(),
            unseen: None,
        }
    }

    /// The same, or none that is known, after a sweep of the tree.
    pub(crate) fn swept(how: Option<End>, swept: Swept, unseen: Option<String>) -> Ended {
        let ended = Ended { how, ..Ended::by(End::Orphaned) };
        Ended { swept: Some(swept.killed as u64), left: swept.left, unseen, ..ended }
    }
}

impl Damaged {
    /// A file, and what is wrong with it.
    pub(crate) fn of(file: impl Into<String>, why: impl Into<String>) -> Damaged {
        let (rewritten, unread, lines) = (Vec::new(), Vec::new(), Vec::new());
        Damaged { file: file.into(), why: why.into(), cut: None, rewritten, unread, lines }
    }
}
