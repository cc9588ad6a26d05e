//! Codex as `app-server`: requests, answers and notifications as JSON lines, in both directions, over one thread.
//!
//! The receipt of a message is the item that it becomes: from its `item/completed` on it outlives the program, and the end
//! of its turn is the end of it. An answer to `turn/start` or `turn/steer` is none: what was accepted only is gone with the
//! program, or with the turn. Codex runs a message as often as it is given; that it goes in once is the worker's doing.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use jiff::Timestamp;
use netsky_kernel::drain::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Answer, Ask, Conversation, Doing, Driver, FINISHED, Learnt, Message, MessageKey, Out, Room, Tries, Wedge,
    keep_newest, without_mentions,
};

mod ask;
mod history;
#[cfg(test)]
mod hostile;
mod line;
mod start;
#[cfg(test)]
mod tests;
mod turn;

pub(super) use start::{INHERITED, has_conversation, start};

/// What is known of one Codex.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Codex {
    doing: Doing,
    /// It has answered the greeting.
    is_greeted: bool,
    /// Its thread is loaded: it takes messages.
    is_up: bool,
    version: Option<String>,
    /// Its id is the thread's, once there is one.
    conversation: Option<Conversation>,
    /// The turn that runs.
    turn: Option<Turn>,
    /// The turns that ended last: lists of turns name them again.
    ended: VecDeque<String>,
    /// Messages that it was given and that are in no turn for good.
    held: BTreeMap<MessageKey, Held>,
    /// Messages that were dealt with, newest last.
    finished: VecDeque<MessageKey>,
    /// Of this generation: each time under another name.
    tries: Tries,
    asks: Vec<Ask>,
    /// Tools that run, by their item's id.
    tools: BTreeMap<String, Tool>,
    /// The highest probe that was answered.
    heard: u64,
    /// What the thread has taken in its life.
    total: Option<Usage>,
    /// Lost output that was asked about.
    gaps: u64,
    #[serde(skip)]
    history: history::History,
}

/// A turn that runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Turn {
    id: String,
    /// What it was told, for good.
    messages: Vec<MessageKey>,
    usage: Usage,
}

/// A message on its way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Held {
    /// The request that it went in by.
    request: String,
    /// The turn that took it, by the answer to that.
    turn: Option<String>,
    /// How much output had been lost by then.
    gaps: u64,
}

/// A tool that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Tool {
    name: String,
    /// What it was given, on one line.
    input: String,
}

/// What begins a mention of a skill, a file or a plugin.
const MENTIONS: [char; 6] = ['$', '＄', '﹩', '@', '＠', '﹫'];

/// Whether a name may begin so: what a shell computes, or what something costs, is none.
fn is_named(c: char) -> bool {
    c.is_alphabetic() || "_/.~\"".contains(c)
}

impl Codex {
    /// What an earlier driver kept; a new one where it kept nothing that reads.
    pub(super) fn remember(memory: &Value) -> Codex {
        super::remember(memory)
    }

    fn request(out: &mut Out, id: &str, method: &str, params: &Value) {
        out.write(id, &json!({"id": id, "method": method, "params": params}));
    }

    fn reply(out: &mut Out, ask: &Ask, answer: &Answer) {
        let said = json!({"id": ask.detail["id"], "result": ask::said_to(ask, answer)});
        out.write(format!("answer:{}", ask.id), &said);
    }

    fn thread(&self) -> &str {
        self.conversation.as_ref().map_or("", |conversation| &conversation.id)
    }

    fn finish(&mut self, key: &MessageKey) {
        self.held.remove(key);
        if !self.finished.contains(key) {
            keep_newest(key.clone(), &mut self.finished, FINISHED);
        }
    }

    /// It was given and is nowhere: it comes again.
    fn lost(&mut self, key: MessageKey, out: &mut Out) {
        self.forget(&key);
        out.learn(Learnt::Untaken(key));
    }
}

impl Driver for Codex {
    fn begin(&mut self, conversation: Option<&Conversation>) {
        let finished = std::mem::take(&mut self.finished);
        *self = Codex { finished, conversation: conversation.cloned(), ..Codex::default() };
    }

    fn greet(&mut self, out: &mut Out) {
        let params = json!({
            "clientInfo": {"name": "netsky", "version": env!("CARGO_PKG_VERSION")},
            "capabilities": {"experimentalApi": true, "optOutNotificationMethods": start::UNWANTED},
        });
        Codex::request(out, start::GREET, "initialize", &params);
    }

    fn line(&mut self, line: &[u8], _now: Timestamp, out: &mut Out) -> bool {
        self.read(line, out)
    }

    fn gap(&mut self, out: &mut Out) {
        self.gaps += 1;
        let id = format!("netsky-gap-{}", self.gaps);
        if self.is_up {
            let params = json!({"threadId": self.thread(), "limit": 2, "itemsView": "full"});
            Codex::request(out, &id, "thread/turns/list", &params);
        } else {
            Codex::request(out, &id, "thread/loaded/list", &json!({}));
        }
    }

    fn room(&self) -> Room {
        match self.is_up {
            false => Room::None,
            true if self.turn.is_none() && self.held.is_empty() => Room::Free,
            true => Room::Steers,
        }
    }

    fn queues(&self) -> bool {
        // A second turn/start steers the turn of the first.
        false
    }

    fn holds(&self) -> usize {
        self.held.len() + self.turn.as_ref().map_or(0, |turn| turn.messages.len())
    }

    fn deliver(&mut self, message: &Message, steer: bool, out: &mut Out) {
        let key = &message.key;
        let request = match self.tries.of(key) {
            0 => format!("netsky-m-{key}"),
            tries => format!("netsky-m-{key}-{tries}"),
        };
        let text = without_mentions(&message.text, &MENTIONS, is_named);
        let mut params = json!({
            "threadId": self.thread(),
            "clientUserMessageId": key,
            "input": [{"type": "text", "text": text}],
        });
        let method = match self.turn.as_ref().filter(|_| steer) {
            Some(turn) => {
                params["expectedTurnId"] = turn.id.as_str().into();
                "turn/steer"
            }
            None => "turn/start",
        };
        Codex::request(out, &request, method, &params);
        self.held.insert(key.clone(), Held { request, turn: None, gaps: self.gaps });
    }

    fn interrupt(&mut self, out: &mut Out) {
        if let Some(turn) = &self.turn {
            let params = json!({"threadId": self.thread(), "turnId": turn.id});
            Codex::request(out, &format!("netsky-interrupt-{}", turn.id), "turn/interrupt", &params);
        }
    }

    fn answer(&mut self, answer: &Answer, out: &mut Out) {
        let Some(at) = self.asks.iter().position(|ask| ask.id == answer.ask) else { return };
        let ask = self.asks.remove(at);
        Codex::reply(out, &ask, answer);
        self.doing = self.unasked();
        out.learn(Learnt::Withdrawn { id: ask.id });
    }

    fn probe(&mut self, number: u64, out: &mut Out) {
        Codex::request(out, &format!("netsky-probe-{number}"), "server/diagnostics", &json!({}));
    }

    fn heard(&self) -> u64 {
        self.heard
    }

    fn doing(&self) -> &Doing {
        &self.doing
    }

    fn silence(&self) -> Option<Wedge> {
        match self.doing {
            Doing::Working => Some(Wedge::Stalled),
            Doing::WaitingForModel => Some(Wedge::NoAnswer),
            // It tries again by itself within moments, and no line says that it has.
            Doing::Throttled { .. } | Doing::FailedAuth { .. } if self.turn.is_some() => {
                Some(Wedge::NoAnswer)
            }
            _ => None,
        }
    }

    fn transcript(&self, env: &BTreeMap<String, String>) -> netsky_disk::Result<Option<PathBuf>> {
        start::transcript(env, self.thread())
    }

    fn recall(&mut self, line: &[u8]) {
        self.history.line(line);
    }

    fn recalled(&mut self) {
        for key in std::mem::take(&mut self.history).finished() {
            self.finish(&key);
        }
    }

    fn asks(&self) -> &[Ask] {
        &self.asks
    }

    fn has_finished(&self, key: &MessageKey) -> bool {
        self.finished.contains(key)
    }

    fn forget(&mut self, key: &MessageKey) {
        self.held.remove(key);
        self.finished.retain(|finished| finished != key);
        self.tries.set(key.clone(), self.tries.of(key).saturating_add(1));
    }

    fn memory(&self) -> Value {
        serde_json::to_value(self).expect("plain data becomes JSON")
    }
}
