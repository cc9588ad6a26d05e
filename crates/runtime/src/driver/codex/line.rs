//! One line that Codex prints, and what it changes.

use serde_json::{Value, json};

use super::super::{Conversation, Doing, Entry, Learnt, MOST, Out, Trouble};
use super::super::{is_id, short};
use super::{Codex, Held, Tool, start, turn};

/// What it may say and nothing follows from.
const KNOWN: [&str; 71] = [
    "account/gatewayOAuth/changed",
    "account/login/completed",
    "account/rateLimits/updated",
    "account/updated",
    "app/list/updated",
    "autoApprovalReview/strictReviewRequired",
    "command/exec/outputDelta",
    "deprecationNotice",
    "externalAgentConfig/import/completed",
    "externalAgentConfig/import/progress",
    "fs/changed",
    "fuzzyFileSearch/sessionCompleted",
    "fuzzyFileSearch/sessionUpdated",
    "hook/completed",
    "hook/started",
    "item/autoApprovalReview/completed",
    "item/autoApprovalReview/started",
    "item/commandExecution/outputDelta",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/mcpToolCall/progress",
    "mcpServer/event/stream/notification",
    "mcpServer/oauthLogin/completed",
    "mcpServer/startupStatus/updated",
    "model/rerouted",
    "model/safetyBuffering/updated",
    "model/verification",
    "modelProvider/authRecoveryCompleted",
    "modelProvider/authRecoveryStarted",
    "process/exited",
    "process/outputDelta",
    "project/changed",
    "rawResponse/completed",
    "rawResponseItem/completed",
    "remoteControl/status/changed",
    "skills/changed",
    "thread/archived",
    "thread/attachment/updated",
    "thread/closed",
    "thread/compacted",
    "thread/deleted",
    "thread/environment/connected",
    "thread/environment/disconnected",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/prediction/updated",
    "thread/project/updated",
    "thread/queue/changed",
    "thread/readState/changed",
    "thread/realtime/closed",
    "thread/realtime/error",
    "thread/realtime/item/completed",
    "thread/realtime/item/started",
    "thread/realtime/item/transcript/delta",
    "thread/realtime/itemAdded",
    "thread/realtime/outputAudio/delta",
    "thread/realtime/sdp",
    "thread/realtime/started",
    "thread/realtime/transcript/delta",
    "thread/realtime/transcript/done",
    "thread/reverted",
    "thread/section/changed",
    "thread/settings/updated",
    "thread/started",
    // The turn's own lines say the same, in their order.
    "thread/status/changed",
    "thread/unarchived",
    "turn/diff/updated",
    "turn/moderationMetadata",
    "turn/plan/updated",
];

impl Codex {
    /// Whether it was progress.
    pub(super) fn read(&mut self, line: &[u8], out: &mut Out) -> bool {
        // What is cut by its death, or is no line of the protocol, says nothing.
        let Ok(line) = serde_json::from_slice::<Value>(line) else { return false };
        // Its requests and ours count their ids apart: who says a method asks.
        match (line["method"].as_str(), line.get("id").filter(|id| !id.is_null())) {
            (Some(method), Some(id)) => self.asked(method, id, &line["params"], out),
            (Some(method), None) => return self.told(method, &line["params"], out),
            (None, Some(id)) => return self.answered(id.as_str().unwrap_or_default(), &line, out),
            (None, None) => return false,
        }
        true
    }

    pub(super) fn set(&mut self, doing: Doing, out: &mut Out) {
        if self.doing != doing {
            self.doing = doing;
            out.learn(Learnt::Doing);
        }
    }

    /// What it does once nobody is asked any more.
    pub(super) fn unasked(&self) -> Doing {
        match (self.asks.first(), self.tools.values().next_back(), &self.turn) {
            (Some(ask), _, _) => Doing::Blocked { on: ask.text.clone() },
            (None, Some(tool), _) => Doing::ToolRunning { tool: tool.name.clone() },
            (None, None, Some(_)) => Doing::WaitingForModel,
            (None, None, None) => match &self.doing {
                kept @ (Doing::Starting | Doing::FailedAuth { .. }) => kept.clone(),
                _ => Doing::Idle,
            },
        }
    }

    /// An answer to what we asked; an answer to a probe is no progress.
    fn answered(&mut self, id: &str, answer: &Value, out: &mut Out) -> bool {
        let result = &answer["result"];
        if let Some(number) = id.strip_prefix("netsky-probe-").and_then(|number| number.parse().ok()) {
            self.heard = self.heard.max(number);
            return false;
        }
        if let Some(number) = id.strip_prefix("netsky-gap-").and_then(|number| number.parse().ok()) {
            self.bridged(number, result, out);
        } else if let Some(turn) = id.strip_prefix("netsky-interrupt-") {
            // Only now is the tool that ran a terminal that somebody left behind.
            if answer["error"].is_null() {
                let params = json!({"threadId": self.thread()});
                Codex::request(
                    out,
                    &format!("netsky-clean-{turn}"),
                    "thread/backgroundTerminals/clean",
                    &params,
                );
            }
        } else if id.starts_with("netsky-m-") {
            self.accepted(id, result, out);
        } else {
            match id {
                start::GREET => self.greeted(answer, out),
                start::CONFIG => self.configured(result, out),
                start::THREAD | start::RESUME => self.entered(id, answer, out),
                _ => {}
            }
        }
        true
    }

    /// It has a message, and not for good. It says which turn takes it, or that none does.
    fn accepted(&mut self, request: &str, result: &Value, out: &mut Out) {
        let Some((key, held)) = self.held.iter_mut().find(|(_, held)| held.request == request) else {
            return;
        };
        let turn = result["turn"]["id"].as_str().or_else(|| result["turnId"].as_str());
        match turn.filter(|turn| is_id(turn) && self.ended.iter().all(|ended| ended != turn)) {
            Some(turn) => {
                held.turn = Some(turn.to_owned());
                self.run(turn, out);
            }
            None => {
                let key = key.clone();
                self.lost(key, out);
            }
        }
    }

    /// What it says unasked; whether that was progress.
    fn told(&mut self, method: &str, params: &Value, out: &mut Out) -> bool {
        let id = |value: &Value| value.as_str().map(str::to_owned);
        match method {
            "serverRequest/resolved" => self.resolved(&params["requestId"], out),
            // Agents of its own have threads of their own; what they come to is told in ours.
            _ if !params["threadId"].is_null() && params["threadId"] != *self.thread() => {}
            "turn/started" => {
                if let Some(turn) = id(&params["turn"]["id"]) {
                    self.run(&turn, out);
                }
            }
            "turn/completed" => self.ended(&params["turn"], out),
            "item/started" => self.item_began(params, out),
            "item/completed" => self.item_ended(params, out),
            "item/agentMessage/delta" | "item/plan/delta" => self.speaks(out),
            "item/reasoning/textDelta" | "item/reasoning/summaryTextDelta" => self.speaks(out),
            "item/reasoning/summaryPartAdded" => self.speaks(out),
            "thread/tokenUsage/updated" => self.counted(params, out),
            "error" => return self.erred(params, out),
            "warning" | "configWarning" | "guardianWarning" | "windows/worldWritableWarning" => {
                if let Some(text) = params["message"].as_str().or_else(|| params["summary"].as_str()) {
                    out.learn(Learnt::Said(Entry::Note { text: text.to_owned() }));
                }
            }
            _ if KNOWN.contains(&method) => {}
            _ => out.learn(Learnt::Unknown(short(method))),
        }
        true
    }

    /// The model was asked in vain. Whether that was progress: an answer of the provider is, a connection that breaks is
    /// none.
    fn erred(&mut self, params: &Value, out: &mut Out) -> bool {
        // The turn's end says the last one again.
        if params["willRetry"] != true || self.turn.is_none() {
            return true;
        }
        let error = &params["error"];
        let words = error["additionalDetails"].as_str().or_else(|| error["message"].as_str());
        let why = short(words.unwrap_or("it does not say why"));
        let (doing, is_progress) = match turn::trouble(error) {
            Trouble::Auth => (Doing::FailedAuth { why }, true),
            Trouble::Overloaded => (Doing::Throttled { until: None, why }, true),
            // No answer came in its own time: what the model does is as unknown as before.
            Trouble::Model | Trouble::Silent | Trouble::Other => (Doing::WaitingForModel, false),
        };
        self.set(doing, out);
        is_progress
    }

    /// From here on there is something to go on with.
    pub(super) fn begin_conversation(&mut self, out: &mut Out) {
        if let Some(conversation) = self.conversation.as_mut().filter(|conversation| !conversation.begun) {
            conversation.begun = true;
            out.learn(Learnt::Conversation(Conversation::clone(conversation)));
        }
    }

    /// What there is after output was lost: its thread before it is up, then its newest turns.
    fn bridged(&mut self, gap: u64, result: &Value, out: &mut Out) {
        let Some(rows) = result["data"].as_array() else { return };
        if !self.is_up {
            return match rows.first().map(Value::as_str) {
                Some(Some(thread)) if is_id(thread) => self.is_in(thread, out),
                Some(_) => {}
                None => self.enter(out),
            };
        }
        self.tools.clear();
        let mut running = None;
        for row in rows.iter().rev() {
            // The same message may be in one that has ended and in the next.
            let new = row["id"].as_str().filter(|id| self.ended.iter().all(|ended| ended != id));
            let Some(id) = new else { continue };
            let is_current = self.turn.as_ref().is_some_and(|turn| turn.id == id);
            let items = || row["items"].as_array().into_iter().flatten();
            let has_ours =
                items().any(|item| turn::key_of(item).is_some_and(|key| self.held.contains_key(&key)));
            let is_running = row["status"] == "inProgress";
            if !is_current && !is_running && !has_ours {
                continue;
            }
            for item in items() {
                self.took(item, id, out);
                if let Some((id, tool)) =
                    turn::tool(item).filter(|_| is_running && item["status"] == "inProgress")
                {
                    self.knows(id, tool);
                }
            }
            if is_running {
                self.run(id, out);
                running = Some(id);
            } else {
                self.ended(row, out);
            }
        }
        // Of a turn that more than one has followed nobody can say how it ended.
        let unknown = self.turn.take_if(|turn| Some(turn.id.as_str()) != running).unwrap_or_default();
        let is_gone = |held: &Held| held.gaps < gap && (running.is_none() || held.turn.as_deref() != running);
        let gone: Vec<_> =
            self.held.iter().filter(|(_, held)| is_gone(held)).map(|(key, _)| key.clone()).collect();
        for key in unknown.messages.into_iter().chain(gone) {
            self.lost(key, out);
        }
        let doing = self.unasked();
        self.set(doing, out);
    }

    /// A tool was begun, or is known to run.
    pub(super) fn uses(&mut self, id: String, tool: Tool, out: &mut Out) {
        out.learn(Learnt::Said(Entry::Tool { name: tool.name.clone(), input: tool.input.clone() }));
        self.knows(id, tool);
    }

    fn knows(&mut self, id: String, tool: Tool) {
        if self.tools.len() < MOST || self.tools.contains_key(&id) {
            self.tools.insert(id, tool);
        }
    }
}
