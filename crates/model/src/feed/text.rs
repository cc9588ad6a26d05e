//! What an event says, in one line, from its fact alone. A fact that lacks what its kind should have says what it has.

use serde_json::Value;

use crate::paging::{LONGEST, TEST, harmless};
use crate::render;

use super::Event;

/// Longest line of an event, in characters.
const LINE: usize = 300;
/// Longest title of a task in it.
const TITLE: usize = 80;
/// Digits of a commit that are shown.
const COMMIT: usize = 12;

/// What a fact of a kind of event says.
pub(super) fn of(kind: &str, key: &str, data: &Value) -> String {
    if kind == crate::paging::PAGE {
        return harmless(&page(key, data));
    }
    let said = |key| said(data, key);
    let agent = said("agent").unwrap_or_else(|| "an agent".to_owned());
    let task = || task(key, data);
    let main = || said("main").unwrap_or_else(|| "main".to_owned());
    let why = || first(data, &["why", "reason", "error", "text"]);
    let line = match kind {
        "clone.finished" | "clone.blocked" => {
            let verdict = said("verdict").unwrap_or_else(|| "finished".to_owned());
            with(format!("{agent} on task {}: {verdict}", task()), first(data, &["text", "note", "why"]))
        }
        "harvest.started" => format!("task {}: its harvest began", task()),
        "harvest.landed" => {
            let at = first(data, &["sha", "landed_sha", "landed"]).map_or_else(String::new, |sha| {
                format!(" as {}", sha.chars().take(COMMIT).collect::<String>())
            });
            format!("task {}: landed on {}{at}", task(), main())
        }
        "harvest.conflict" => {
            with(format!("task {}: conflicts with {}", task(), main()), paths(data).or_else(why))
        }
        "harvest.refused" => with(format!("task {}: its harvest was refused", task()), why()),
        "gate.failed" => with(format!("task {}: the gate failed", task()), why()),
        "watchdog.repaired" => first(data, &["what", "why"]).unwrap_or_else(|| format!("repaired {key}")),
        "watchdog.crashloop" => with(format!("{agent} keeps dying"), why()),
        "agent.blocked" => with(format!("{agent} waits for an answer"), asked(data)),
        "loop.missed" => {
            let which = first(data, &["loop", "entry"]).unwrap_or_else(|| key.to_owned());
            with(format!("{which} of {agent} missed an instant"), why())
        }
        "owner.message" => with(format!("{} says", said("from").unwrap_or(agent)), said("text")),
        "budget.reached" => {
            let who = said("agent").unwrap_or_else(|| "the constellation".to_owned());
            with(format!("{who} reached its budget"), why())
        }
        _ => with(key.to_owned(), why()),
    };
    harmless(&cut(&render::line(&line), LINE))
}

/// What a page says, by whoever raised it.
pub fn page(key: &str, data: &Value) -> String {
    let text = |key: &str| data.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let agent = text("agent").map_or_else(String::new, |agent| format!(" of {agent}"));
    match (text("text"), key.starts_with("poison/")) {
        (Some(text), _) => text.to_owned(),
        (None, true) => {
            let (id, reason) = (text("id").unwrap_or(key), text("reason").unwrap_or("no reason is known"));
            format!("dead letter {id}{agent}: {reason}")
        }
        (None, false) => match text("reason").or_else(|| text("why")) {
            Some(reason) => reason.to_owned(),
            None if key == TEST => "test".to_owned(),
            None => format!("{key}: {data}"),
        },
    }
}

/// What a digest says: each event on a line, as many as its text holds.
pub fn digest(events: &[Event]) -> String {
    if let [one] = events {
        return one.text.clone();
    }
    let mut text = format!("{} events", events.len());
    for (at, event) in events.iter().enumerate() {
        let line = format!("\n· {}", event.text);
        let rest = format!("\n· and {} more: `netsky events`", events.len() - at);
        if text.chars().count() + line.chars().count() + rest.chars().count() > LONGEST {
            text += &rest;
            break;
        }
        text += &line;
    }
    text
}

/// A word or a number of a fact.
fn said(data: &Value, key: &str) -> Option<String> {
    match data.get(key)? {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// What is asked: of which sort it is, and of which tool.
fn asked(data: &Value) -> Option<String> {
    match (said(data, "kind"), said(data, "tool")) {
        (Some(kind), Some(tool)) => Some(format!("{kind}, {tool}")),
        (kind, tool) => kind.or(tool).or_else(|| first(data, &["why"])),
    }
}

fn first(data: &Value, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| said(data, key))
}

/// Which task a fact is about, with its title where that is told: it says so, or its key begins with it.
fn task(key: &str, data: &Value) -> String {
    let inner = data.get("task").and_then(|task| said(task, "id"));
    let id = said(data, "task").or(inner).unwrap_or_else(|| key.split('/').next().unwrap_or(key).to_owned());
    match said(data, "title") {
        Some(title) => format!("{id} ({})", cut(&title, TITLE)),
        None => id,
    }
}

fn paths(data: &Value) -> Option<String> {
    let paths = data.get("paths").or_else(|| data.get("files"))?.as_array()?;
    let paths: Vec<&str> = paths.iter().filter_map(Value::as_str).collect();
    (!paths.is_empty()).then(|| paths.join(", "))
}

fn with(what: String, why: Option<String>) -> String {
    match why {
        Some(why) => format!("{what}: {why}"),
        None => what,
    }
}

fn cut(line: &str, most: usize) -> String {
    match line.char_indices().nth(most) {
        Some(_) => line.chars().take(most - 1).chain(['…']).collect(),
        None => line.to_owned(),
    }
}
