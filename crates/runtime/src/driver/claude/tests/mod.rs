//! Samples of what Claude Code 2.1.330 printed, and a caller that reads them by the rules; each file beside this one asks
//! something else of what is learnt from them.
//!
//! The samples are its own output, shortened: it was recorded with the request ids and messages of somebody else, of which
//! the ids of greeting, probe and interrupt were made ours. [`Talk::lead`] says what the caller did before each line.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::{Answer, Conversation, Driver, Learnt, Message, MessageKey, Out, Outcome, Write};
use super::Claude;

mod hostile;
mod memory;
mod replay;
mod samples;
mod start;

macro_rules! samples {
    ($($name:literal)*) => { [$(($name, include_str!(concat!("../../../../samples/claude-", $name, ".jsonl")))),*] };
}

const SAMPLES: [(&str, &str); 20] = samples!(
    "plain" "merged" "injected" "allowed" "denied" "question" "asked-twice" "interrupt" "interrupt-asked" "steered" "529" "401"
    "404-model" "hang-pings" "idle-timeout" "compaction" "known-uuid" "max-turns" "no-conversation" "controls"
);

/// The message of a sample that could not wait.
const STEERS: &str = "aaca240e-2791-4f86-8127-12192fc1b56d";

fn sample(name: &str) -> Vec<&'static str> {
    let found = SAMPLES.iter().find(|(known, _)| *known == name).expect("a sample");
    found.1.lines().collect()
}

fn now() -> Timestamp {
    "2026-11-26T18:00:00Z".parse().expect("a time")
}

fn key(uuid: &str) -> MessageKey {
    uuid.parse().expect("a key")
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).expect("a line of a sample")
}

/// A driver and a caller that keeps the rules.
#[derive(Clone, Default)]
struct Talk {
    claude: Claude,
    learnt: Vec<Learnt>,
    writes: Vec<Write>,
    /// What the caller did already.
    led: BTreeSet<String>,
    delivered: Vec<MessageKey>,
}

impl Talk {
    /// In a conversation that is begun now: that of these lines.
    fn about(lines: &[&str]) -> Talk {
        let id = lines
            .iter()
            .find_map(|line| Some(parse(line)["session_id"].as_str()?.to_owned()))
            .unwrap_or_default();
        let mut talk = Talk::default();
        talk.claude.begin(Some(&Conversation { id, begun: false }));
        talk
    }

    /// What the caller did before the program printed this.
    fn lead(&mut self, line: &str) {
        let line = parse(line);
        let id =
            line["response"]["request_id"].as_str().or(line["command_uuid"].as_str()).unwrap_or_default();
        if id.is_empty() || !self.led.insert(id.to_owned()) {
            return;
        }
        let (mut out, claude) = (Out::default(), &mut self.claude);
        match id {
            "netsky-greet" => claude.greet(&mut out),
            "netsky-probe-1" => claude.probe(1, &mut out),
            id if id.starts_with("netsky-gap-") => claude.gap(&mut out),
            id if id.starts_with("netsky-interrupt-") => claude.interrupt(&mut out),
            uuid if line["type"] == "command_lifecycle" => {
                let message = Message { key: key(uuid), text: "do it".to_owned() };
                claude.deliver(&message, uuid == STEERS, &mut out);
                self.delivered.push(message.key);
            }
            ask if claude.asks().iter().any(|known| known.id == ask) => {
                let said = &line["response"]["response"];
                let words =
                    said["message"].as_str().or(said["updatedInput"]["answers"]["Red or blue?"].as_str());
                let (allow, text) = (said["behavior"] == "allow", words.map(str::to_owned));
                claude.answer(&Answer { ask: ask.to_owned(), allow, text }, &mut out);
            }
            _ => {}
        }
        self.heed(out);
    }

    fn line(&mut self, line: &[u8]) -> bool {
        let mut out = Out::default();
        let progress = self.claude.line(line, now(), &mut out);
        self.heed(out);
        progress
    }

    /// As `drivers` does it.
    fn heed(&mut self, out: Out) {
        for learnt in &out.learnt {
            if let Learnt::TurnEnded(end) = learnt
                && matches!(end.outcome, Outcome::Failed { .. })
            {
                end.messages.iter().for_each(|key| self.claude.forget(key));
            }
        }
        self.learnt.extend(out.learnt);
        self.writes.extend(out.writes);
    }

    fn read(&mut self, lines: &[&str]) {
        for line in lines {
            self.lead(line);
            self.line(line.as_bytes());
        }
    }

    /// Which messages are dealt with, and which come again.
    fn fates(&self) -> (BTreeSet<MessageKey>, BTreeSet<MessageKey>) {
        let (mut finished, mut again) = (BTreeSet::new(), BTreeSet::new());
        for learnt in &self.learnt {
            match learnt {
                Learnt::Settled(key) => _ = finished.insert(key.clone()),
                Learnt::Untaken(key) => _ = again.insert(key.clone()),
                Learnt::TurnEnded(end) if matches!(end.outcome, Outcome::Failed { .. }) => {
                    again.extend(end.messages.iter().cloned());
                }
                Learnt::TurnEnded(end) => finished.extend(end.messages.iter().cloned()),
                _ => {}
            }
        }
        (finished, again)
    }

    fn deliver(&mut self, key: &MessageKey) -> String {
        let mut out = Out::default();
        self.claude.deliver(&Message { key: key.clone(), text: "do it".to_owned() }, false, &mut out);
        let line: Value = serde_json::from_slice(&out.writes[0].bytes).expect("a line");
        self.heed(out);
        line["uuid"].as_str().expect("a uuid").to_owned()
    }

    /// A turn of one message, as short as it can be.
    fn turn(&mut self, uuid: &str, result: &Value) {
        let state =
            |state: &str| json!({"type": "system", "subtype": "session_state_changed", "state": state});
        let life = |state: &str| json!({"type": "command_lifecycle", "command_uuid": uuid, "state": state});
        let mut result = result.clone();
        result["type"] = "result".into();
        for line in
            [state("running"), life("queued"), life("started"), result, life("completed"), state("idle")]
        {
            self.line(line.to_string().as_bytes());
        }
    }
}

/// Keys that ends of turns among these lines name.
fn named(lines: &[Value]) -> BTreeSet<MessageKey> {
    let ends = lines.iter().filter(|line| line["type"] == "result");
    let uuids = ends.flat_map(|line| line["user_message_uuids"].as_array().into_iter().flatten());
    uuids.filter_map(|uuid| uuid.as_str()?.parse().ok()).collect()
}

fn some_key(n: u32) -> MessageKey {
    MessageKey::derived(&["message", &n.to_string()])
}

fn good(uuid: &str) -> Value {
    json!({"is_error": false, "terminal_reason": "completed", "user_message_uuids": [uuid], "uuid": "r"})
}

fn bad(uuid: &str) -> Value {
    json!({"is_error": true, "terminal_reason": "api_error", "api_error_status": 529, "user_message_uuids": [uuid], "uuid": "r"})
}
