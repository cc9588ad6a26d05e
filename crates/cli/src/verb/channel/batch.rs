//! `channel send --batch`: one message a line of JSON, one answer a line, printed when its message is durable.
//!
//! Messages that are there together become durable together (group commit). A group ends when it is full, and as soon as
//! the next line would have to be waited for: whoever sends one and waits for its answer gets it.

use std::path::Path;

use netsky_bus::{Bus, Draft, MAX_GROUP, Sent, check_sender};
use netsky_disk::ReadError;
use netsky_disk::env::Caller;
use netsky_disk::fs::is_folder;
use netsky_disk::input::{Input, Line};
use netsky_model::duration;
use netsky_model::envelope::MAX_BYTES;
use netsky_model::id::{AgentId, EnvelopeId, Generation, Sender};
use netsky_model::provenance::Trust;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::error::{Error, Kind};
use crate::output;

/// Longest line: JSON may spell each byte of an envelope in six.
const MAX_LINE: usize = 6 * MAX_BYTES;
/// Most text in a group: it is held until it is durable.
const MAX_GROUP_BYTES: usize = 8 << 20;

/// What a line may say.
const KEYS: [&str; 12] = [
    "to",
    "text",
    "from",
    "kind",
    "thread",
    "reply_to",
    "requires_ack",
    "ack_within",
    "for_generation",
    "trust",
    "id",
    "create",
];

/// A text of a message, which is not empty.
fn some_text<'de, D: Deserializer<'de>>(given: D) -> Result<String, D::Error> {
    let text = String::deserialize(given)?;
    if text.is_empty() { Err(D::Error::custom("the message is empty")) } else { Ok(text) }
}

/// One line.
#[derive(Deserialize)]
#[serde(expecting = "an object with a text and what else a message has")]
#[serde(deny_unknown_fields)]
struct Wish {
    /// For whom; the verb's own target where it is left out.
    to: Option<String>,
    #[serde(deserialize_with = "some_text")]
    text: String,
    from: Option<String>,
    kind: Option<String>,
    thread: Option<String>,
    reply_to: Option<EnvelopeId>,
    #[serde(default)]
    requires_ack: bool,
    ack_within: Option<String>,
    for_generation: Option<Generation>,
    trust: Option<Trust>,
    id: Option<EnvelopeId>,
    #[serde(default)]
    create: bool,
}

/// What holds for every line that does not say otherwise.
pub(super) struct Batch<'a> {
    pub(super) caller: &'a Caller,
    /// The caller has proved who it is.
    pub(super) vouched: bool,
    pub(super) to: Option<AgentId>,
    pub(super) from: Option<Sender>,
    pub(super) create: bool,
}

/// Why a line is no message, in words of who wrote it and not of who reads it.
fn why(bytes: &[u8], error: &serde_json::Error) -> String {
    if bytes.trim_ascii().is_empty() {
        return "it is empty".to_owned();
    }
    let keys = match serde_json::from_slice(bytes) {
        Ok(Value::Object(keys)) => keys,
        Ok(_) => return "it is no JSON object".to_owned(),
        Err(error) => return format!("it is no JSON, from byte {} on", error.column()),
    };
    if let Some(key) = keys.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return format!("it has {key:?}, which is none of {}", KEYS.join(", "));
    }
    if !keys.contains_key("text") {
        return "it has no \"text\"".to_owned();
    }
    let of_wrong_kind = keys.iter().find_map(|(key, value)| {
        let (fits, what) = match key.as_str() {
            "requires_ack" | "create" => (value.is_boolean(), "true or false"),
            "for_generation" => (value.is_u64() || value.is_null(), "a number"),
            "text" => (value.is_string(), "a text"),
            _ => (value.is_string() || value.is_null(), "a text"),
        };
        (!fits).then(|| format!("its {key:?} is not {what}"))
    });
    // What is left are words of ours, with the place at their end; or a key that is there twice.
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or_default();
    let said =
        said.strip_prefix("duplicate field").map_or(said.to_owned(), |key| format!("it has{key} twice"));
    of_wrong_kind.unwrap_or(said)
}

/// A file of lines, or a pipe that somebody named.
fn opened(path: &Path) -> Result<Input, Error> {
    if is_folder(path) {
        return super::send::refused(path, ReadError::NotRegular);
    }
    Input::open(path, MAX_LINE).or_else(|error| super::send::refused(path, error.into()))
}

/// A line that was read and not yet answered.
struct Pending {
    line: u64,
    to: Option<AgentId>,
    draft: Result<Draft, Error>,
}

/// How it went so far.
#[derive(Default)]
struct Tally {
    lines: u64,
    failed: u64,
    worst: Option<Kind>,
}

impl Batch<'_> {
    /// Sends every line of a file, or of standard input.
    pub(super) fn run(&self, bus: &Bus<'_>, file: Option<&Path>) -> Result<(), Error> {
        let mut input = match file {
            Some(path) => opened(path)?,
            None => {
                super::send::stdin_is_there()?;
                Input::stdin(MAX_LINE)?
            }
        };
        let (mut tally, mut group, mut bytes) = (Tally::default(), Vec::new(), 0);
        while let Some(line) = input.next_line()? {
            tally.lines += 1;
            let pending = self.read(tally.lines, line);
            bytes += pending.draft.as_ref().map_or(0, |draft| draft.text.len());
            group.push(pending);
            if group.len() >= MAX_GROUP || bytes >= MAX_GROUP_BYTES || input.would_wait()? {
                tally.commit(bus, std::mem::take(&mut group))?;
                bytes = 0;
            }
        }
        tally.commit(bus, group)?;
        tally.end()
    }

    fn read(&self, line: u64, text: Line) -> Pending {
        let draft = match text {
            Line::TooLong => {
                Err(Error::new(Kind::Usage, format!("the line is over the limit of {MAX_LINE} bytes")))
            }
            Line::Whole(bytes) => self.draft(&bytes),
        };
        Pending { line, to: draft.as_ref().ok().map(|draft| draft.to.clone()), draft }
    }

    fn draft(&self, bytes: &[u8]) -> Result<Draft, Error> {
        let usage = |why: String| Error::new(Kind::Usage, why);
        let wish: Wish = serde_json::from_slice(bytes)
            .map_err(|e| usage(format!("the line is no message: {}", why(bytes, &e))))?;
        let to = wish.to.as_deref().map(super::agent).transpose().map_err(usage)?;
        let to = to.or_else(|| self.to.clone()).ok_or_else(|| usage("the line has no \"to\"".to_owned()))?;
        let from = wish.from.as_deref().map(super::sender).transpose().map_err(usage)?;
        let from = super::send::named_or_own(from.or_else(|| self.from.clone()), self.caller)?;
        check_sender(self.caller, &from)?;
        let mut draft = Draft::new(from, to, wish.text);
        draft.kind = wish.kind;
        draft.thread = wish.thread;
        draft.reply_to = wish.reply_to;
        draft.requires_ack = wish.requires_ack;
        draft.ack_within =
            wish.ack_within.as_deref().map(duration::parse).transpose().map_err(|e| usage(e.to_string()))?;
        draft.for_generation =
            wish.for_generation.map(super::send::some_generation).transpose().map_err(usage)?;
        draft.trust = wish.trust;
        draft.id = wish.id;
        draft.vouched = self.vouched;
        draft.create = wish.create || self.create;
        Ok(draft)
    }
}

impl Tally {
    /// Sends a group, then answers each of its lines, in order.
    fn commit(&mut self, bus: &Bus<'_>, group: Vec<Pending>) -> Result<(), Error> {
        let (drafts, rest): (Vec<_>, Vec<_>) = group
            .into_iter()
            .map(|pending| match pending.draft {
                Ok(draft) => (Some(draft), (pending.line, pending.to, None)),
                Err(error) => (None, (pending.line, pending.to, Some(error))),
            })
            .unzip();
        let mut sent = bus.send_all(drafts.into_iter().flatten().collect()).into_iter();
        for (line, to, error) in rest {
            let outcome = match error {
                Some(error) => Err(error),
                None => sent.next().expect("one answer for each draft").map_err(Error::from),
            };
            self.answer(line, to.as_ref(), outcome)?;
        }
        Ok(())
    }

    fn answer(&mut self, line: u64, to: Option<&AgentId>, outcome: Result<Sent, Error>) -> Result<(), Error> {
        let answer = match &outcome {
            Ok(Sent { id, duplicate: false, .. }) => {
                json!({ "line": line, "id": id, "to": to, "sent": true })
            }
            Ok(Sent { id, .. }) => {
                json!({ "line": line, "id": id, "to": to, "sent": false, "duplicate": true })
            }
            Err(error) => {
                self.failed += 1;
                self.worst = self.worst.into_iter().chain([error.kind]).max_by_key(|kind| *kind as u8);
                json!({ "line": line, "error": output::one_line(&error.to_string()), "exit": error.kind as u8 })
            }
        };
        output::json_or_fail(&answer).map_err(|error| {
            let what = format!("stopped at line {line}: its answer could not be written: {error}");
            Error::new(Kind::Degraded, what).hint("lines without an answer may have been sent")
        })
    }

    fn end(self) -> Result<(), Error> {
        match self.worst {
            None => Ok(()),
            Some(kind) => {
                let what = format!("{} of {} messages were not sent", self.failed, self.lines);
                Err(Error::new(kind, what).hint("the answer of each says why"))
            }
        }
    }
}
