//! What the ingester makes of files, facts and lines; a rebuild from nothing is the judge.

use std::path::Path;
use std::time::Duration;

use netsky_disk::lock::Lock;
use netsky_ledger::{Error, ingest, ingest_until, rebuild};
use netsky_model::life::State;
use netsky_model::witness::{Transition, Witness};
use rusqlite::Connection;
use serde_json::json;

use crate::house::{House, Lying};

/// Bytes of a page of the database.
const PAGE: usize = 4096;

/// What a history does next; the numbers are from a fixed seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// Where an envelope may go.
fn next(state: State, dice: &mut Dice) -> Option<State> {
    let choices: &[State] = match state {
        State::Written => &[State::Claimed, State::Poisoned],
        State::Claimed => &[State::Delivered, State::Delivered, State::Written],
        State::Delivered => &[State::Acked, State::Acked, State::Written, State::Poisoned],
        State::Poisoned => &[State::Acked],
        State::Acked | State::Forwarded => return None,
    };
    Some(choices[dice.roll(choices.len())])
}

/// A second look at the database, past the ingester.
fn open(house: &House) -> Connection {
    Connection::open(house.layout.meta_db()).expect("opens")
}

#[test]
fn i3_after_every_ingest_the_record_is_what_the_folders_say_and_what_a_rebuild_says() {
    for seed in 0..4 {
        let (house, mut dice, mut all) = (House::new(), Dice(seed), Vec::<Lying>::new());
        for step in 1..=250 {
            match dice.roll(12) {
                0..4 => {
                    let from = ["agent0", "owner", "peer:lab/agent3"][dice.roll(3)];
                    let told = dice.roll(4) > 0;
                    all.push(house.send(dice.roll(3) as u32, step, from, told));
                }
                4..10 if !all.is_empty() => {
                    let which = dice.roll(all.len());
                    if let Some(to) = next(all[which].state, &mut dice) {
                        all[which] = house.turn(&all[which], to, dice.roll(4) > 0);
                    }
                }
                10 => {
                    house.facts.append("note", &format!("k{step}"), json!({ "n": step })).expect("room");
                }
                _ => {
                    house.ingest();
                    house.holds(&all);
                }
            }
        }
        house.ingest();
        house.holds(&all);
        house.is_as_rebuilt(&format!("seed {seed}"));
    }
}

#[test]
fn fm_ingest_kill_doing_it_twice_adds_nothing() {
    let house = House::new();
    for n in 1..=20 {
        let sent = house.send(7, n, "agent0", true);
        house.turn(&sent, State::Claimed, true);
    }
    house.facts.append("note", "a", json!({})).expect("room");
    let first = house.ingest();
    assert_eq!((first.facts, first.lines, first.envelopes), (1, 40, 20));
    let events = "SELECT count(*), count(DISTINCT src || ':' || pos) FROM envelope_events";
    assert_eq!(house.ask(events), [["40", "40"]]);
    let again = house.ingest();
    assert_eq!((again.facts, again.lines, again.errors, again.refused), (0, 0, 0, 0));
    assert_eq!(house.ask(events), [["40", "40"]]);
    assert_eq!(house.ask("SELECT count(*) FROM bodies"), [["20"]]);
}

#[test]
fn fm_ingest_kill_an_ingest_that_died_between_two_batches_is_gone_on_with() {
    let house = House::new();
    for n in 1..=8 {
        house.send(7, n, "agent0", true);
    }
    house.ingest();
    let whole = house.record();
    // As a kill leaves it: neither the rows of a later batch nor how far it came.
    let lines = "SELECT pos FROM envelope_events ORDER BY pos";
    let middle: i64 = house.ask(lines)[4][0].parse().expect("a number");
    let db = open(&house);
    db.execute("DELETE FROM envelope_events WHERE pos >= ?1", [middle]).expect("goes");
    db.execute("UPDATE sources SET pos = ?1 WHERE name LIKE 'logs/%'", [middle]).expect("goes");
    drop(db);
    assert_eq!(house.ingest().lines, 4);
    assert_eq!((house.ask(lines).len(), house.record()), (8, whole));
}

#[test]
fn an_ingest_that_is_late_ends_between_two_batches_and_each_gets_further() {
    let house = House::new();
    let line =
        "{\"v\":1,\"ts\":\"2026-11-22T10:00:00Z\",\"event\":\"tick\",\"name\":\"x\",\"outcome\":\"done\"}\n";
    std::fs::write(house.layout.logs().join("telemetry-2026-11-22.jsonl"), line.repeat(45_000))
        .expect("writes");
    let late = || ingest_until(&house.layout, Duration::ZERO).expect("ingests").expect("nobody else does");
    let seen: Vec<(u64, bool)> = (0..3).map(|_| late()).map(|done| (done.lines, done.put_off)).collect();
    assert_eq!(seen, [(20_000, true), (20_000, true), (5_000, false)]);
    assert_eq!(house.ask("SELECT count(*) FROM ticks"), [["45000"]]);
}

/// Breaks a page of the database that an ingest with nothing to do has no need of.
fn break_a_page_nobody_reads(house: &House) {
    let mut bytes = std::fs::read(house.layout.meta_db()).expect("reads");
    let body = b"a body of its own";
    let at = bytes.windows(body.len()).position(|at| at == body).expect("it is in there");
    bytes[at - at % PAGE] = 0x77;
    std::fs::write(house.layout.meta_db(), bytes).expect("writes");
}

#[test]
fn fm_ingest_kill_a_database_is_looked_at_after_a_killed_ingest_and_once_in_a_boot() {
    type Doubt = fn(&House);
    let killed: Doubt = |house| {
        let note = br#"{"process":2,"ended":false}"#;
        std::fs::write(house.layout.ingest_lock(), note).expect("as a killed one leaves it");
    };
    let boot: Doubt = |house| {
        open(house).execute("UPDATE about SET value = 'ffffffff' WHERE key = 'boot_id'", []).expect("set");
    };
    for doubt in [killed, boot] {
        let house = House::new();
        house.send_text(7, 1, "a body of its own");
        for n in 2..=50 {
            house.send_text(7, n, &"x".repeat(1_000));
        }
        house.ingest();
        doubt(&house);
        let late =
            || ingest_until(&house.layout, Duration::ZERO).expect("ingests").expect("nobody else does");
        assert!(late().put_off, "the look came first");
        break_a_page_nobody_reads(&house);
        let done = late();
        assert_eq!((done.put_off, done.rebuilt), (false, false), "it was looked at, and is not again");
        doubt(&house);
        assert!(house.ingest().rebuilt);
        assert_eq!(house.ask("SELECT count(*) FROM bodies"), [["50"]]);
    }
}

#[test]
fn fm_ingest_kill_a_doubt_outlives_an_ingest_that_could_not_look() {
    let house = House::new();
    house.send_text(7, 1, "a body of its own");
    for n in 2..=50 {
        house.send_text(7, n, &"x".repeat(1_000));
    }
    house.ingest();
    break_a_page_nobody_reads(&house);
    std::fs::write(house.layout.ingest_lock(), br#"{"process":2,"ended":false}"#).expect("as a killed one");
    let other = open(&house);
    other.execute_batch("BEGIN IMMEDIATE").expect("somebody's");
    assert!(ingest(&house.layout, Duration::ZERO).expect_err("it is held").is_busy());
    drop(other);
    assert!(house.ingest().rebuilt);
}

#[test]
fn fm_ingest_racers_one_works_and_the_other_skips() {
    let house = House::new();
    let held = Lock::try_take(house.layout.ingest_lock()).expect("opens").expect("free");
    assert_eq!(ingest(&house.layout, Duration::ZERO).expect("no error"), None);
    drop(held);
    house.ingest();
}

#[test]
fn fm_ingest_corrupt_lines_and_files_are_listed_and_spoil_no_other() {
    let house = House::new();
    let sent = house.send(7, 1, "agent0", true);
    let folder = house.layout.folder(&sent.agent, State::Written);
    std::fs::write(folder.join("00000000000000000009-torn-1.json"), b"{\"from\":").expect("writes");
    std::fs::write(folder.join("stray"), b"x").expect("writes");
    let lines = house.logs().remove(0);
    let mut text = std::fs::read(&lines).expect("reads");
    let bad: [&[u8]; 6] = [
        b"not json",
        b"\0\0\0\0",
        b"{\"v\":1}",
        br#"{"v":9,"ts":"2026-11-22T10:00:00Z","event":"tick"}"#,
        br#"{"v":1,"ts":"2026-11-22T10:00:00Z","event":"transition","agent":"agent7"}"#,
        br#"{"v":1,"ts":"2026-11-22T10:00:00Z","event":"tick"}"#,
    ];
    let good: [&[u8]; 2] = [b"", br#"{"v":1,"ts":"2026-11-22T10:00:00Z","event":"of the future","x":{}}"#];
    for line in bad.into_iter().chain(good) {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    text.extend_from_slice(br#"{"v":1,"ts":"torn"#);
    std::fs::write(&lines, text).expect("writes");
    house.send(7, 2, "agent0", true);
    let done = house.ingest();
    // The torn end became a line of its own.
    assert_eq!((done.envelopes, done.errors), (3, 9), "{:?}", house.ask("SELECT * FROM source_errors"));
    assert_eq!(house.ask("SELECT id FROM messages WHERE body IS NOT NULL"), [["note-1"], ["note-2"]]);
    house.rebuild();
    assert_eq!(house.ask("SELECT count(*) FROM source_errors"), [["9"]]);
}

#[test]
fn i3_what_does_not_read_is_counted_once_and_listed_as_long_as_it_is_there() {
    let house = House::new();
    let sent = house.send(7, 1, "agent0", true);
    let [inbox, poison] =
        [State::Written, State::Poisoned].map(|state| house.layout.folder(&sent.agent, state));
    let torn = "00000000000000000009-torn-1.json";
    std::fs::write(inbox.join(torn), b"{\"from\":").expect("writes");
    std::fs::write(inbox.join("stray"), b"x").expect("writes");
    assert_eq!(house.ingest().errors, 2);
    house.send(7, 2, "agent0", true);
    assert_eq!(house.ingest().errors, 0, "they are known");
    std::fs::rename(inbox.join(torn), poison.join(torn)).expect("moves");
    std::fs::write(poison.join(format!("{torn}.reason")), b"is no envelope").expect("writes");
    std::fs::remove_file(inbox.join("stray")).expect("goes");
    house.ingest();
    let listed = "SELECT * FROM source_errors";
    assert_eq!(house.ask(listed).len(), 0);
    house.rebuild();
    assert_eq!(house.ask(listed).len(), 0);
}

fn run(db: &Path, statements: &str) {
    Connection::open(db).expect("opens").execute_batch(statements).expect("done");
}

fn truncate(db: &Path) {
    let file = std::fs::File::options().write(true).open(db).expect("opens");
    file.set_len(file.metadata().expect("there").len() / 2).expect("cuts");
}

#[test]
fn must_show_4_a_database_that_is_damaged_is_moved_aside_and_made_again() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage, bool); 10] = [
        ("deleted", |db| std::fs::remove_file(db).expect("goes"), false),
        ("emptied", |db| std::fs::write(db, b"").expect("writes"), false),
        ("garbage", |db| std::fs::write(db, vec![0xa5; 40_000]).expect("writes"), true),
        ("zeros", |db| std::fs::write(db, vec![0; 40_000]).expect("writes"), true),
        ("truncated", truncate, true),
        ("a table dropped", |db| run(db, "DROP TABLE facts"), true),
        (
            "a view changed",
            |db| run(db, "DROP VIEW messages; CREATE VIEW messages AS SELECT 'lies' AS body"),
            true,
        ),
        ("an index dropped", |db| run(db, "DROP INDEX envelopes_by_id"), true),
        (
            "a trigger made",
            |db| run(db, "CREATE TRIGGER x AFTER INSERT ON ticks BEGIN DELETE FROM facts; END"),
            true,
        ),
        ("a table of another's made", |db| run(db, "CREATE TABLE x (y)"), true),
    ];
    for (what, damage, shows) in damages {
        let house = House::new();
        for n in 1..=200 {
            house.send(7, n, "agent0", true);
        }
        house.facts.append("note", "a", json!({})).expect("room");
        house.ingest();
        let [_, mail] = house.record();
        damage(&house.layout.meta_db());
        house.facts.append("note", "b", json!({})).expect("room");
        let done = house.ingest();
        assert_eq!((done.rebuilt, done.aside.is_some_and(|aside| aside.exists())), (shows, shows), "{what}");
        let living = house.record();
        assert_eq!((living[0].len(), &living[1]), (2, &mail), "{what}");
        house.is_as_rebuilt(what);
    }
}

#[test]
fn damaged_databases_do_not_pile_up() {
    let house = House::new();
    for _ in 0..6 {
        let garbage = b"this is no database, and long enough to show that it is none at all";
        std::fs::write(house.layout.meta_db(), garbage).expect("writes");
        assert!(house.ingest().rebuilt);
    }
    let names = std::fs::read_dir(house.layout.home()).expect("lists");
    let names = names.map(|file| file.expect("listed").file_name().into_string().expect("text"));
    assert_eq!(names.filter(|name| name.contains("damaged")).count(), 3);
}

#[test]
fn a_database_of_a_later_program_is_left_alone() {
    let house = House::new();
    house.ingest();
    open(&house).execute_batch("PRAGMA user_version = 99").expect("set");
    for refused in [ingest(&house.layout, Duration::ZERO), rebuild(&house.layout, Duration::ZERO)] {
        assert!(matches!(refused, Err(Error::Unsuited(_))), "{refused:?}");
    }
}

#[test]
fn i3_what_retention_removed_is_told_by_lines_as_long_as_there_are_some() {
    let house = House::new();
    let told = house.send(7, 1, "agent0", true);
    let silent = house.send(7, 2, "agent0", false);
    let told = house.turn(&house.turn(&told, State::Claimed, true), State::Acked, true);
    house.ingest();
    house.remove(&told);
    house.remove(&silent);
    house.ingest();
    let left = "SELECT id, state, attempt, path FROM envelopes";
    assert_eq!(house.ask(left), [["note-1", "acked", "1", "NULL"]]);
    house.is_as_rebuilt("removed");
    for file in house.logs() {
        std::fs::remove_file(file).expect("removes");
    }
    house.ingest();
    for table in ["envelopes", "envelope_events", "bodies"] {
        assert_eq!(house.ask(&format!("SELECT count(*) FROM {table}")), [["0"]], "{table}");
    }
}

#[test]
fn i3_what_retention_removed_is_known_as_long_as_the_line_about_that() {
    // The lines about the moves go before the mail does (kept for longer), or after it.
    for mail_first in [true, false] {
        let house = House::new();
        let [kept, dead] =
            [1, 2].map(|n| house.turn(&house.send(7, n, "agent0", true), State::Claimed, true));
        let (kept, dead) = (house.turn(&kept, State::Acked, true), house.turn(&dead, State::Poisoned, true));
        let moves = house.age(60);
        house.ingest();
        let go = || std::fs::remove_file(&moves).expect("goes");
        if !mail_first {
            go();
            house.ingest();
        }
        [&kept, &dead].into_iter().for_each(|ended| house.retire(ended));
        house.ingest();
        if mail_first {
            go();
            house.ingest();
        }
        let question = "SELECT id, state, attempt, reason, file FROM envelopes ORDER BY id";
        let ended =
            [["note-1", "acked", "1", "NULL", "NULL"], ["note-2", "poisoned", "1", "five in vain", "NULL"]];
        assert_eq!(house.ask(question), ended, "mail first: {mail_first}");
        house.rebuild();
        assert_eq!(house.ask(question), ended, "mail first: {mail_first}, rebuilt");
    }
}

#[test]
fn i3_without_a_file_of_lines_those_in_the_others_say_how_an_envelope_ended() {
    let house = House::new();
    let sent = house.send(7, 1, "agent0", true);
    house.age(1);
    let acked = house.turn(&house.turn(&sent, State::Claimed, false), State::Acked, true);
    house.remove(&acked);
    house.ingest();
    let question = "SELECT id, state, attempt, reason FROM envelopes";
    assert_eq!(house.ask(question), [["note-1", "acked", "1", "NULL"]]);
    let newest = house.logs().into_iter().max().expect("two");
    std::fs::remove_file(newest).expect("goes");
    house.ingest();
    assert_eq!(house.ask(question), [["note-1", "written", "1", "NULL"]]);
    house.is_as_rebuilt("the newest lines gone");
}

#[test]
fn i3_without_the_newest_lines_a_removal_that_older_ones_tell_of_is_still_known() {
    let house = House::new();
    let [dead, late] = [1, 2].map(|n| house.send(7, n, "agent0", true));
    let dead = house.turn(&house.turn(&dead, State::Claimed, true), State::Poisoned, true);
    house.retire(&dead);
    // The clock went back meanwhile: the files say that this came after the removal.
    house.age(1);
    house.telemetry.saw(&Transition { reason: None, ..dead.told(None, None) });
    let late = house.turn(&house.turn(&late, State::Claimed, true), State::Acked, true);
    house.ingest();
    let newest = house.logs().into_iter().max().expect("two");
    let bytes = std::fs::read(&newest).expect("reads");
    let question = "SELECT id, state, attempt, reason, claimed_at IS NULL, acked_at IS NULL FROM envelopes
                    ORDER BY id";
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 3] = [
        ("gone", |file| std::fs::remove_file(file).expect("goes")),
        ("cut", |file| std::fs::write(file, "{}\n").expect("writes")),
        ("a folder", |file| {
            std::fs::remove_file(file).expect("goes");
            std::fs::create_dir(file).expect("made");
        }),
    ];
    for (what, harm) in harms {
        harm(&newest);
        house.ingest();
        let seen = [
            ["note-1", "poisoned", "1", "five in vain", "0", "1"],
            ["note-2", "acked", "1", "NULL", "1", "1"],
        ];
        assert_eq!(house.ask(question), seen, "{what}");
        house.holds(std::slice::from_ref(&late));
        house.is_as_rebuilt(what);
        assert_eq!(house.ask(question), seen, "{what}, rebuilt");
        let _ = std::fs::remove_dir(&newest).or_else(|_| std::fs::remove_file(&newest));
        house.ingest();
        std::fs::write(&newest, &bytes).expect("restored");
        house.ingest();
        house.is_as_rebuilt(&format!("{what}, restored"));
    }
}

#[test]
fn i3_an_end_whose_line_was_lost_is_told_by_the_removal_and_one_that_was_not_says_more() {
    let house = House::new();
    let [lost, dead] = [1, 2].map(|n| house.turn(&house.send(7, n, "agent0", true), State::Claimed, true));
    let lost = house.turn(&lost, State::Acked, false);
    let dead = house.turn(&dead, State::Poisoned, true);
    let question = "SELECT id, state, generation, acked_at IS NULL, reason FROM envelopes ORDER BY id";
    house.ingest();
    [lost, dead].iter().for_each(|ended| house.retire(ended));
    house.ingest();
    let ended = [["note-1", "acked", "3", "0", "NULL"], ["note-2", "poisoned", "NULL", "1", "five in vain"]];
    assert_eq!(house.ask(question), ended);
    house.rebuild();
    assert_eq!(house.ask(question), ended, "from lines alone");
}

#[test]
fn i3_facts_that_were_cut_rewritten_or_restored_are_read_anew() {
    let house = House::new();
    let file = house.layout.record().join("facts-1.jsonl");
    for key in ["a", "b", "c"] {
        house.facts.append("note", key, json!({})).expect("room");
    }
    house.ingest();
    let whole = std::fs::read_to_string(&file).expect("reads");
    let first = whole.lines().next().expect("one");
    std::fs::write(&file, format!("{first}\n")).expect("cuts");
    house.ingest();
    assert_eq!(house.ask("SELECT key FROM facts"), [["a"]], "never more than the facts");
    house.facts.append("note", "other", json!({})).expect("room");
    house.ingest();
    assert_eq!(house.ask("SELECT key FROM facts"), [["a"], ["other"]]);
    std::fs::write(&file, whole).expect("restores");
    house.ingest();
    assert_eq!(house.ask("SELECT key FROM facts"), [["a"], ["b"], ["c"]]);
    std::fs::remove_file(&file).expect("goes");
    house.ingest();
    assert_eq!(house.ask("SELECT key FROM facts").len(), 0);
}

/// A record that is too long for two files, all of it ingested; something is done after each of its notes.
fn with_three_files_of_facts(mut after: impl FnMut(&House, usize)) -> House {
    let house = House::new();
    for n in 0..40 {
        let text = format!("{}{}", n % 10, "x".repeat(60_000));
        house.facts.append("note", &n.to_string(), json!({ "text": text })).expect("room");
        after(&house, n);
    }
    house.ingest();
    house
}

/// What is done to a file of facts.
type Harm = fn(&Path);

fn edit(file: &Path, edit: impl FnOnce(String) -> String) {
    let text = std::fs::read_to_string(file).expect("reads");
    std::fs::write(file, edit(text)).expect("writes");
}

#[test]
fn i3_whatever_is_done_to_a_file_of_facts_the_living_record_is_what_a_rebuild_says() {
    let harms: [(&str, Harm); 8] = [
        ("a row changed in place", |file| edit(file, |text| text.replace(r#""text":"7x"#, r#""text":"8x"#))),
        ("its first row changed", |file| edit(file, |text| text.replacen(r#""kind":""#, r#""kind":"x"#, 1))),
        ("a row that is none", |file| edit(file, |text| text.replacen(r#"{"v":1"#, r#"{"v":?"#, 3))),
        ("its last row gone", |file| {
            edit(file, |text| text.lines().rev().skip(1).fold(String::new(), |t, l| format!("{l}\n{t}")))
        }),
        ("its end torn", |file| edit(file, |text| text + "torn")),
        ("emptied", |file| std::fs::write(file, "").expect("writes")),
        ("gone", |file| std::fs::remove_file(file).expect("goes")),
        ("a folder in its place", |file| {
            std::fs::remove_file(file).expect("goes");
            std::fs::create_dir(file).expect("made");
        }),
    ];
    let house = with_three_files_of_facts(|_, _| {});
    let (whole, errors) = (house.record(), "SELECT * FROM source_errors ORDER BY 1, 2");
    for number in 1..=3 {
        let file = house.layout.record().join(format!("facts-{number}.jsonl"));
        let before = std::fs::read(&file).expect("reads");
        for (what, harm) in harms {
            harm(&file);
            house.ingest();
            let living = house.ask(errors);
            house.is_as_rebuilt(&format!("{what}, file {number}"));
            assert_eq!(house.ask(errors), living, "{what}, file {number}");
            if file.is_dir() {
                std::fs::remove_dir(&file).expect("goes");
            }
            std::fs::write(&file, &before).expect("restored");
            house.ingest();
            assert_eq!((house.record(), house.ask(errors)), (whole.clone(), vec![]), "{what}, file {number}");
        }
    }
}

#[test]
fn a_long_record_comes_in_over_several_files_of_facts() {
    let house = with_three_files_of_facts(|house, n| {
        if n % 7 == 0 {
            house.ingest();
        }
    });
    assert_eq!(house.ask("SELECT count(*) FROM facts"), [["42"]], "and two seals");
    house.is_as_rebuilt("long");
}
