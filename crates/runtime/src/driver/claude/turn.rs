//! The end of a turn in Claude Code's words, and what it asks of people.

use netsky_kernel::drain::Usage;
use serde_json::{Value, json};

use super::super::{Answer, Ask, AskKind, BETWEEN, MOST, Outcome, QUESTION, Trouble, cut_to, is_id, short};

/// How a turn ended, by its `result` line.
pub(super) fn outcome(line: &Value) -> Outcome {
    // One that was cut by a message that could not wait is called a success.
    let reason = line["terminal_reason"].as_str().unwrap_or_default();
    if reason.starts_with("aborted") {
        return Outcome::Interrupted;
    }
    // The limit of turns is the user's own: told again, it would only end there again.
    if line["is_error"] != true || line["subtype"] == "error_max_turns" {
        return Outcome::Done;
    }
    let words = line["result"].as_str().map(str::to_owned);
    let why = short(&words.unwrap_or_else(|| format!("{reason} {}", line["errors"])));
    let trouble = match line["api_error_status"].as_u64() {
        Some(401 | 403) => Trouble::Auth,
        Some(404) => Trouble::Model,
        Some(429 | 500..) => Trouble::Overloaded,
        Some(_) => Trouble::Other,
        None if line["api_error"] == "stream_idle_timeout" || why.contains("timed out") => Trouble::Silent,
        None if why.contains("/login") || why.contains("Invalid API key") => Trouble::Auth,
        None => Trouble::Other,
    };
    Outcome::Failed { trouble, why }
}

/// The messages that a turn consumed, by their UUIDs, as its `result` line names them.
pub(super) fn messages(line: &Value) -> Vec<String> {
    let all = line["user_message_uuids"].as_array().into_iter().flatten();
    all.filter_map(|uuid| uuid.as_str().filter(|uuid| is_id(uuid)).map(str::to_owned)).take(MOST).collect()
}

/// Why there was no turn at all: the conversation that it was started for is not there.
pub(super) fn no_conversation(line: &Value) -> Option<String> {
    let mut errors = line["errors"].as_array()?.iter().filter_map(Value::as_str);
    errors.find(|error| error.starts_with("No conversation found")).map(short)
}

/// Tokens of a turn or a request.
pub(super) fn usage(usage: &Value) -> Usage {
    let count = |key: &str| usage[key].as_u64().unwrap_or(0);
    Usage {
        input: count("input_tokens"),
        output: count("output_tokens"),
        cache_read: count("cache_read_input_tokens"),
        cache_write: count("cache_creation_input_tokens"),
        cost_micros: None,
    }
}

/// What models cost, in millionths of a dollar, by the program's own list of prices.
pub(super) fn cost(models: &Value) -> Option<u64> {
    let costs = models.as_object()?.values().filter_map(|model| model["costUSD"].as_f64());
    let micros = costs.sum::<f64>() * 1e6;
    (micros.is_finite() && (0.0..1e15).contains(&micros)).then_some(micros.round() as u64)
}

/// How many tokens the context has room for: of several models the largest is the one that talks.
pub(super) fn window(models: &Value) -> Option<u64> {
    let models = models.as_object()?.values();
    models.max_by_key(|model| model["inputTokens"].as_u64()).and_then(|model| model["contextWindow"].as_u64())
}

/// The text of a tool's result.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// For people: what a tool wants to do.
pub(super) fn asks_for(tool: &str, input: &Value) -> String {
    if tool == "AskUserQuestion" {
        let questions = input["questions"].as_array().into_iter().flatten();
        let texts: Vec<&str> = questions.filter_map(|question| question["question"].as_str()).collect();
        return short(&texts.join(BETWEEN));
    }
    short(&format!("{tool}: {}", is_for(input)))
}

/// What a tool is given, on one line: the part that says most, where it is one that people know.
pub(super) fn is_for(input: &Value) -> String {
    let what =
        ["command", "file_path", "url", "path", "pattern"].into_iter().find_map(|key| input[key].as_str());
    short(&what.map_or_else(|| input.to_string(), str::to_owned))
}

/// What the program is told in answer to what it asked.
pub(super) fn said_to(ask: &Ask, answer: &Answer) -> Value {
    if !answer.allow {
        let why = answer.text.clone().unwrap_or_else(|| "The owner does not allow this.".to_owned());
        return json!({"behavior": "deny", "message": why});
    }
    let AskKind::Question = ask.kind else { return json!({"behavior": "allow"}) };
    let questions = ask.detail["questions"].as_array().into_iter().flatten();
    let answers: serde_json::Map<String, Value> = questions
        .zip(answer.to_each(ask))
        .filter_map(|(question, text)| Some((question["question"].as_str()?.to_owned(), text.into())))
        .collect();
    json!({"behavior": "allow", "updatedInput": {"questions": ask.detail["questions"], "answers": answers}})
}

/// What is kept of what it wants to do: for people to read, and for the answer to a question.
pub(super) fn detail(kind: AskKind, input: &Value) -> Value {
    // The answer to a question says it again.
    let most = if kind == AskKind::Question { QUESTION } else { 32 << 10 };
    cut_to(most, input)
}
