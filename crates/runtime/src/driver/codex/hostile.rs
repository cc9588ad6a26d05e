//! Lines of no protocol, and lines of this one that differ from it anywhere: whatever comes, the driver goes on.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::{Driver, MessageKey, Out};
use super::Codex;
use super::tests::{ALL, Run};

/// Every line that differs from one in one place: a field that is gone, or is something else.
fn twisted(line: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    let Value::Object(fields) = line else {
        if let Value::Array(rows) = line {
            for (at, row) in rows.iter().enumerate() {
                for twist in twisted(row) {
                    let mut rows = rows.clone();
                    rows[at] = twist;
                    all.push(Value::Array(rows));
                }
            }
        }
        return all;
    };
    for (key, value) in fields {
        let mut without = fields.clone();
        without.remove(key);
        all.push(Value::Object(without));
        let others = [Value::Null, json!(-7), json!(u64::MAX), json!("\u{0}é"), json!([1]), json!({"a": 1})];
        for twist in others.into_iter().chain(twisted(value)) {
            let mut fields = fields.clone();
            fields.insert(key.clone(), twist);
            all.push(Value::Object(fields));
        }
    }
    all
}

#[test]
fn no_line_of_whatever_kind_is_its_end() {
    for (sample, conversation) in ALL {
        let mut run = Run::begun(conversation);
        for line in sample.lines() {
            for twist in twisted(&serde_json::from_str(line).expect("JSON")) {
                let mut driver = run.driver.clone();
                driver.line(twist.to_string().as_bytes(), Timestamp::UNIX_EPOCH, &mut Out::default());
                driver.recall(twist.to_string().as_bytes());
                let _ = (driver.room(), driver.silence());
            }
            run.step(line);
        }
    }
    let mut driver = Codex::default();
    for line in
        ["", "{", "null", "7", "[]", "\"x\"", "{}", "{\"id\":[]}", "{\"method\":7,\"id\":{}}", "\u{feff}{}"]
    {
        assert_eq!(
            driver.line(line.as_bytes(), Timestamp::UNIX_EPOCH, &mut Out::default()),
            line.contains("id")
        );
    }
    driver.line(&[0xff, 0xfe, b'{'], Timestamp::UNIX_EPOCH, &mut Out::default());
}

#[test]
fn a12_whatever_it_says_its_memory_fits_into_a_book_that_reads_again() {
    let mut driver = Codex::default();
    let wide = "語".repeat(60_000);
    // Alone more than all that may be kept.
    let long = "x".repeat(700 << 10);
    let mut refused = 0;
    for n in 0..100 {
        let id = format!("{n}{}", "i".repeat(200));
        let rows = json!([{"id": "q", "question": wide, "rows": vec![0; 16_000]}]);
        let item = json!({"type": "userMessage", "clientId": MessageKey::derived(&[&id]), "content": []});
        let lines = [
            json!({"id": "netsky-thread", "result": {"thread": {"id": long}, "model": long}}),
            json!({"id": "netsky-greet", "result": {"userAgent": format!("codex/{long}")}}),
            json!({"id": vec![n; 16_000], "method": "item/tool/requestUserInput", "params": {"questions": rows}}),
            json!({"id": n, "method": "item/permissions/requestApproval", "params": {"permissions": {"p": rows}}}),
            json!({"id": wide, "method": "something/new"}),
            json!({"method": "turn/started", "params": {"turn": {"id": long}}}),
            json!({"method": "item/completed", "params": {"turnId": "t", "item": item}}),
            json!({"method": wide}),
        ];
        for line in lines {
            let mut out = Out::default();
            driver.line(line.to_string().as_bytes(), Timestamp::UNIX_EPOCH, &mut out);
            refused += out.writes.iter().filter(|write| write.once.starts_with("answer:")).count();
            assert!(out.writes.iter().all(|write| write.once.len() < 2000));
        }
    }
    // As a book has them: once in the memory, once for people.
    let kept = driver.memory().to_string().len() + json!(driver.asks()).to_string().len();
    assert!(kept < 600 << 10, "{kept}");
    let messages = driver.turn.as_ref().map_or(0, |turn| turn.messages.len());
    assert!((1..=64).contains(&messages), "{messages}");
    assert!(!driver.asks().is_empty() && refused >= 290, "what is not kept is refused: {refused}");
}
