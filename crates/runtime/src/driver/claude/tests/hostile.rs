//! Lines that are cut, falsified in any place, or of no protocol at all: nothing is finished by them that no end names.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::super::{Driver, Out};
use super::super::Claude;
use super::{SAMPLES, Talk, named, parse, sample, some_key};

/// Every place in a value, as a path of keys and indices.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (key, value) in inner {
        let place = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        places(value, &place, found);
        found.push(place);
    }
}

fn remove(line: &mut Value, place: &str) {
    let (parent, key) = place.rsplit_once('/').expect("a place");
    match line.pointer_mut(parent) {
        Some(Value::Object(fields)) => _ = fields.remove(key),
        Some(Value::Array(items)) => _ = items.remove(key.parse().expect("an index")),
        _ => {}
    }
}

/// What a line looks like, apart from texts and numbers that decide nothing.
fn shape(line: &Value) -> String {
    let words = ["type", "subtype", "state", "status", "terminal_reason", "is_error"]
        .map(|key| line[key].to_string());
    let mut found = Vec::new();
    places(line, "", &mut found);
    format!("{} {}", words.join(" "), found.join(" "))
}

/// Reads a line that is not as the program prints it, and the rest of its sample: nothing is finished that no end names.
fn survives(before: &Talk, falsified: &[u8], rest: &[&str], at: &str) {
    let mut talk = Talk { learnt: Vec::new(), ..before.clone() };
    let said = serde_json::from_slice::<Value>(falsified).unwrap_or_default();
    talk.line(falsified);
    talk.read(rest);
    let lines: Vec<Value> = rest.iter().map(|line| parse(line)).chain([said]).collect();
    let mut may_finish = named(&lines);
    // An end that names none is that of all that it had said to have begun.
    let names_none = |line: &Value| line["type"] == "result" && named(std::slice::from_ref(line)).is_empty();
    if lines.iter().any(names_none) {
        let begun = lines
            .iter()
            .filter(|line| line["state"] == "started")
            .filter_map(|line| line["command_uuid"].as_str());
        may_finish.extend(
            before
                .claude
                .started
                .iter()
                .map(String::as_str)
                .chain(begun)
                .filter_map(|uuid| uuid.parse().ok()),
        );
    }
    assert!(talk.fates().0.is_subset(&may_finish), "{at}");
    assert_eq!(Claude::remember(&talk.claude.memory()).memory(), talk.claude.memory(), "{at}");
}

/// Takes each place out of a line, and puts each of these into it.
fn falsifies(before: &Talk, line: &Value, others: &[Value], rest: &[&str], at: &str) {
    let mut found = Vec::new();
    places(line, "", &mut found);
    for place in found {
        let mut falsified = line.clone();
        remove(&mut falsified, &place);
        survives(before, falsified.to_string().as_bytes(), rest, &format!("{at} without {place}"));
        for other in others {
            let mut falsified = line.clone();
            *falsified.pointer_mut(&place).expect("a place") = other.clone();
            survives(before, falsified.to_string().as_bytes(), rest, &format!("{at} {place}"));
        }
    }
}

#[test]
fn a12_no_line_whatever_is_in_it_finishes_what_no_end_of_a_turn_names() {
    let huge = json!("\u{1f980}x".repeat(4 << 10));
    let others = [
        json!(null),
        json!(-7.5e300),
        json!(u64::MAX),
        json!([{"type": "tool_use"}, [], null, 3]),
        huge,
        json!({"type": {}}),
    ];
    let mut seen = BTreeSet::new();
    for (name, _) in SAMPLES {
        let lines = sample(name);
        let mut before = Talk::about(&lines);
        for (n, line) in lines.iter().enumerate() {
            before.lead(line);
            let (line, rest) = (parse(line), &lines[n + 1..]);
            if seen.insert(shape(&line)) {
                falsifies(&before, &line, &others, rest, &format!("{name}:{n}"));
            }
            before.line(lines[n].as_bytes());
        }
    }
}

#[test]
fn a12_half_lines_and_garbage_say_nothing() {
    let garbage: [&[u8]; 10] = [
        b"",
        b"\0",
        b"{",
        b"null",
        b"[]",
        b"\"result\"",
        b"\xff\xfe{}",
        b"{\"type\":\"result\"",
        b"{}{}",
        b"{\"type\":1}",
    ];
    for (name, _) in SAMPLES {
        let lines = sample(name);
        let mut talk = Talk::about(&lines);
        for line in &lines {
            talk.lead(line);
            let before = (talk.claude.memory(), talk.learnt.len());
            let cut = (line.len() / 2..).find(|at| line.is_char_boundary(*at)).expect("an end");
            let halves: [&[u8]; 2] = line.as_bytes().split_at(cut).into();
            for piece in garbage.into_iter().chain(halves) {
                assert!(!talk.line(piece), "{name}: garbage is no progress");
            }
            assert_eq!((talk.claude.memory(), talk.learnt.len()), before, "{name}");
            talk.line(line.as_bytes());
        }
    }
    let deep = [vec![b'['; 1 << 20], vec![b']'; 1 << 20]].concat();
    Talk::default().line(&deep);
}

#[test]
fn a12_names_without_end_are_not_remembered() {
    let mut claude = Claude::default();
    // Short, and six times as long in a book.
    for id in ["\u{1}".repeat(200), "\"".repeat(200)] {
        let request = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {}});
        let asked = json!({"type": "control_request", "request_id": id, "request": request});
        claude.line(asked.to_string().as_bytes(), super::now(), &mut Out::default());
        assert!(claude.asks().is_empty());
    }
    let long = "x".repeat(1 << 20);
    for n in 0..100 {
        let (id, long_id) = (format!("t{n}"), format!("{long}{n}"));
        let use_of =
            |id: &str| json!({"type": "tool_use", "id": id, "name": long, "input": {"command": long}});
        let content = [use_of(&id), use_of(&long_id)];
        let said = json!({"type": "assistant", "message": {"model": "m", "content": content}});
        let asked = |id: &str| {
            let request = json!({"subtype": "can_use_tool", "tool_name": long, "input": {"command": "ls"}});
            json!({"type": "control_request", "request_id": id, "request": request})
        };
        for line in [said, asked(&id), asked(&long_id)] {
            claude.line(line.to_string().as_bytes(), super::now(), &mut Out::default());
        }
    }
    let kept = claude.memory().to_string().len();
    assert!(kept < 256 << 10, "{kept}");
    assert!(claude.doing().to_string().len() < 2000);
}

#[test]
fn a12_whatever_it_says_its_memory_fits_into_a_book_that_reads_again() {
    let (mut claude, mut refused) = (Claude::default(), 0);
    let wide = "語".repeat(60_000);
    // Alone more than all that may be kept.
    let long = "x".repeat(700 << 10);
    for n in 0..100 {
        let id = format!("{n}{}", "i".repeat(200));
        let question = json!([{"question": wide, "options": vec![0; 16_000]}]);
        let input = json!({"questions": question, "command": wide, "rows": vec![0; 16_000]});
        let asked = |tool: &str, id: &str| {
            let request = json!({"subtype": "can_use_tool", "tool_name": tool, "input": input});
            json!({"type": "control_request", "request_id": id, "request": request})
        };
        let uuids: Vec<String> = (0..1000).map(|m| some_key(m).to_string()).collect();
        for line in [
            asked("AskUserQuestion", &id),
            asked("Bash", &format!("b{id}")),
            json!({"type": "system", "subtype": "init", "session_id": long, "model": long}),
            json!({"type": "result", "subtype": "success", "uuid": long, "user_message_uuids": uuids}),
        ] {
            let mut out = Out::default();
            claude.line(line.to_string().as_bytes(), super::now(), &mut out);
            refused += out.writes.iter().filter(|write| write.bytes.windows(4).any(|w| w == b"deny")).count();
            assert!(out.writes.iter().all(|write| write.once.len() < 1000));
        }
    }
    // As a book has them: once in the memory, once for people.
    let kept = claude.memory().to_string().len() + json!(claude.asks()).to_string().len();
    assert!(kept < 600 << 10, "{kept}");
    assert!(!claude.asks().is_empty() && refused >= 190, "what is not kept is refused: {refused}");
}
