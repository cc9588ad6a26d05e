//! A turn of Codex: its items, what it takes, how it ends.

use netsky_kernel::drain::Usage;
use serde_json::Value;

use super::super::{Doing, Entry, Learnt, MOST, MessageKey, Out, Outcome, Trouble, TurnEnd};
use super::super::{is_id, keep_newest, short};
use super::{Codex, Tool, Turn};

/// So many turns that ended are known by their names: more than a list of turns has.
const ENDED: usize = 4;

impl Codex {
    /// A turn runs.
    pub(super) fn run(&mut self, id: &str, out: &mut Out) {
        if self.turn.as_ref().is_some_and(|turn| turn.id == id) || !is_id(id) {
            return;
        }
        self.turn = Some(Turn { id: id.to_owned(), ..Turn::default() });
        self.tools.clear();
        out.learn(Learnt::TurnBegan);
        let doing = self.unasked();
        self.set(doing, out);
    }

    fn is_current(&self, turn: &Value) -> bool {
        self.turn.as_ref().is_some_and(|current| *turn == *current.id)
    }

    /// The model speaks, or thinks aloud.
    pub(super) fn speaks(&mut self, out: &mut Out) {
        if self.turn.is_some() && self.asks.is_empty() && self.tools.is_empty() {
            self.set(Doing::Working, out);
        }
    }

    pub(super) fn item_began(&mut self, params: &Value, out: &mut Out) {
        let item = &params["item"];
        match item["type"].as_str() {
            Some("agentMessage" | "reasoning" | "plan") => self.speaks(out),
            // It is the model that sums up.
            Some("contextCompaction") => {
                let doing = self.unasked();
                self.set(doing, out);
            }
            _ => {
                // What was left behind by an earlier turn excuses no silence of this one.
                if let Some((id, tool)) = tool(item).filter(|_| self.is_current(&params["turnId"])) {
                    self.uses(id, tool, out);
                    let doing = self.unasked();
                    self.set(doing, out);
                }
            }
        }
    }

    pub(super) fn item_ended(&mut self, params: &Value, out: &mut Out) {
        let item = &params["item"];
        let text = || item["text"].as_str().unwrap_or_default().to_owned();
        match item["type"].as_str() {
            Some("userMessage") => {
                out.learn(Learnt::Said(Entry::User { text: text_of(&item["content"]) }));
                if let Some(turn) = params["turnId"].as_str() {
                    self.took(item, turn, out);
                }
                let doing = self.unasked();
                self.set(doing, out);
            }
            Some("agentMessage" | "plan") => out.learn(Learnt::Said(Entry::Agent { text: text() })),
            Some("contextCompaction") => out.learn(Learnt::Compacted),
            _ => {
                let Some((id, _)) = tool(item) else { return };
                self.tools.remove(&id);
                let (failed, text) = came_back(item);
                out.learn(Learnt::Said(Entry::Result { failed, text }));
                let doing = self.unasked();
                self.set(doing, out);
            }
        }
    }

    /// A message is in a turn for good. One that we do not know of was given by a driver that did not live to write it down.
    pub(super) fn took(&mut self, item: &Value, turn: &str, out: &mut Out) {
        if item["type"] != "userMessage" {
            return;
        }
        self.run(turn, out);
        self.begin_conversation(out);
        let Some(key) = key_of(item) else { return };
        self.held.remove(&key);
        if let Some(turn) = &mut self.turn
            && turn.messages.len() < MOST
            && !turn.messages.contains(&key)
        {
            turn.messages.push(key);
        }
    }

    /// What a request to the model took. The sums are the thread's: a turn's are what they rose by.
    pub(super) fn counted(&mut self, params: &Value, out: &mut Out) {
        let said = &params["tokenUsage"];
        let total = usage(&said["total"]);
        let spent = match &self.total {
            Some(before) => risen(&total, before),
            None => usage(&said["last"]),
        };
        if self.is_current(&params["turnId"])
            && let Some(turn) = &mut self.turn
        {
            turn.usage.add(&spent);
        }
        self.total = Some(total);
        let (used, window) = (said["last"]["totalTokens"].as_u64(), said["modelContextWindow"].as_u64());
        if let (Some(used), Some(window)) = (used, window.filter(|window| *window > 0)) {
            let pct = (used.saturating_mul(100) / window).min(100);
            out.learn(Learnt::Context(u8::try_from(pct).unwrap_or(100)));
        }
    }

    /// A turn is over, by its last line or by a list of turns.
    pub(super) fn ended(&mut self, said: &Value, out: &mut Out) {
        let Some(id) = said["id"].as_str().filter(|id| is_id(id)).map(str::to_owned) else { return };
        let turn = self.turn.take_if(|turn| turn.id == id).unwrap_or_default();
        let outcome = outcome(said);
        if !matches!(outcome, Outcome::Failed { .. }) {
            for key in &turn.messages {
                self.finish(key);
            }
        }
        self.tools.clear();
        for ask in self.asks.extract_if(.., |ask| ask.detail["turnId"] == *id) {
            out.learn(Learnt::Withdrawn { id: ask.id });
        }
        let doing = match &outcome {
            Outcome::Failed { trouble: Trouble::Auth, why } => Doing::FailedAuth { why: why.clone() },
            _ if self.turn.is_none() && self.asks.is_empty() => Doing::Idle,
            _ => self.unasked(),
        };
        self.set(doing, out);
        keep_newest(id.clone(), &mut self.ended, ENDED);
        out.learn(Learnt::TurnEnded(TurnEnd {
            outcome,
            messages: turn.messages,
            usage: turn.usage,
            id: id.clone(),
        }));
        // What it had accepted and not put before the model went with it.
        let gone: Vec<MessageKey> = self
            .held
            .iter()
            .filter(|(_, held)| held.turn.as_ref() == Some(&id))
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            self.lost(key, out);
        }
    }
}

/// The message that an item is, where it is one of ours.
pub(super) fn key_of(item: &Value) -> Option<MessageKey> {
    item["clientId"].as_str().filter(|_| item["type"] == "userMessage")?.parse().ok()
}

/// How a turn ended.
fn outcome(turn: &Value) -> Outcome {
    match turn["status"].as_str() {
        Some("completed") => Outcome::Done,
        Some("interrupted") => Outcome::Interrupted,
        _ => {
            let error = &turn["error"];
            let why = short(error["message"].as_str().unwrap_or("it does not say why"));
            Outcome::Failed { trouble: trouble(error), why }
        }
    }
}

/// What an error means, by its kind, the provider's status, or its words.
pub(super) fn trouble(error: &Value) -> Trouble {
    let info = &error["codexErrorInfo"];
    let kinds = info.as_object();
    let status = kinds.and_then(|kinds| kinds.values().find_map(|kind| kind["httpStatusCode"].as_u64()));
    let words =
        || ["message", "additionalDetails"].map(|key| error[key].as_str().unwrap_or_default()).join(" ");
    match (info.as_str().unwrap_or_default(), status) {
        ("unauthorized", _) | (_, Some(401 | 403)) => Trouble::Auth,
        ("modelNotFound", _) | (_, Some(404)) => Trouble::Model,
        ("usageLimitExceeded" | "rateLimitExceeded" | "serverOverloaded" | "internalServerError", _)
        | ("flexUnavailable" | "policyCapacityUnavailable", _)
        | (_, Some(429 | 500..)) => Trouble::Overloaded,
        (_, Some(_)) => Trouble::Other,
        // It has a kind that bears a status, and no answer to take one from.
        _ if kinds.is_some_and(|kinds| kinds.values().any(|kind| kind.get("httpStatusCode").is_some())) => {
            Trouble::Silent
        }
        _ if words().contains("Missing environment variable") => Trouble::Auth,
        _ if ["stream disconnected", "timeout", "timed out"].iter().any(|word| words().contains(word)) => {
            Trouble::Silent
        }
        _ => Trouble::Other,
    }
}

/// The tool that an item is the use of, under the item's id.
pub(super) fn tool(item: &Value) -> Option<(String, Tool)> {
    let text = |key: &str| item[key].as_str().unwrap_or_default();
    let (name, input) = match item["type"].as_str()? {
        "commandExecution" => ("exec_command", text("command").to_owned()),
        "fileChange" => ("apply_patch", paths(item)),
        "mcpToolCall" => (text("tool"), format!("{} {}", text("server"), item["arguments"])),
        "dynamicToolCall" => (text("tool"), item["arguments"].to_string()),
        "collabAgentToolCall" => (text("tool"), text("prompt").to_owned()),
        "webSearch" => ("web_search", text("query").to_owned()),
        "imageView" => ("view_image", text("path").to_owned()),
        "imageGeneration" => ("image_generation", String::new()),
        "sleep" => ("sleep", String::new()),
        _ => return None,
    };
    let name = if name.is_empty() { "a tool" } else { name };
    let id = item["id"].as_str().filter(|id| is_id(id))?;
    Some((id.to_owned(), Tool { name: short(name), input: short(&input) }))
}

/// The files that a change is of.
fn paths(item: &Value) -> String {
    let changes = item["changes"].as_array().into_iter().flatten();
    changes.filter_map(|change| change["path"].as_str()).collect::<Vec<_>>().join(" ")
}

/// What a tool gave back, and whether it failed.
fn came_back(item: &Value) -> (bool, String) {
    let is_bad = matches!(item["status"].as_str(), Some("failed" | "declined")) || item["success"] == false;
    let exit = item["exitCode"].as_i64().filter(|code| *code != 0);
    let said = [&item["aggregatedOutput"], &item["error"]["message"]].into_iter().find_map(Value::as_str);
    let texts = [&item["result"]["content"], &item["contentItems"]].map(text_of);
    let text = said.map_or_else(|| texts.concat(), str::to_owned);
    (is_bad || exit.is_some(), text)
}

/// The texts in a list of parts.
fn text_of(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten();
    parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// Tokens, as Codex counts them: what comes from the cache, or goes there, is a part of what is read.
fn usage(said: &Value) -> Usage {
    let count = |key: &str| said[key].as_u64().unwrap_or(0);
    let (read, written) = (count("cachedInputTokens"), count("cacheWriteInputTokens"));
    Usage {
        input: count("inputTokens").saturating_sub(read).saturating_sub(written),
        output: count("outputTokens"),
        cache_read: read,
        cache_write: written,
        cost_micros: None,
    }
}

fn risen(now: &Usage, before: &Usage) -> Usage {
    Usage {
        input: now.input.saturating_sub(before.input),
        output: now.output.saturating_sub(before.output),
        cache_read: now.cache_read.saturating_sub(before.cache_read),
        cache_write: now.cache_write.saturating_sub(before.cache_write),
        cost_micros: None,
    }
}
