//! The verb itself: what it prints, what it refuses, and that it changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::prepared::{Root as _, check, file, whole};
use crate::bus_home::Home;
use crate::screen::netsky;

#[test]
fn a_whole_home_holds_and_every_invariant_had_something_to_look_at() {
    let home = whole();
    let verdicts = check(&home);
    assert_eq!(verdicts.hold().notes(), [] as [&str; 0]);
    for id in ["I1", "I2", "I4", "I5", "I7"] {
        assert!(verdicts.looked_at(id) > 0, "{id}");
    }
    let said = netsky(&home, &["check"]);
    let rows: Vec<Vec<&str>> = said.works().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["ID", "INVARIANT", "LOOKED", "AT", "VERDICT"]);
    let ids: Vec<&str> = rows[1..].iter().map(|row| row[0]).collect();
    assert_eq!(ids, ["I1", "I2", "I4", "I5", "I7", "I11"]);
    assert!(rows[1..].iter().all(|row| row.last() == Some(&"holds")), "{rows:?}");
}

#[test]
fn damage_is_exit_7_a_row_a_line_and_one_sentence() {
    let home = whole();
    let waits = file(&home, "inbox", "waits");
    fs::write(home.path().join(&waits), "x").expect("written");
    let said = netsky(&home, &["check"]);
    assert_eq!(said.code, 7);
    assert_eq!(said.err, "netsky: I4 does not hold; nothing was changed, each finding names its file\n");
    assert!(said.out.contains("BROKEN: 1"), "{}", said.out);
    assert!(said.out.contains(&format!("\nI4 {waits}: not an envelope")), "{}", said.out);
}

#[test]
fn settings_that_do_not_read_are_a_note() {
    let home = whole();
    fs::write(home.path().join("config.toml"), "[defaults]\nargs = []\n").expect("written");
    let verdicts = check(&home);
    assert!(verdicts.hold().notes()[0].starts_with("I4 config.toml: line 2: "), "{:?}", verdicts.notes());
}

#[test]
fn it_changes_nothing_also_when_it_finds_damage() {
    let home = whole();
    fs::write(home.path().join(file(&home, "inbox", "waits")), "x").expect("written");
    fs::write(home.root("journal.jsonl"), "torn").expect("written");
    let before = tree(&home.path());
    assert_eq!(check(&home).code, 7);
    assert_eq!(netsky(&home, &["check"]).code, 7);
    assert_eq!(tree(&home.path()), before);
}

#[test]
fn facts_that_are_none_and_homes_that_are_none_are_refused() {
    let home = whole();
    let path = home.path().join("../facts.jsonl");
    let facts = path.to_str().expect("text").to_owned();
    netsky(&home, &["check", "--facts", &facts]).fails_with(3, &["there is no facts file"]);
    fs::write(&path, "\n{\"wished\":{}}\n").expect("written");
    netsky(&home, &["check", "--facts", &facts]).fails_with(2, &["line 2 of", "is no fact"]);
    fs::write(&path, b"\xff\n").expect("written");
    netsky(&home, &["check", "--facts", &facts]).fails_with(2, &["holds no facts", "UTF-8"]);
    netsky(&Home::nowhere(), &["check"]).fails_with(3, &["there is no home"]);
    fs::write(home.path().join("home.json"), "{").expect("written");
    netsky(&home, &["check"]).fails_with(7, &["understand", "home.json"]);
}

/// Every file with its size and when it was last written.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let meta = entry.metadata().expect("there");
        all.insert(entry.path(), (meta.len(), meta.modified().expect("a time")));
        if meta.is_dir() {
            all.extend(tree(&entry.path()));
        }
    }
    all
}
