//! The wire between a client and the anchor: JSON-RPC 2.0, one object a line, at most 1 MiB.
//!
//! One list, `methods`, names every method with its parameters and its result; the anchor dispatches by it and the
//! reference is made of it. One method, one file for these two; the anchor's handler of the same name is in `anchor/`,
//! the caller's side is a method of the same name on [`Client`](crate::client::Client).
//!
//! Promise: every reply carries the anchor's `epoch`; every error has a stable `code` and `data.kind`; an unknown field of
//! a request, a result or an event is ignored, an unknown parameter refused by its name ([`schema::unknown_parameter`]): a
//! newer client is told that this anchor would not do what it wants. Left to others: the socket (`anchor/serve`, `client`), what a method does (`anchor/`).

pub mod attach;
pub mod detach;
mod event;
pub mod event_data;
pub mod hello;
pub mod input;
pub mod kill;
pub mod lineage;
pub mod list;
mod methods;
mod page;
pub mod prompt;
pub mod ps;
pub mod reap;
pub mod rename;
pub mod report;
pub mod resize;
pub mod schema;
pub mod show;
pub mod shutdown;
pub mod signal;
pub mod spawn;
pub mod subscribe;
mod view;
pub mod whoami;

pub use event::{Event, EventKind};
pub(crate) use methods::with_methods;
pub use methods::{Described, Effect, METHODS};
pub use page::Page;
pub use view::{HeartbeatView, SessionState, SessionView};

use std::fmt;
use std::time::Duration;

use netsky_model::id::Generation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the protocol.
pub const PROTOCOL: u64 = 1;
/// Most bytes in one line, either way; a longer one is answered with `too-large` and the connection is closed.
pub const MAX_LINE: usize = 1 << 20;
/// Clients at once: every session's driver, every tick and a few people, many times over.
pub const MAX_CLIENTS: u32 = 256;
/// How long a client may leave an answer unread, or take nothing of what it follows: it is cut off then, and a subscriber
/// comes again with `since`, as its rows wait in the journal.
pub const UNREAD: Duration = Duration::from_secs(30);
/// How many answers are remembered by their `request_id`: a caller repeats within seconds, not thousands of calls later.
pub const ANSWERS: usize = 1_024;
/// Longest `request_id`.
pub const MAX_REQUEST_ID: usize = 128;

/// One method of the anchor.
pub trait Method {
    /// The name on the wire.
    const NAME: &'static str;
    /// What is asked.
    type Params: Serialize + for<'de> Deserialize<'de> + JsonSchema;
    /// What is answered.
    type Answer: Serialize + for<'de> Deserialize<'de> + JsonSchema;
}

/// What every mutating call may carry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Guard {
    /// The generation the caller believes to be the newest (0: no such session yet); stale is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_generation: Option<Generation>,
    /// Chosen by the caller; a repeat returns the first result and does nothing again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl Guard {
    /// Acts on whatever is there, and acts again when asked again.
    pub fn none() -> Guard {
        Guard::default()
    }

    /// Acts only when `generation` is the newest.
    pub fn if_generation(generation: Generation) -> Guard {
        Guard { if_generation: Some(generation), request_id: None }
    }

    /// The same, done at most once under this name.
    #[must_use]
    pub fn once(mut self, request_id: impl Into<String>) -> Guard {
        self.request_id = Some(request_id.into());
        self
    }

    /// Refuses where the caller believes in another generation than the newest of whom it names.
    pub(crate) fn believes(&self, of: impl fmt::Display, newest: Generation) -> Result<(), Refusal> {
        match self.if_generation {
            Some(believed) if believed != newest => {
                let message = format!("{of} is at generation {newest}, not {believed}");
                Err(Refusal::new(RefusalKind::StaleGeneration, message))
            }
            _ => Ok(()),
        }
    }
}

/// A line from a client. Without an `id` it is a notification: it is done, and nothing is answered.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Request {
    /// Always `2.0`.
    pub(crate) jsonrpc: String,
    /// The caller's own: a text, or an integer of at most 64 bits. The answer has it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<Value>,
    /// One of those below.
    pub(crate) method: String,
    /// What the method takes, by name; nothing at all is the empty object.
    #[serde(default)]
    pub(crate) params: Value,
}

/// A line to a client that answers one of its own.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Reply {
    /// Always `2.0`.
    pub(crate) jsonrpc: String,
    /// That of the request; null where the line was no request.
    pub(crate) id: Value,
    /// Of the anchor that answers; rises with every anchor of the root.
    pub(crate) epoch: u64,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// Exactly one of the two.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// What the method answers.
    Result(Value),
    /// Why it was not done.
    Error(Refusal),
}

impl Reply {
    pub(crate) fn new(id: Value, epoch: u64, outcome: Result<Value, Refusal>) -> Reply {
        let outcome = match outcome {
            Ok(value) => Outcome::Result(value),
            Err(refusal) => Outcome::Error(refusal),
        };
        Reply { jsonrpc: "2.0".to_owned(), id, epoch, outcome }
    }
}

/// A line to a subscriber.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Notification {
    /// Always `event`.
    pub(crate) method: String,
    /// An event.
    pub(crate) params: Value,
}

/// Why a call was not done; the kinds are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// The line is not JSON.
    Malformed,
    /// The line is JSON and no request of JSON-RPC 2.0; a batch is none here.
    InvalidRequest,
    /// No such method.
    UnknownMethod,
    /// The parameters are not what the method takes.
    BadParams,
    /// The anchor failed at it; nothing was done that its journal does not tell.
    Internal,
    /// A newer generation exists than the caller believed.
    StaleGeneration,
    /// No session of that name.
    NotFound,
    /// The session lives, or an earlier step on it has not ended; safe to repeat.
    Busy,
    /// The program did not start.
    FailedToStart,
    /// Not allowed.
    Refused,
    /// What was sent, asked to be kept or would be answered is longer than its limit.
    TooLarge,
    /// A file of the root says something that cannot be used; it was left as it is.
    Damaged,
    /// A kind this program does not know.
    #[serde(other)]
    Unknown,
}

impl RefusalKind {
    /// Every kind that this program knows.
    pub const ALL: [RefusalKind; 12] = [
        RefusalKind::Malformed,
        RefusalKind::InvalidRequest,
        RefusalKind::UnknownMethod,
        RefusalKind::BadParams,
        RefusalKind::Internal,
        RefusalKind::StaleGeneration,
        RefusalKind::NotFound,
        RefusalKind::Busy,
        RefusalKind::FailedToStart,
        RefusalKind::Refused,
        RefusalKind::TooLarge,
        RefusalKind::Damaged,
    ];

    /// The JSON-RPC code that goes with the kind.
    pub fn code(self) -> i64 {
        match self {
            RefusalKind::Malformed => -32700,
            RefusalKind::InvalidRequest => -32600,
            RefusalKind::UnknownMethod => -32601,
            RefusalKind::BadParams => -32602,
            RefusalKind::Internal | RefusalKind::Unknown => -32603,
            RefusalKind::StaleGeneration => -32001,
            RefusalKind::NotFound => -32002,
            RefusalKind::Busy => -32003,
            RefusalKind::FailedToStart => -32004,
            RefusalKind::Refused => -32005,
            RefusalKind::TooLarge => -32006,
            RefusalKind::Damaged => -32007,
        }
    }
}

/// The error object of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// That of its kind.
    code: i64,
    /// A lower-case fragment that names the operation and its object.
    pub message: String,
    /// For programs.
    data: RefusalData,
}

/// What a refusal says to programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct RefusalData {
    /// The stable word for it.
    kind: RefusalKind,
}

impl Refusal {
    /// A refusal of this kind.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Refusal {
        Refusal { code: kind.code(), message: message.into(), data: RefusalData { kind } }
    }

    /// The stable kind.
    pub fn kind(&self) -> RefusalKind {
        self.data.kind
    }
}

/// Of a count that is said only where there is something.
fn is_none(count: &usize) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_one_flat_object_with_its_epoch() {
        let done = Reply::new(Value::from(7), 3, Ok(serde_json::json!({"a": 1})));
        let text = serde_json::to_string(&done).expect("plain data");
        assert_eq!(text, r#"{"jsonrpc":"2.0","id":7,"epoch":3,"result":{"a":1}}"#);
        let refused = Reply::new(Value::Null, 3, Err(Refusal::new(RefusalKind::Busy, "agent0 lives")));
        let text = serde_json::to_string(&refused).expect("plain data");
        assert_eq!(
            text,
            r#"{"jsonrpc":"2.0","id":null,"epoch":3,"error":{"code":-32003,"message":"agent0 lives","data":{"kind":"busy"}}}"#
        );
        let back: Reply = serde_json::from_str(&text).expect("what we write we read");
        assert!(matches!(back.outcome, Outcome::Error(refusal) if refusal.kind() == RefusalKind::Busy));
    }

    #[test]
    fn a_refusal_of_a_later_program_still_reads() {
        let text = r#"{"code":-1,"message":"so","data":{"kind":"from-the-future"}}"#;
        let refusal: Refusal = serde_json::from_str(text).expect("an unknown kind is a kind");
        assert_eq!(refusal.kind(), RefusalKind::Unknown);
    }
}
