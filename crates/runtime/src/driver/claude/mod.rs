//! Claude Code over its stream of JSON lines, as a child on pipes that lives for many turns.
//!
//! The receipt of a message is the program's own: it says `queued`, `started`, and `completed` or `cancelled` of each UUID that
//! it was given, and takes none twice. It takes none twice also where its turn failed, or was cut while a tool ran; what is to
//! be told again then goes under another UUID that derives from the first ([`Claude::uuid`]).

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Answer, Ask, Conversation, Doing, Driver, FINISHED, Learnt, Message, MessageKey, Out, Room, Tries, Wedge,
    keep_newest, without_mentions,
};

mod history;
mod line;
mod start;
#[cfg(test)]
mod tests;
mod turn;

pub(super) use start::{INHERITED, has_conversation, start};

/// What begins a mention of a file, an agent or a resource.
const MENTIONS: [char; 3] = ['@', '＠', '﹫'];

/// What is known of one Claude Code.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Claude {
    doing: Doing,
    /// It answered our greeting.
    is_up: bool,
    /// It says that it waits for a message.
    is_idle: bool,
    /// A turn is under way. Several may follow each other before it waits again.
    is_in_turn: bool,
    conversation: Option<Conversation>,
    /// Messages in its hands, by the UUID that they were given under.
    held: BTreeMap<String, MessageKey>,
    /// Of those, what has begun.
    started: Vec<String>,
    /// Messages that were dealt with, newest last.
    finished: VecDeque<MessageKey>,
    tries: Tries,
    /// What was in its hands when output was lost: its receipts may be in there.
    doubtful: Vec<String>,
    /// The program's name of the turn that ended last.
    ended: String,
    asks: Vec<Ask>,
    /// Tools that run, by the program's id of the call.
    tools: BTreeMap<String, String>,
    /// The answer's connection lives and carries nothing.
    is_pinged: bool,
    /// The highest probe that was answered.
    heard: u64,
    /// Tokens of the newest request, and how many there may be.
    context: Option<u64>,
    window: Option<u64>,
    /// Lost output that was asked about.
    gaps: u64,
    #[serde(skip)]
    history: history::History,
}

impl Claude {
    /// What an earlier driver kept.
    pub(super) fn remember(memory: &Value) -> Claude {
        super::remember(memory)
    }

    /// Under which UUID a message is given: its key, or what derives from that where it was given in vain.
    fn uuid(&self, key: &MessageKey) -> String {
        match self.tries.of(key) {
            0 => key.to_string(),
            n => MessageKey::derived(&["again", key.as_str(), &n.to_string()]).to_string(),
        }
    }

    /// Which message goes under a UUID.
    fn key_of(&self, uuid: &str) -> Option<MessageKey> {
        let again = self.tries.keys().find(|key| self.uuid(key) == uuid).cloned();
        // One that was given in vain goes under its own no more.
        again.or_else(|| uuid.parse().ok().filter(|key| self.tries.of(key) == 0))
    }

    fn finish(&mut self, key: MessageKey) {
        self.held.retain(|_, held| *held != key);
        if !self.finished.contains(&key) {
            keep_newest(key, &mut self.finished, FINISHED);
        }
    }

    fn reply(out: &mut Out, ask: &Ask, answer: &Answer) {
        let response =
            json!({"subtype": "success", "request_id": ask.id, "response": turn::said_to(ask, answer)});
        out.write(format!("answer:{}", ask.id), &json!({"type": "control_response", "response": response}));
    }

    fn control(out: &mut Out, id: &str, request: &Value) {
        out.write(id, &json!({"type": "control_request", "request_id": id, "request": request}));
    }
}

impl Driver for Claude {
    fn begin(&mut self, conversation: Option<&Conversation>) {
        let (finished, tries) = (std::mem::take(&mut self.finished), std::mem::take(&mut self.tries));
        *self = Claude { finished, tries, conversation: conversation.cloned(), ..Claude::default() };
    }

    fn greet(&mut self, out: &mut Out) {
        Claude::control(out, "netsky-greet", &json!({"subtype": "initialize"}));
    }

    fn line(&mut self, line: &[u8], now: Timestamp, out: &mut Out) -> bool {
        self.read(line, now, out)
    }

    fn gap(&mut self, out: &mut Out) {
        self.gaps += 1;
        self.doubtful = self.held.keys().cloned().collect();
        let id = format!("netsky-gap-{}", self.gaps);
        Claude::control(out, &id, &json!({"subtype": "initialize"}));
    }

    fn room(&self) -> Room {
        match self.is_up {
            false => Room::None,
            true if self.is_idle && self.held.is_empty() => Room::Free,
            true => Room::Steers,
        }
    }

    fn queues(&self) -> bool {
        true
    }

    fn holds(&self) -> usize {
        self.held.len()
    }

    fn deliver(&mut self, message: &Message, steer: bool, out: &mut Out) {
        let uuid = self.uuid(&message.key);
        let mut line = json!({
            "type": "user",
            "uuid": uuid,
            "session_id": "",
            "parent_tool_use_id": null,
            "message": {"role": "user", "content": [{"type": "text", "text": without_mentions(&message.text, &MENTIONS, |_| true)}]},
        });
        if steer {
            // At the next call of a tool or its end; "now" would break off the turn, and with it what it was about.
            line["priority"] = "next".into();
        }
        out.write(format!("m:{uuid}"), &line);
        self.held.insert(uuid, message.key.clone());
    }

    fn interrupt(&mut self, out: &mut Out) {
        // A turn of its own has none of our messages: then it is the one behind the last.
        let turn = if self.started.is_empty() { self.ended.clone() } else { self.started.join(",") };
        let id = format!("netsky-interrupt-{turn}");
        Claude::control(out, &id, &json!({"subtype": "interrupt"}));
    }

    fn answer(&mut self, answer: &Answer, out: &mut Out) {
        let Some(at) = self.asks.iter().position(|ask| ask.id == answer.ask) else { return };
        let ask = self.asks.remove(at);
        Claude::reply(out, &ask, answer);
        self.doing = self.unasked();
        out.learn(Learnt::Withdrawn { id: ask.id });
    }

    fn probe(&mut self, number: u64, out: &mut Out) {
        Claude::control(out, &format!("netsky-probe-{number}"), &json!({"subtype": "get_binary_version"}));
    }

    fn heard(&self) -> u64 {
        self.heard
    }

    fn doing(&self) -> &Doing {
        &self.doing
    }

    fn silence(&self) -> Option<Wedge> {
        match self.doing {
            Doing::WaitingForModel => Some(Wedge::NoAnswer),
            Doing::Working if self.is_pinged => Some(Wedge::PingsOnly),
            Doing::Working => Some(Wedge::Stalled),
            // It tries again by itself, and no line says that it has.
            Doing::Throttled { .. } | Doing::FailedAuth { .. } if self.room() == Room::Steers => {
                Some(Wedge::NoAnswer)
            }
            _ => None,
        }
    }

    fn transcript(&self, env: &BTreeMap<String, String>) -> netsky_disk::Result<Option<PathBuf>> {
        let id = self.conversation.as_ref().map_or("", |conversation| &conversation.id);
        start::transcript(env, id)
    }

    fn recall(&mut self, line: &[u8]) {
        self.history.line(line);
    }

    fn recalled(&mut self) {
        let history = std::mem::take(&mut self.history);
        for (key, fate) in history.newest(FINISHED) {
            if fate.answered {
                self.finish(key);
            } else {
                let seen = fate.in_vain();
                if seen > self.tries.of(&key) {
                    self.tries.set(key, seen);
                }
            }
        }
    }

    fn asks(&self) -> &[Ask] {
        &self.asks
    }

    fn has_finished(&self, key: &MessageKey) -> bool {
        self.finished.contains(key)
    }

    fn forget(&mut self, key: &MessageKey) {
        self.held.retain(|_, held| held != key);
        self.finished.retain(|finished| finished != key);
        self.tries.set(key.clone(), self.tries.of(key).saturating_add(1));
    }

    fn memory(&self) -> Value {
        serde_json::to_value(self).expect("plain data becomes JSON")
    }
}
