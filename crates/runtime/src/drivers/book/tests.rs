//! Books of earlier programs, and the largest that there may be.

use jiff::Timestamp;
use netsky_disk::home::Home;
use serde_json::{Value, json};

use super::super::{context, learn};
use super::*;
use crate::driver::{Driver, Message, MessageKey, Out, Room, driver_of, short};

/// As the first netsky-drivers wrote it: what came later is missing, and what was given in vain is a map.
const FIRST: &str = include_str!("first.json");

#[test]
fn a_book_of_the_first_netsky_drivers_reads_and_its_driver_goes_on() {
    let temp = tempfile::tempdir().expect("made");
    let layout = Layout::new(temp.path().join("home"));
    Home::init(&layout).expect("made");
    let agent = AgentId::numbered(1);
    state::write(layout.driver_book(&agent), FIRST.as_bytes()).expect("written");
    let book = Book::read(&layout, &agent).expect("reads").expect("there");
    assert_eq!((book.generation, book.offset, &book.doing), (Generation(3), 4096, &Doing::Idle));
    let mut driver = driver_of(&book.runtime, &book.memory).expect("driven");
    assert_eq!(driver.room(), Room::Free);
    let (mut out, key) = (Out::default(), "0192f0c1-2345-7abc-8def-0123456789ab".parse().expect("a key"));
    driver.deliver(&Message { key, text: String::new() }, false, &mut out);
    assert_eq!(out.writes[0].once, "netsky-m-0192f0c1-2345-7abc-8def-0123456789ab-2", "a name that is free");
    // What it is made into reads as well.
    let again = driver_of(&book.runtime, &driver.memory()).expect("driven");
    assert_eq!(again.memory(), driver.memory());
}

/// Most of what a program can call a thing by: of characters that escape to many times their size, if it may have them.
fn names(n: usize) -> [String; 3] {
    ["\u{1}", "\"", "x"].map(|c| format!("{n:03}{}", c.repeat(253)))
}

/// A text that is longer than any that is kept, of the characters that take most.
fn long() -> String {
    "🦀".repeat(700)
}

fn key(n: usize) -> MessageKey {
    MessageKey::derived(&[&n.to_string()])
}

/// A driver that has as much in its hands as it is given, and that was told all this.
fn full(runtime: &str, lines: impl Fn(usize, &str) -> Vec<Value>) -> Box<dyn Driver> {
    let mut driver = driver_of(runtime, &Value::Null).expect("driven");
    for n in 1000..2000 {
        driver.forget(&key(n));
    }
    for n in 0..64 {
        driver.deliver(&Message { key: key(n), text: String::new() }, false, &mut Out::default());
    }
    for (n, name) in (0..75).flat_map(|n| names(n).map(|name| (n, name))) {
        for line in lines(n, &name) {
            driver.line(line.to_string().as_bytes(), Timestamp::UNIX_EPOCH, &mut Out::default());
        }
    }
    driver
}

/// Questions, the long ones first: what room they leave the short ones take.
fn questions(n: usize) -> Value {
    json!([{"id": "q", "question": "\u{1}".repeat((16 << 10) >> (n / 4))}])
}

fn full_claude() -> Box<dyn Driver> {
    let mut driver = full("claude", |n, name| {
        let tool = json!({"type": "tool_use", "id": name, "name": long(), "input": {"command": long()}});
        let request = json!({"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": {"questions": questions(n)}});
        let uuids: Vec<MessageKey> = (0..64).map(|m| key(10_000 + n * 64 + m)).collect();
        let mut lines = vec![
            json!({"type": "command_lifecycle", "command_uuid": key(n), "state": "started"}),
            json!({"type": "system", "subtype": "init", "session_id": name, "model": long()}),
            json!({"type": "control_request", "request_id": name, "request": request}),
            json!({"type": "assistant", "message": {"model": "m", "content": [tool]}}),
        ];
        // The end of a turn forgets tools.
        if n < 8 {
            lines.push(
                json!({"type": "result", "is_error": false, "uuid": name, "user_message_uuids": uuids}),
            );
        }
        lines
    });
    driver.gap(&mut Out::default());
    driver
}

fn full_codex() -> Box<dyn Driver> {
    full("codex", |n, name| {
        let turn = names(0)[2].clone();
        let tool =
            json!({"type": "mcpToolCall", "id": name, "tool": long(), "server": long(), "arguments": long()});
        let message = json!({"type": "userMessage", "clientId": key(20_000 + n), "content": []});
        vec![
            json!({"id": "netsky-thread", "result": {"thread": {"id": name}}}),
            json!({"id": "netsky-greet", "result": {"userAgent": format!("codex/{}", long())}}),
            json!({"id": format!("netsky-m-{}", key(n)), "result": {"turn": {"id": turn}}}),
            json!({"method": "item/completed", "params": {"turnId": turn, "item": message}}),
            json!({"method": "item/started", "params": {"turnId": turn, "item": tool}}),
            json!({"id": name, "method": "item/tool/requestUserInput", "params": {"questions": questions(n)}}),
            json!({"method": format!("{n}{}", long())}),
        ]
    })
}

#[test]
fn a12_a_book_that_is_full_of_what_takes_most_room_is_written_and_reads_again() {
    let temp = tempfile::tempdir().expect("made");
    let layout = Layout::new(temp.path().join("home"));
    Home::init(&layout).expect("made");
    for driver in [full_claude(), full_codex()] {
        let mut book: Book = serde_json::from_str(FIRST).expect("reads");
        (book.memory, book.asks, book.doing) =
            (driver.memory(), driver.asks().to_vec(), driver.doing().clone());
        assert!(book.asks.len() > 3 && book.memory["tools"].as_object().expect("tools").len() == 64);
        let word = short(&long());
        book.unknown = (0..learn::UNKNOWN).map(|_| word.clone()).collect();
        (book.version, book.model) = (Some(word.clone()), Some(word.clone()));
        let id = names(0)[2].clone();
        book.conversation = Some(Conversation { id, begun: true });
        let (until, trouble) = (Timestamp::UNIX_EPOCH, Some(Trouble::Other));
        book.waits =
            Some(Waits { until, why: format!("a turn failed: {word}"), failures: u32::MAX, trouble });
        for worst in ["\u{1}", "\"", "🦀"].map(|c| c.repeat(64 << 10)) {
            (book.asked, book.left) = context::full(&worst);
            let bytes = serde_json::to_vec(&book).expect("JSON").len();
            book.write(&layout).unwrap_or_else(|error| panic!("{} of {bytes} bytes: {error}", book.runtime));
            assert_eq!(Book::read(&layout, &book.agent).expect("reads").as_ref(), Some(&book));
        }
    }
}
