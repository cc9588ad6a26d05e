//! Ingests that are put off after each batch, and come to what a rebuild comes to all the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use netsky_model::envelope::Envelope;
use netsky_model::hlc::Hlc;
use netsky_model::id::AgentId;
use netsky_model::life::{STATES, State};
use netsky_model::name::{Key, Name};
use serde_json::json;

use super::*;
use crate::facts::Facts;

/// Rows of a transaction, here.
const FEW: usize = 20;

/// Bytes of a fact of which a file takes fewer than a batch takes rows.
const LONG: usize = 60_000;

fn home(facts: usize, mark: &str) -> (tempfile::TempDir, Layout) {
    let folder = tempfile::tempdir().expect("a folder");
    let layout = Layout::new(folder.path().join("home"));
    for folder in layout.folders() {
        Dir::create(folder).expect("made");
    }
    let journal = Facts::new(&layout);
    for n in 0..facts {
        let data = json!({ "mark": mark, "text": "x".repeat(LONG) });
        journal.append("note", &format!("k{n}"), data).expect("room");
    }
    (folder, layout)
}

/// Facts and mail, as they are in the database.
fn record(layout: &Layout) -> BTreeMap<&'static str, Vec<String>> {
    let db = meta::writable(&layout.meta_db()).expect("opens");
    let all = [
        ("facts", "SELECT seq || key || hash FROM facts ORDER BY seq"),
        ("mail", "SELECT to_agent || id || state FROM envelopes ORDER BY hlc"),
        ("ticks", "SELECT count(*) || '' FROM ticks"),
        ("errors", "SELECT file || pos FROM source_errors ORDER BY file, pos"),
    ];
    let rows = |text: &str| {
        let mut asked = db.prepare(text).expect("asked");
        let rows = asked.query_map([], |row| row.get(0)).expect("answered");
        rows.map(|row| row.expect("text")).collect::<Vec<String>>()
    };
    all.into_iter().map(|(what, text)| (what, rows(text))).collect()
}

/// Ingests until nothing is put off; how often it was.
fn ingest_in_steps(layout: &Layout) -> usize {
    let bounds = Bounds { rows: FEW, until: Some(Duration::ZERO) };
    let late =
        || run(layout, Duration::ZERO, bounds, Begin::Here).expect("ingests").expect("nobody else does");
    (0..100).take_while(|_| late().put_off).count()
}

#[track_caller]
fn is_as_rebuilt(layout: &Layout, steps: usize) {
    assert!((1..100).contains(&steps), "put off, and each got further: {steps}");
    let lived = record(layout);
    rebuild(layout, Duration::ZERO).expect("rebuilds").expect("nobody else does");
    assert_eq!(lived, record(layout));
}

#[test]
fn fm_ingest_late_facts_that_are_put_off_all_come_in() {
    let (_folder, layout) = home(4 * FEW, "first");
    is_as_rebuilt(&layout, ingest_in_steps(&layout));
    // Restored: as many files with other facts in them.
    let (_other, from) = home(4 * FEW, "other");
    std::fs::remove_dir_all(layout.record()).expect("goes");
    Dir::create(layout.record()).expect("made");
    for name in fact_files(&from) {
        std::fs::copy(from.record().join(&name), layout.record().join(&name)).expect("copied");
    }
    is_as_rebuilt(&layout, ingest_in_steps(&layout));
    // And without the newest, so that the others are as large as they were known to be.
    let newest = fact_files(&layout).pop().expect("more than one");
    settle(&layout);
    rebuild(&layout, Duration::ZERO).expect("rebuilds").expect("nobody else does");
    std::fs::remove_file(layout.record().join(newest)).expect("goes");
    is_as_rebuilt(&layout, ingest_in_steps(&layout));
    // Nor does an old one leave anything, although none of those that are there has changed.
    let oldest = fact_files(&layout).remove(0);
    std::fs::remove_file(layout.record().join(oldest)).expect("goes");
    is_as_rebuilt(&layout, ingest_in_steps(&layout));
}

/// Waits until it can be told that the files of facts are as they were.
fn settle(layout: &Layout) {
    let record = Dir::open(layout.record()).expect("there");
    let untold = |name: &String| record.file_version(name).expect("looked at").is_none();
    while fact_files(layout).iter().any(untold) {
        clock::pause(Duration::from_millis(20));
    }
}

fn fact_files(layout: &Layout) -> Vec<String> {
    crate::facts::files(layout).expect("listed").map(|file| file.expect("read").name()).collect()
}

/// Puts an envelope into an agent's inbox.
fn send(layout: &Layout, agent: &AgentId, n: u64) {
    for state in STATES {
        Dir::create(layout.folder(agent, state)).expect("made");
    }
    let (id, ts): (_, Timestamp) = (format!("n{n}").parse().expect("valid"), Timestamp::UNIX_EPOCH);
    let name = Name::fresh(Key { hlc: Hlc(n), id });
    let from = "agent0".parse().expect("valid");
    let envelope = Envelope::new(name.key.id.clone(), from, agent.clone(), "text".to_owned(), ts);
    let path = layout.folder(agent, State::Written).join(name.to_string());
    std::fs::write(path, envelope.to_bytes().expect("small")).expect("written");
}

#[test]
fn fm_ingest_late_lines_and_mail_that_are_put_off_all_come_in() {
    let (_folder, layout) = home(0, "");
    let agent = AgentId::numbered(7);
    let inbox = layout.folder(&agent, State::Written);
    for n in 0..3 * FEW as u64 {
        send(&layout, &agent, n);
        std::fs::write(inbox.join(format!("stray {n}")), "").expect("written");
    }
    let tick =
        "{\"v\":1,\"ts\":\"2026-11-22T10:00:00Z\",\"event\":\"tick\",\"name\":\"x\",\"outcome\":\"done\"}\n";
    let lines = format!("{tick}no line\n").repeat(3 * FEW);
    std::fs::write(layout.logs().join("telemetry-2026-11-22.jsonl"), lines).expect("written");
    let steps = ingest_in_steps(&layout);
    let seen = record(&layout);
    assert_eq!((seen["mail"].len(), &*seen["ticks"][0]), (3 * FEW, &*(3 * FEW).to_string()));
    assert_eq!(seen["errors"].len(), 6 * FEW);
    is_as_rebuilt(&layout, steps);
}

/// A connection of the ingester that refuses rows of a table of which the condition is true; of its own, so that the tables
/// of the database are as they should be.
fn refusing(layout: &Layout, refused: &[(&str, &str)]) -> Connection {
    let db = meta::writable(&layout.meta_db()).expect("opens");
    for (table, when) in refused {
        let refuse = format!(
            "CREATE TEMP TRIGGER no_{table} BEFORE INSERT ON {table} WHEN {when} BEGIN SELECT raise(ABORT, 'no'); END"
        );
        db.execute_batch(&refuse).expect("made");
    }
    db
}

fn ingest_by(db: &Connection, layout: &Layout) -> Ingested {
    fill(db, layout, Bounds { rows: ROWS, until: None }, &mut false).expect("ingests")
}

fn asked<T: rusqlite::types::FromSql>(db: &Connection, question: &str) -> Vec<T> {
    let mut asked = db.prepare(question).expect("asked");
    let rows = asked.query_map([], |row| row.get(0)).expect("answered");
    rows.collect::<rusqlite::Result<_>>().expect("rows")
}

#[test]
fn t17_a_refused_row_is_kept_and_tried_once_more() {
    let (_folder, layout) = home(0, "");
    let telemetry = crate::Telemetry::new(&layout);
    ["one", "two", "three"].iter().for_each(|name| telemetry.tick(name, "done", Duration::ZERO));
    let db = refusing(&layout, &[("ticks", "new.name = 'two'")]);
    let done = ingest_by(&db, &layout);
    assert_eq!((done.lines, done.refused), (2, 1));
    let kept = crate::logs::files(&layout, crate::logs::REFUSED).expect("lists");
    let kept = std::fs::read_to_string(layout.logs().join(&kept[0].name)).expect("reads");
    assert_eq!(kept.lines().count(), 1);
    let ticks = "SELECT name FROM ticks ORDER BY pos";
    assert_eq!(asked::<String>(&db, ticks), ["one", "three"]);
    let done = ingest_by(&db, &layout);
    assert_eq!((done.refused, asked::<bool>(&db, "SELECT pos > 0 FROM source_errors")), (1, vec![true]));
    assert_eq!(ingest_by(&db, &layout).refused, 0, "it is not tried for ever");
    drop(db);
    rebuild(&layout, Duration::ZERO).expect("rebuilds").expect("nobody else does");
    let db = refusing(&layout, &[]);
    assert_eq!(asked::<String>(&db, ticks), ["one", "two", "three"]);
    assert_eq!(ingest_by(&db, &layout).lines, 0, "nothing is tried again that a rebuild has read");
}

#[test]
fn t17_what_the_second_try_takes_is_there_once() {
    let (_folder, layout) = home(1, "");
    send(&layout, &AgentId::numbered(7), 1);
    crate::Telemetry::new(&layout).tick("one", "done", Duration::ZERO);
    let db = refusing(&layout, &[("ticks", "true"), ("facts", "true"), ("bodies", "true")]);
    let done = ingest_by(&db, &layout);
    assert_eq!((done.facts, done.lines, done.envelopes, done.refused), (0, 0, 0, 3));
    drop(db);
    let db = refusing(&layout, &[]);
    ingest_by(&db, &layout);
    for (table, rows) in [("source_errors", 0), ("facts", 1), ("envelopes", 1), ("bodies", 1), ("ticks", 1)] {
        assert_eq!(asked::<i64>(&db, &format!("SELECT count(*) FROM {table}")), [rows], "{table}");
    }
    drop(db);
    is_as_rebuilt(&layout, 1);
}

#[test]
fn t17_a_refused_row_whose_folder_does_not_open_at_its_second_try_comes_in_later() {
    let (_folder, layout) = home(0, "");
    let agent = AgentId::numbered(7);
    send(&layout, &agent, 1);
    let inbox = Dir::open(layout.folder(&agent, State::Written)).expect("there");
    while inbox.version().expect("looked at").is_none() {
        clock::pause(Duration::from_millis(20));
    }
    let db = refusing(&layout, &[("envelopes", "true")]);
    assert_eq!(ingest_by(&db, &layout).refused, 1);
    drop(db);
    let db = refusing(&layout, &[]);
    let (place, aside) = (layout.channel(&agent), layout.channel(&agent).with_extension("aside"));
    // Of its inbox nothing changes.
    std::fs::rename(&place, &aside).expect("moves");
    std::os::unix::fs::symlink(&aside, &place).expect("made");
    let done = ingest_by(&db, &layout);
    assert_eq!((done.shut.is_some(), done.envelopes), (true, 0), "a link is not followed");
    std::fs::remove_file(&place).expect("goes");
    std::fs::rename(&aside, &place).expect("moves back");
    assert_eq!(ingest_by(&db, &layout).envelopes, 1);
    assert_eq!(asked::<i64>(&db, "SELECT count(*) FROM source_errors"), [0]);
}
