//! One line that Claude Code prints, and what it changes.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::super::{
    Answer, Ask, AskKind, Conversation, Doing, Driver, Entry, Learnt, MOST, NO_ROOM, Out, Outcome, Trouble,
    TurnEnd, Wedge,
};
use super::super::{has_room_for, is_id, short};
use super::{Claude, turn};

impl Claude {
    /// Whether it was progress.
    pub(super) fn read(&mut self, line: &[u8], now: Timestamp, out: &mut Out) -> bool {
        // What is cut by its death, or is no line of the protocol, says nothing.
        let Ok(line) = serde_json::from_slice::<Value>(line) else { return false };
        let text = |key: &str| line[key].as_str().unwrap_or_default();
        match (text("type"), text("subtype")) {
            ("control_response", _) => return self.answered(&line["response"], out),
            ("control_request", _) => self.asked(&line, out),
            ("control_cancel_request", _) => self.withdrawn(text("request_id"), out),
            ("command_lifecycle", _) => self.lifecycle(text("command_uuid"), text("state"), out),
            ("system", "session_state_changed") => self.state(text("state"), out),
            ("system", "status") if text("status") == "requesting" => self.set(Doing::WaitingForModel, out),
            ("system", "api_retry") => self.retries(&line, now, out),
            ("system", "init") => self.init(&line, out),
            ("system", "compact_boundary") => {
                self.context = None;
                out.learn(Learnt::Compacted);
            }
            ("stream_event", _) if line["parent_tool_use_id"].is_null() => {
                return self.streams(&line["event"], out);
            }
            ("assistant", _) if line["parent_tool_use_id"].is_null() => self.says(&line["message"], out),
            ("user", _) if line["parent_tool_use_id"].is_null() => self.told(&line, out),
            ("result", _) => self.ended(&line, out),
            ("system" | "stream_event" | "assistant" | "user" | "keep_alive" | "rate_limit_event", _) => {}
            ("tool_progress" | "tool_use_summary" | "auth_status" | "prompt_suggestion", _) => {}
            ("", _) => return false,
            (other, _) => out.learn(Learnt::Unknown(short(other))),
        }
        true
    }

    fn set(&mut self, doing: Doing, out: &mut Out) {
        if self.doing != doing {
            self.doing = doing;
            out.learn(Learnt::Doing);
        }
    }

    /// What it does once nobody is asked any more.
    pub(super) fn unasked(&self) -> Doing {
        match (self.asks.first(), self.tools.values().next_back()) {
            (Some(ask), _) => Doing::Blocked { on: ask.text.clone() },
            (None, Some(tool)) => Doing::ToolRunning { tool: tool.clone() },
            (None, None) if self.is_idle => Doing::Idle,
            (None, None) => Doing::WaitingForModel,
        }
    }

    /// An answer to what we asked; an answer to a probe is no progress.
    fn answered(&mut self, response: &Value, out: &mut Out) -> bool {
        let id = response["request_id"].as_str().unwrap_or_default();
        if let Some(number) = id.strip_prefix("netsky-probe-").and_then(|number| number.parse().ok()) {
            self.heard = self.heard.max(number);
            return false;
        }
        if id != "netsky-greet" && !id.starts_with("netsky-gap-") {
            // It says our own answers again: who reads from before the answer learns here that there was one.
            if self.asks.iter().any(|ask| ask.id == id) {
                self.withdrawn(id, out);
            }
            return true;
        }
        if response["subtype"] == "error" {
            // To what is asked after lost output it may say that it was greeted before.
            if !self.is_up && id == "netsky-greet" {
                let why = short(response["error"].as_str().unwrap_or("it does not say why"));
                out.learn(Learnt::Said(Entry::Note { text: why.clone() }));
                self.set(Doing::Wedged { how: Wedge::Refused, why }, out);
            }
            return true;
        }
        let said = &response["response"];
        let version = said["claude_code_version"].as_str().map(short);
        if !self.is_up {
            self.is_up = true;
            out.learn(Learnt::Up { version });
            if matches!(self.doing, Doing::Wedged { .. }) {
                let doing = self.unasked();
                self.set(doing, out);
            }
        }
        // Whoever waits for an answer by now is told with it.
        let mut waiting = response["pending_permission_requests"].as_array().cloned().unwrap_or_default();
        self.asks.retain(|ask| waiting.iter().any(|request| request["request_id"] == *ask.id));
        waiting.retain(|request| self.asks.iter().all(|ask| request["request_id"] != *ask.id));
        for request in waiting {
            self.asked(&request, out);
        }
        if let Some(state) = said["session_state"].as_str() {
            self.state(state, out);
        }
        true
    }

    fn asked(&mut self, line: &Value, out: &mut Out) {
        let (id, request) = (&line["request_id"], &line["request"]);
        let Some(id) = id.as_str().filter(|id| request["subtype"] == "can_use_tool" && is_id(id)) else {
            if let Some(other) = request["subtype"].as_str() {
                out.learn(Learnt::Unknown(format!("control_request {}", short(other))));
            }
            return;
        };
        let tool = short(request["tool_name"].as_str().unwrap_or("a tool"));
        let kind = if tool == "AskUserQuestion" { AskKind::Question } else { AskKind::Permission };
        let ask = Ask {
            id: id.to_owned(),
            kind,
            text: turn::asks_for(&tool, &request["input"]),
            tool,
            detail: turn::detail(kind, &request["input"]),
        };
        if self.asks.iter().all(|known| known.id != ask.id) {
            if !has_room_for(&self.asks, &ask) {
                let no = Answer { ask: ask.id.clone(), allow: false, text: Some(NO_ROOM.to_owned()) };
                Claude::reply(out, &ask, &no);
                return out.learn(Learnt::Unknown("more questions than are kept: refused".to_owned()));
            }
            self.asks.push(ask.clone());
            out.learn(Learnt::Asked(ask));
        }
        let doing = self.unasked();
        self.set(doing, out);
    }

    fn withdrawn(&mut self, id: &str, out: &mut Out) {
        self.asks.retain(|ask| ask.id != id);
        out.learn(Learnt::Withdrawn { id: id.to_owned() });
        let doing = self.unasked();
        self.set(doing, out);
    }

    fn lifecycle(&mut self, uuid: &str, state: &str, out: &mut Out) {
        let Some(key) = self.held.get(uuid).cloned() else { return };
        let has_begun = self.started.iter().any(|started| started == uuid);
        // Where output was lost, it may have begun in there, and ended in any way.
        let is_doubtful = self.doubtful.iter().any(|doubtful| doubtful == uuid);
        match state {
            "started" if !has_begun => {
                self.started.push(uuid.to_owned());
                self.begin_conversation(out);
            }
            // Of what is in a turn the turn's end tells. What never began is known to the program from before, and it
            // says so of what was cut as well.
            "completed" if !has_begun && !is_doubtful => {
                self.forget(&key);
                out.learn(Learnt::Untaken(key));
            }
            "cancelled" if !has_begun && !is_doubtful => {
                self.finish(key.clone());
                out.learn(Learnt::Settled(key));
            }
            _ => {}
        }
    }

    /// From here on there is something to go on with.
    fn begin_conversation(&mut self, out: &mut Out) {
        if let Some(conversation) = self.conversation.as_mut().filter(|conversation| !conversation.begun) {
            conversation.begun = true;
            out.learn(Learnt::Conversation(conversation.clone()));
        }
    }

    fn state(&mut self, state: &str, out: &mut Out) {
        match state {
            "idle" => {
                self.is_idle = true;
                self.is_in_turn = false;
                self.tools.clear();
                for ask in self.asks.drain(..) {
                    out.learn(Learnt::Withdrawn { id: ask.id });
                }
                self.give_back_doubtful(out);
                // Until a turn fares better.
                if !matches!(self.doing, Doing::FailedAuth { .. }) {
                    self.set(Doing::Idle, out);
                }
            }
            "running" => {
                self.is_idle = false;
                self.begin_turn(out);
            }
            _ => {}
        }
    }

    fn begin_turn(&mut self, out: &mut Out) {
        if !std::mem::replace(&mut self.is_in_turn, true) {
            out.learn(Learnt::TurnBegan);
            self.is_pinged = false;
            self.set(Doing::WaitingForModel, out);
        }
    }

    /// It has nothing more to do: what it had when output was lost, and no receipt tells of, comes again.
    fn give_back_doubtful(&mut self, out: &mut Out) {
        for uuid in std::mem::take(&mut self.doubtful) {
            let Some(key) = self.held.get(&uuid).cloned() else { continue };
            self.started.retain(|started| *started != uuid);
            self.forget(&key);
            out.learn(Learnt::Untaken(key));
        }
    }

    /// It says this in each turn.
    fn init(&mut self, line: &Value, out: &mut Out) {
        self.begin_turn(out);
        if let Some(model) = line["model"].as_str() {
            out.learn(Learnt::Model(short(model)));
        }
        let Some(id) = line["session_id"].as_str().filter(|id| is_id(id)) else { return };
        if self.conversation.as_ref().is_none_or(|known| known.id != id) {
            let conversation = Conversation { id: id.to_owned(), begun: true };
            self.conversation = Some(conversation.clone());
            out.learn(Learnt::Conversation(conversation));
        }
    }

    fn retries(&mut self, line: &Value, now: Timestamp, out: &mut Out) {
        let error = line["error"].as_str().unwrap_or("unknown");
        let status = line["error_status"].as_u64();
        let why = match status {
            Some(status) => format!("{} ({status})", short(error)),
            None => short(error),
        };
        let doing = match status {
            Some(401 | 403) => Doing::FailedAuth { why },
            Some(429 | 500..) => {
                let delay = line["retry_delay_ms"].as_u64().and_then(|ms| i64::try_from(ms).ok());
                let until = delay.and_then(|ms| now.checked_add(SignedDuration::from_millis(ms)).ok());
                Doing::Throttled { until: until.and_then(|at| at.round(jiff::Unit::Second).ok()), why }
            }
            // No answer came in its own time: what the model does is as unknown as before.
            _ => Doing::WaitingForModel,
        };
        self.set(doing, out);
    }

    /// Whether it was progress: a sign of life of the connection is none.
    fn streams(&mut self, event: &Value, out: &mut Out) -> bool {
        match event["type"].as_str() {
            Some("ping") => {
                self.is_pinged = true;
                return false;
            }
            Some("message_start") => self.set(Doing::Working, out),
            _ => {}
        }
        self.is_pinged = false;
        true
    }

    fn says(&mut self, message: &Value, out: &mut Out) {
        for part in message["content"].as_array().into_iter().flatten() {
            match part["type"].as_str() {
                Some("text") => {
                    let text = part["text"].as_str().unwrap_or_default().to_owned();
                    out.learn(Learnt::Said(Entry::Agent { text }));
                }
                Some("tool_use") => {
                    let name = short(part["name"].as_str().unwrap_or("a tool"));
                    if let Some(id) = part["id"].as_str().filter(|id| self.tools.len() < MOST && is_id(id)) {
                        self.tools.insert(id.to_owned(), name.clone());
                    }
                    out.learn(Learnt::Said(Entry::Tool { name, input: turn::is_for(&part["input"]) }));
                    let doing = self.unasked();
                    self.set(doing, out);
                }
                _ => {}
            }
        }
        if message["model"] != "<synthetic>" {
            let usage = turn::usage(&message["usage"]);
            let parts = [usage.input, usage.cache_read, usage.cache_write, usage.output];
            self.context = Some(parts.into_iter().fold(0, u64::saturating_add));
            self.tell_context(out);
        }
    }

    fn tell_context(&self, out: &mut Out) {
        if let (Some(used), Some(window)) = (self.context, self.window.filter(|window| *window > 0)) {
            let pct = (used.saturating_mul(100) / window).min(100);
            out.learn(Learnt::Context(u8::try_from(pct).unwrap_or(100)));
        }
    }

    /// What was put before the model: a prompt, or what a tool gave back.
    fn told(&mut self, line: &Value, out: &mut Out) {
        // What it says itself in the user's name (a summary, an interrupt) was put before it by nobody.
        if line["isReplay"] == true {
            out.learn(Learnt::Said(Entry::User { text: turn::text_of(&line["message"]["content"]) }));
        }
        for part in line["message"]["content"].as_array().into_iter().flatten() {
            if part["type"] != "tool_result" {
                continue;
            }
            if let Some(id) = part["tool_use_id"].as_str() {
                self.tools.remove(id);
            }
            let text = turn::text_of(&part["content"]);
            out.learn(Learnt::Said(Entry::Result { failed: part["is_error"] == true, text }));
            let doing = self.unasked();
            self.set(doing, out);
        }
    }

    fn ended(&mut self, line: &Value, out: &mut Out) {
        if let Some(why) = turn::no_conversation(line) {
            out.learn(Learnt::NoConversation(why));
            return;
        }
        let outcome = turn::outcome(line);
        let mut uuids = turn::messages(line);
        if uuids.is_empty() {
            uuids = std::mem::take(&mut self.started);
        }
        self.started.retain(|started| !uuids.contains(started));
        let mut messages = Vec::new();
        let has_failed = matches!(outcome, Outcome::Failed { .. });
        for uuid in uuids {
            let known = self.held.remove(&uuid);
            // One that is not was given by a netsky-drivers that died before it could write that down.
            let unknown = || self.key_of(&uuid).filter(|key| !has_failed && !self.finished.contains(key));
            let Some(key) = known.or_else(unknown) else { continue };
            if !has_failed {
                self.finish(key.clone());
            }
            messages.push(key);
        }
        self.tools.clear();
        if let Some(window) = turn::window(&line["modelUsage"]) {
            self.window = Some(window);
        }
        self.tell_context(out);
        let mut usage = turn::usage(&line["usage"]);
        usage.cost_micros = turn::cost(&line["model_usage_since_last_result"]);
        let id = line["uuid"].as_str().filter(|id| is_id(id)).unwrap_or_default().to_owned();
        self.ended.clone_from(&id);
        self.is_in_turn = false;
        if let Outcome::Failed { trouble: Trouble::Auth, why } = &outcome {
            self.set(Doing::FailedAuth { why: why.clone() }, out);
        }
        out.learn(Learnt::TurnEnded(TurnEnd { outcome, messages, usage, id }));
    }
}
