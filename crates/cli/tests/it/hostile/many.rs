//! A12: many messages, each as large as one may be: a list and a JSON drain hold a bounded part of them.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::bus_home::Home;
use crate::cost::cost;
use crate::screen::netsky;

/// Most memory over what the same verb needs in a home with one small message, in KiB.
const OVER_BASE: u64 = 64 * 1024;

/// The text of a large message, in bytes: near the most that fits into one.
const LARGE: usize = 250 * 1024;

fn home() -> Home {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent0", "good", "--from", "owner", "--id", "good"]).works();
    home
}

/// So many files with these bytes in one folder of agent0, as from before the one of [`home`].
fn fill(home: &Home, folder: &str, ending: &str, count: usize, bytes: &str) {
    for n in 0..count {
        fs::write(home.channel("agent0", folder).join(format!("{n:020}-x{n}{ending}")), bytes)
            .expect("room for it");
    }
}

fn envelope(rest: &str) -> String {
    format!("{{\"from\":\"agent1\",\"ts\":\"2026-04-19T17:22:57Z\",{rest}}}")
}

fn large() -> String {
    envelope(&format!("\"text\":\"{}\"", "x".repeat(LARGE)))
}

/// Some 3 MiB to who builds them in memory.
fn keys() -> String {
    envelope(
        &(0..26_000).map(|n| format!("\"{n}\":0,")).chain(["\"text\":\"t\"".to_owned()]).collect::<String>(),
    )
}

/// What the verb printed; it needs no more memory than is allowed for any home.
fn within(home: &Home, args: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let peak = |home: &Home, name: &str| cost(home, args, &folder.path().join(name)).0.memory;
    let base = peak(&self::home(), "base");
    let peak = peak(home, "out");
    println!("{args:?}: {peak} KiB, {base} of one small message");
    assert!(peak > 0 && peak < base + OVER_BASE, "{args:?}: {peak} KiB, {base} of one small message");
    fs::read_to_string(folder.path().join("out")).expect("text")
}

/// The messages of a JSON answer, and how many it says to have left out.
fn answer(text: &str) -> (Vec<Value>, u64) {
    let mut answer: Value = serde_json::from_str(text).expect("one object");
    let left_out = answer["left_out"].as_u64().expect("a number");
    match answer["envelopes"].take() {
        Value::Array(rows) => (rows, left_out),
        other => panic!("{other} is no list"),
    }
}

#[test]
fn a12_large_messages_are_listed_one_at_a_time() {
    let home = home();
    fill(&home, "acked", ".1.g3.json", 300, &large());
    let table = within(&home, &["channel", "list", "agent0", "--limit", "300"]);
    assert_eq!(table.lines().count(), 302);
    assert!(table.ends_with("1 older ones are not shown\n"), "{table}");
    let (rows, left_out) = answer(&within(&home, &["channel", "list", "agent0", "--json"]));
    assert_eq!((rows.len(), left_out), (301, 0));
    assert!(rows[1..].iter().all(|row| row["text"].as_str().is_some_and(|text| text.len() == LARGE)));
}

#[test]
fn a12_large_dead_letters_are_listed_one_at_a_time() {
    let home = home();
    fill(&home, "poison", ".5.json", 300, &large());
    let table = within(&home, &["channel", "poison", "list"]);
    assert_eq!(table.lines().count(), 301);
    let (rows, left_out) = answer(&within(&home, &["channel", "poison", "list", "--json", "--limit", "299"]));
    assert_eq!((rows.len(), left_out), (299, 1));
    assert!(rows.iter().all(|row| row["agent"] == "agent0"));
}

#[test]
fn a12_a_json_drain_takes_what_it_can_hold_and_leaves_the_rest() {
    let home = home();
    fill(&home, "inbox", ".json", 100, &large());
    let mut seen = BTreeSet::new();
    for round in 0.. {
        let text = within(&home, &["channel", "drain", "agent0", "--json"]);
        let (rows, left_out) = answer(&text);
        assert!(text.len() < 9 << 20, "{} bytes", text.len());
        let waiting = home.files("agent0", "inbox").expect("there").len();
        assert_eq!((left_out, round < 10), (waiting as u64, true));
        for row in &rows {
            assert!(seen.insert(row["id"].as_str().expect("an id").to_owned()), "{} twice", row["id"]);
            let length = if row["id"] == "good" { 4 } else { LARGE };
            assert_eq!(row["text"].as_str().map(str::len), Some(length));
            assert_eq!(row["attempt"], 1);
        }
        if rows.is_empty() {
            break;
        }
    }
    assert_eq!(seen.len(), 101);
    assert_eq!(home.files("agent0", "delivered").expect("there").len(), 101);
}

#[test]
fn a12_many_messages_of_many_keys_are_listed_and_drained_in_bounded_memory() {
    let home = home();
    fill(&home, "inbox", ".json", 64, &keys());
    for args in [&["channel", "list", "agent0"][..], &["channel", "list", "agent0", "--json"]] {
        within(&home, args);
    }
    let (rows, left_out) = answer(&within(&home, &["channel", "drain", "agent0", "--json"]));
    assert!(rows.len() > 10 && rows.len() as u64 + left_out == 65, "{} and {left_out}", rows.len());
    assert!(rows.iter().all(|row| row["25999"] == 0));
}

#[test]
fn a12_a_reason_that_quotes_the_damage_is_cut() {
    let home = home();
    let key = format!("\"{}\":0", "\u{7f}".repeat(LARGE / 2));
    fill(&home, "inbox", ".json", 128, &envelope(&format!("{key},{key}")));
    within(&home, &["channel", "list", "agent0"]);
    within(&home, &["channel", "drain", "agent0"]);
    let reasons = home.files("agent0", "poison").expect("there");
    let reason = reasons.iter().find(|file| file.ends_with(".reason")).expect("beside each");
    let written = fs::metadata(home.channel("agent0", "poison").join(reason)).expect("there").len();
    assert!((1_000..=4_096).contains(&written), "{written} bytes");
    assert_eq!(
        within(&home, &["channel", "poison", "list", "agent0"]).matches("not an envelope: key").count(),
        128
    );
}

/// What a question is answered, which needs no more memory over a short one than is allowed for any home.
fn asked(home: &Home, question: &str, form: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let peak = |question: &str, name: &str| {
        let mut args = vec!["query", question, "--timeout", "1m"];
        args.extend((!form.is_empty()).then_some(form));
        cost(home, &args, &folder.path().join(name)).0.memory
    };
    // Of another question: of this one a home with nothing in it has as much to say.
    let (base, peak) = (peak("SELECT 1", "base"), peak(question, "out"));
    let begin = &question[..question.len().min(200)];
    println!("{begin} {form}: {peak} KiB, {base} of one number");
    assert!(peak > 0 && peak < base + OVER_BASE, "{begin} {form}: {peak} KiB, {base} of one number");
    fs::read_to_string(folder.path().join("out")).expect("text")
}

const NUMBERS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 100000)";

#[test]
fn a12_one_long_cell_makes_no_other_long() {
    let home = home();
    let long = "iif(x = 500, printf('%.*c', 60000, 'b'), 'short')";
    let question = format!("{NUMBERS} SELECT x, {long} AS body FROM n LIMIT 20000");
    let table = asked(&home, &question, "");
    assert_eq!(table.lines().count(), 20_001);
    assert!(table.lines().all(|line| line.chars().count() < 150) && table.contains("bbb…\n"));
    for form in ["--json", "--csv"] {
        let text = asked(&home, &question, form);
        assert!(text.contains(&"b".repeat(60_000)) && text.len() < 2_000_000, "{form}: {}", text.len());
    }
    let nulls = format!("{NUMBERS} SELECT {} FROM n", vec!["NULL"; 500].join(","));
    for form in ["", "--csv"] {
        asked(&home, &nulls, form);
    }
}

#[test]
fn a12_a_long_name_of_a_column_is_counted_with_each_row() {
    let home = home();
    let question = format!("{NUMBERS} SELECT x AS \"{}\" FROM n", "a".repeat(90_000));
    for form in ["", "--csv", "--json"] {
        let text = asked(&home, &question, form);
        // First as a table, which would not show it otherwise: as JSON it would be 9 GB.
        assert!(text.lines().count() < 200 && text.len() < 20 << 20, "{form}: {} bytes", text.len());
    }
}
