//! A program without a model that speaks as Claude Code does over its stream of JSON lines: it tells whoever measures that it
//! has read a message, and then has a short turn. It is started as this program, by a verb that nobody else says.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// The verb. Behind it stands the pipe on which it tells, and then what it is started with as Claude Code.
pub(crate) const SPEAKER: &str = "bench-speaker";

/// Its life.
pub(crate) fn speak(arguments: &[String]) -> Result<bool> {
    let pipe = arguments.first().context("which pipe?")?;
    let mut told = File::options().write(true).open(Path::new(pipe))?;
    let mut output = std::io::stdout();
    for line in std::io::stdin().lines() {
        let line = line?;
        let is_message = line.contains("\"type\":\"user\"");
        if is_message {
            told.write_all(b"x")?;
        }
        let said: Value = serde_json::from_str(&line)?;
        let lines = if is_message { turn(&said) } else { answer(&said) };
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        output.write_all(text.as_bytes())?;
        output.flush()?;
    }
    Ok(true)
}

/// What needs no model.
fn answer(said: &Value) -> Vec<Value> {
    let response = match said["request"]["subtype"].as_str() {
        Some("initialize") => json!({"claude_code_version": "bench", "session_state": "idle"}),
        Some("get_binary_version") => json!({"version": "bench"}),
        _ => return Vec::new(),
    };
    let id = &said["request_id"];
    vec![json!({"type": "control_response", "pending_permission_requests": [],
        "response": {"subtype": "success", "request_id": id, "response": response}})]
}

/// A turn in which the model has one word.
fn turn(said: &Value) -> Vec<Value> {
    let uuid = &said["uuid"];
    let state = |state: &str| json!({"type": "system", "subtype": "session_state_changed", "state": state});
    let life = |state: &str| json!({"type": "command_lifecycle", "command_uuid": uuid, "state": state});
    let usage = json!({"input_tokens": 5, "output_tokens": 7});
    vec![
        state("running"),
        life("queued"),
        life("started"),
        json!({"type": "assistant", "parent_tool_use_id": null, "message": {"model": "m", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "done"}], "usage": usage}}),
        json!({"type": "result", "subtype": "success", "is_error": false, "terminal_reason": "completed", "result": "done",
            "uuid": format!("r-{}", uuid.as_str().unwrap_or_default()), "user_message_uuids": [uuid], "usage": usage,
            "modelUsage": {"m": {"inputTokens": 1, "contextWindow": 200_000}}}),
        life("completed"),
        state("idle"),
    ]
}
