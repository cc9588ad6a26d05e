//! What Codex asks of people, and what it is told in answer.

use netsky_model::id::EnvelopeId;
use serde_json::{Value, json};

use super::super::{Answer, Ask, AskKind, BETWEEN, Learnt, Out, QUESTION, cut_to, has_room_for, short};
use super::Codex;

const COMMAND: &str = "item/commandExecution/requestApproval";
const FILES: &str = "item/fileChange/requestApproval";
const PERMISSIONS: &str = "item/permissions/requestApproval";
const INPUT: &str = "item/tool/requestUserInput";
const ELICITATION: &str = "mcpServer/elicitation/request";

impl Codex {
    /// It waits for an answer. To what nobody here can answer it is told so, lest it wait for ever.
    pub(super) fn asked(&mut self, method: &str, id: &Value, params: &Value, out: &mut Out) {
        let Some((kind, tool, text)) = self.meaning(method, params) else {
            let error = json!({"code": -32601, "message": "netsky does not answer this"});
            out.write(format!("answer:{}", name_of(id)), &json!({"id": id, "error": error}));
            return out.learn(Learnt::Unknown(short(method)));
        };
        let detail = json!({
            "id": id,
            "method": method,
            "turnId": params["turnId"],
            "questions": cut_to(QUESTION, &params["questions"]),
            "permissions": cut_to(QUESTION, &params["permissions"]),
        });
        // Its own ids begin anew with each process: an answer must not be about another question than the one that was read.
        let digest = EnvelopeId::derived(&["ask", method, &params.to_string()]);
        let id = format!("{}-{}", &digest.as_str()[..8], name_of(id));
        let ask = Ask { id, kind, tool, text: short(&text), detail };
        if self.asks.iter().all(|known| known.id != ask.id) {
            if !has_room_for(&self.asks, &ask) {
                let no = Answer { ask: ask.id.clone(), allow: false, text: None };
                Codex::reply(out, &ask, &no);
                return out.learn(Learnt::Unknown("more questions than are kept: refused".to_owned()));
            }
            self.asks.push(ask.clone());
            out.learn(Learnt::Asked(ask));
        }
        let doing = self.unasked();
        self.set(doing, out);
    }

    /// What sort of question it is, about which tool, and what it is for people.
    fn meaning(&self, method: &str, params: &Value) -> Option<(AskKind, String, String)> {
        let said = |key: &str| params[key].as_str().filter(|text| !text.is_empty());
        let with_reason = |what: String| match said("reason") {
            Some(reason) => format!("{what} ({reason})"),
            None => what,
        };
        let (kind, tool, text) = match method {
            COMMAND => {
                let command = said("command").map(str::to_owned);
                let what = command.unwrap_or_else(|| params["networkApprovalContext"].to_string());
                (AskKind::Permission, "exec_command", with_reason(what))
            }
            FILES => {
                let known = said("itemId").and_then(|id| self.tools.get(id));
                let what = known.map(|tool| tool.input.as_str()).or_else(|| said("grantRoot"));
                (
                    AskKind::Permission,
                    "apply_patch",
                    with_reason(format!("change {}", what.unwrap_or("files"))),
                )
            }
            PERMISSIONS => {
                (AskKind::Permission, "request_permissions", with_reason(params["permissions"].to_string()))
            }
            INPUT => {
                let questions = params["questions"].as_array().into_iter().flatten();
                let texts: Vec<&str> =
                    questions.filter_map(|question| question["question"].as_str()).collect();
                (AskKind::Question, "request_user_input", texts.join(BETWEEN))
            }
            ELICITATION => {
                let server = said("serverName").unwrap_or("a server");
                let text = said("message").or_else(|| said("description")).unwrap_or("a confirmation");
                (AskKind::Question, server, format!("{server} wants: {text}"))
            }
            _ => return None,
        };
        Some((kind, tool.to_owned(), text))
    }

    /// Nobody waits for an answer any more.
    pub(super) fn resolved(&mut self, id: &Value, out: &mut Out) {
        let resolved: Vec<Ask> = self.asks.extract_if(.., |ask| ask.detail["id"] == *id).collect();
        for ask in resolved {
            out.learn(Learnt::Withdrawn { id: ask.id });
            let doing = self.unasked();
            self.set(doing, out);
        }
    }
}

/// Its ids are numbers, and may be texts.
fn name_of(id: &Value) -> String {
    short(&id.as_str().map_or_else(|| id.to_string(), str::to_owned))
}

/// What the program is told in answer to what it asked. A refusal has no place for words.
pub(super) fn said_to(ask: &Ask, answer: &Answer) -> Value {
    match ask.detail["method"].as_str() {
        Some(INPUT) => {
            let questions = ask.detail["questions"].as_array().into_iter().flatten();
            let words = if answer.allow { answer.to_each(ask) } else { Vec::new() };
            let answers: serde_json::Map<String, Value> = questions
                .zip(words)
                .filter_map(|(question, text)| {
                    Some((question["id"].as_str()?.to_owned(), json!({"answers": [text]})))
                })
                .collect();
            json!({"answers": answers})
        }
        Some(ELICITATION) => {
            // A form is filled in by who knows its fields.
            let filled = answer.text.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
            let content = filled.filter(|filled| answer.allow && filled.is_object());
            let action = if answer.allow { "accept" } else { "decline" };
            json!({"action": action, "content": content, "_meta": null})
        }
        Some(PERMISSIONS) => {
            let asked = ask.detail["permissions"].as_object().filter(|_| answer.allow).into_iter().flatten();
            let granted: serde_json::Map<String, Value> = asked
                .filter(|(_, what)| !what.is_null())
                .map(|(key, what)| (key.clone(), what.clone()))
                .collect();
            json!({"permissions": granted, "scope": "turn"})
        }
        _ => json!({"decision": if answer.allow { "accept" } else { "decline" }}),
    }
}
