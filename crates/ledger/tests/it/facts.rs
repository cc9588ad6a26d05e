//! Facts: appended or not, in order, never on top of damage.

use std::path::{Path, PathBuf};

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_ledger::{Appended, Error, Facts, Mark, backup, end_of_facts, facts, facts_after, files};
use serde_json::json;

struct Home {
    _folder: tempfile::TempDir,
    layout: Layout,
    facts: Facts,
}

fn home() -> Home {
    let folder = tempfile::tempdir().expect("a folder");
    let layout = Layout::new(folder.path().join("home"));
    Dir::create(layout.record()).expect("made");
    Home { facts: Facts::new(&layout), layout, _folder: folder }
}

impl Home {
    fn file(&self, number: u64) -> PathBuf {
        self.layout.record().join(format!("facts-{number}.jsonl"))
    }

    fn append(&self, key: &str) -> u64 {
        self.facts.append("note", key, json!({ "n": 1 })).expect("room")
    }

    fn told(&self) -> Vec<(u64, String, String)> {
        let all = facts(&self.layout).expect("reads");
        all.into_iter().map(|fact| (fact.seq, fact.kind, fact.key)).collect()
    }

    fn broken(&self) -> Vec<(u64, usize)> {
        let mut broken = Vec::new();
        for file in files(&self.layout).expect("lists") {
            let file = file.expect("reads");
            broken.extend(file.broken.iter().map(|(line, _)| (file.number, *line)));
        }
        broken
    }
}

/// What is done to the text of a file.
type Damage = fn(String) -> String;

fn change(path: &Path, change: impl FnOnce(String) -> String) {
    let text = std::fs::read_to_string(path).expect("reads");
    std::fs::write(path, change(text)).expect("writes");
}

fn note(seq: u64, key: &str) -> (u64, String, String) {
    (seq, "note".to_owned(), key.to_owned())
}

#[test]
fn facts_read_back_in_the_order_of_their_numbers() {
    let home = home();
    assert_eq!(home.told(), []);
    assert_eq!((home.append("a"), home.append("b"), home.append("a")), (1, 2, 3));
    assert_eq!(home.told(), [note(1, "a"), note(2, "b"), note(3, "a")]);
    assert_eq!(home.broken(), []);
}

#[test]
fn fm_owner_page_racers_one_condition_is_one_fact() {
    let home = home();
    let appended: Vec<Appended> = std::thread::scope(|scope| {
        let once = || home.facts.append_once("page", "poison/agent0/x", json!({})).expect("room");
        let racers: Vec<_> = (0..8).map(|_| scope.spawn(once)).collect();
        racers.into_iter().map(|racer| racer.join().expect("no panic")).collect()
    });
    assert_eq!(appended.iter().filter(|appended| !appended.repeated).count(), 1);
    assert!(appended.iter().all(|appended| appended.seq == 1));
    assert_eq!(home.told().len(), 1);
    let other = home.facts.append_once("note", "poison/agent0/x", json!({})).expect("room");
    assert_eq!(other, Appended { seq: 2, repeated: false }, "another kind is another fact");
}

#[test]
fn fm_fact_append_racers_every_fact_has_a_number_of_its_own() {
    let home = home();
    std::thread::scope(|scope| {
        for racer in 0..4 {
            let home = &home;
            scope.spawn(move || (0..8).for_each(|n| assert!(home.append(&format!("{racer}-{n}")) > 0)));
        }
    });
    let numbers: Vec<u64> = home.told().into_iter().map(|(seq, ..)| seq).collect();
    assert_eq!(numbers, (1..=32).collect::<Vec<u64>>());
    assert_eq!(home.broken(), []);
}

#[test]
fn fm_fact_append_racers_what_another_process_appended_is_seen_by_one_that_was_there_before() {
    let home = home();
    let other = Facts::new(&home.layout);
    let once = |facts: &Facts, key: &str| {
        let Appended { seq, repeated } = facts.append_once("page", key, json!({})).expect("room");
        (seq, repeated)
    };
    // Each of them knows the record by then, and what each key was first.
    assert_eq!([once(&home.facts, "a"), once(&home.facts, "b")], [(1, false), (2, false)]);
    assert_eq!([once(&other, "a"), once(&other, "c")], [(1, true), (3, false)]);
    assert_eq!([once(&home.facts, "c"), once(&home.facts, "d")], [(3, true), (4, false)]);
    assert_eq!([once(&other, "d"), once(&other, "b")], [(4, true), (2, true)]);
    assert_eq!((home.told().len(), home.broken()), (4, vec![]));
    change(&home.file(1), |text| text.replacen("\"a\"", "\"x\"", 1));
    let refused = home.facts.append("note", "e", json!({}));
    assert!(matches!(refused, Err(Error::Broken { line: 1, .. })), "of the same length: {refused:?}");
}

#[test]
fn fm_fact_append_eio_what_another_process_may_have_failed_to_sync_is_written_anew() {
    let home = home();
    let file = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(home.file(1)).expect("there"));
    let once = |facts: &Facts, key: &str| {
        facts.append_once("page", key, json!({})).map(|Appended { seq, repeated }| (seq, repeated))
    };
    let other = || Facts::new(&home.layout);
    assert_eq!(once(&home.facts, "a").expect("room"), (1, false));
    let first = file();
    assert_eq!(once(&home.facts, "a").expect("room"), (1, true));
    assert_eq!(once(&home.facts, "b").expect("room"), (2, false));
    assert_eq!(file(), first, "its own, which it has synced");
    // To another process the one before it may have been killed before its sync, or after one that failed.
    assert_eq!(once(&other(), "b").expect("room"), (2, true));
    let second = file();
    assert_ne!(second, first, "a repeat");
    assert_eq!(once(&other(), "c").expect("room"), (3, false));
    assert_ne!(file(), second, "an append");
    assert_eq!((home.told().len(), home.broken()), (3, vec![]));
    // Nor does one know after an error what it left there.
    assert_eq!(once(&home.facts, "d").expect("room"), (4, false));
    let third = file();
    home.facts.append("note", "e", json!({ "text": "x".repeat(70_000) })).expect_err("too long");
    assert_eq!(once(&home.facts, "d").expect("room"), (4, true));
    assert_ne!(file(), third, "after an error");
    assert_eq!((home.told().len(), home.broken()), (4, vec![]));
}

#[test]
fn t14_a_torn_tail_is_cut_and_noted_before_the_next_fact() {
    let home = home();
    home.append("a");
    change(&home.file(1), |text| text + r#"{"v":1,"seq":2,"ts":"20"#);
    assert_eq!(home.told(), [note(1, "a")], "whoever only reads repairs nothing");
    assert_eq!(home.append("b"), 3);
    change(&home.file(1), |text| text + r#"{"v":1,"seq":4,"ts":"20"#);
    assert_eq!(Facts::new(&home.layout).append("note", "c", json!({})).expect("room"), 5, "another's");
    let all = facts(&home.layout).expect("reads");
    assert_eq!((all[1].kind.as_str(), all[1].key.as_str()), ("record", "torn-tail"));
    assert_eq!(all[1].data["cut"], 23);
    assert_eq!(home.broken(), []);
}

#[test]
fn t14_a_torn_tail_is_kept_before_it_is_cut() {
    let home = home();
    home.append("a");
    let torn = r#"{"v":1,"seq":2,"ts":"20"#;
    let at = std::fs::metadata(home.file(1)).expect("there").len();
    let [first, second] = [1, 2].map(|n| home.layout.record().join(format!("facts-1.torn-{at}.{n}")));
    // Of an earlier end at the same place, and of an append that was killed before it cut.
    std::fs::write(&first, "something else").expect("writes");
    std::fs::write(&second, torn).expect("writes");
    change(&home.file(1), |text| text + torn);
    assert_eq!(home.append("b"), 3);
    assert_eq!(std::fs::read_to_string(second).expect("kept"), torn);
    assert_eq!(std::fs::read_to_string(first).expect("left"), "something else");
    assert_eq!(facts(&home.layout).expect("reads")[1].data["kept"], format!("facts-1.torn-{at}.2"));
    change(&home.file(1), |text| text + "new");
    home.append("c");
    let kept = facts(&home.layout).expect("reads")[3].data["kept"].clone();
    let kept = kept.as_str().expect("a name");
    assert_eq!(std::fs::read_to_string(home.layout.record().join(kept)).expect("kept"), "new");
    let copy = home.layout.home().join("../copy");
    backup(&home.layout, &copy).expect("copied");
    assert_eq!(std::fs::read_to_string(copy.join(kept)).expect("copied"), "new");
}

#[test]
fn fm_fact_append_corrupt_of_a_broken_chain_not_even_the_torn_tail_is_cut() {
    let home = home();
    home.append("a");
    home.append("b");
    change(&home.file(1), |text| text.replacen(r#""n":1"#, r#""n":7"#, 1) + "torn");
    let before = std::fs::read(home.file(1)).expect("reads");
    let refused = home.facts.append("note", "c", json!({}));
    assert!(matches!(refused, Err(Error::Broken { line: 1, .. })), "{refused:?}");
    assert_eq!(std::fs::read(home.file(1)).expect("reads"), before);
}

#[test]
fn i3_a_row_that_does_not_have_its_own_hash_is_no_fact_and_its_neighbours_are() {
    let changes: [Damage; 2] = [
        |text| text.replacen(r#""key":"b""#, r#""key":"x""#, 1),
        |text| text.replacen(r#""seq":2"#, r#""seq":9"#, 1),
    ];
    for damage in changes {
        let home = home();
        for key in ["a", "b", "c"] {
            home.append(key);
        }
        change(&home.file(1), damage);
        assert_eq!(home.told(), [note(1, "a"), note(3, "c")]);
        assert_eq!(home.broken(), [(1, 2)]);
    }
}

#[test]
fn fm_fact_append_corrupt_a_broken_chain_is_kept_and_never_appended_to() {
    let damages: [(&str, Damage); 4] = [
        ("a changed row", |text| text.replacen(r#""n":1"#, r#""n":7"#, 1)),
        ("a row that is gone", |text| text.lines().skip(1).fold(String::new(), |t, l| t + l + "\n") + "x\n"),
        ("rows swapped", |text| {
            let mut rows: Vec<&str> = text.lines().collect();
            rows.swap(1, 2);
            rows.join("\n") + "\n"
        }),
        ("nothing left", |_| String::new()),
    ];
    for (what, damage) in damages {
        let home = home();
        for key in ["a", "b", "c"] {
            home.append(key);
        }
        change(&home.file(1), damage);
        let kept = std::fs::read(home.file(1)).expect("reads");
        let refused = home.facts.append("note", "d", json!({}));
        assert!(matches!(refused, Err(Error::Broken { .. })), "{what}: {refused:?}");
        assert_eq!(std::fs::read(home.file(1)).expect("reads"), kept, "{what}");
        assert_ne!(home.broken(), [], "{what}");
    }
}

#[test]
fn facts_of_a_later_format_are_left_alone() {
    let home = home();
    home.append("a");
    change(&home.file(1), |text| text + "{\"v\":2,\"anything\":1}\n");
    let refused = home.facts.append("note", "b", json!({}));
    assert!(matches!(refused, Err(Error::Newer { found: 2, .. })), "{refused:?}");
}

#[test]
fn a_sealed_file_of_a_later_format_stops_no_fact() {
    let home = home();
    let long = "x".repeat(60_000);
    for n in 0..20 {
        home.facts.append("note", &n.to_string(), json!({ "text": long })).expect("room");
    }
    assert!(home.file(2).exists());
    change(&home.file(1), |text| format!("{{\"v\":2,\"anything\":1}}\n{text}"));
    let facts = Facts::new(&home.layout);
    for (key, repeated) in [("a", false), ("b", false), ("a", true)] {
        let appended = facts.append_once("page", key, json!({})).expect("the last one takes it");
        assert_eq!(appended.repeated, repeated, "{key}");
    }
}

#[test]
fn a_full_file_is_sealed_and_the_next_goes_on_from_it() {
    let home = home();
    home.append("first");
    let long = "x".repeat(60_000);
    for n in 0..40 {
        home.facts.append("note", &n.to_string(), json!({ "text": long })).expect("room");
    }
    assert!(home.file(3).exists() && !home.file(4).exists());
    assert_eq!(home.broken(), []);
    let all = facts(&home.layout).expect("reads");
    assert_eq!(all.iter().map(|fact| fact.seq).collect::<Vec<_>>(), (1..=43).collect::<Vec<u64>>());
    let seals: Vec<&str> = all
        .iter()
        .filter(|fact| fact.key == "sealed")
        .filter_map(|fact| fact.data["file"].as_str())
        .collect();
    assert_eq!(seals, ["facts-1.jsonl", "facts-2.jsonl"]);
    let found = home.facts.append_once("note", "first", json!({})).expect("reads");
    assert_eq!(found, Appended { seq: 1, repeated: true }, "in a sealed file");
    change(&home.file(1), |text| text.lines().take(3).fold(String::new(), |t, l| t + l + "\n"));
    assert_eq!(home.broken().len(), 2, "a sealed file that lost its tail, and the one that follows it");
}

#[test]
fn fm_fact_append_huge_a_row_over_the_cap_is_refused_and_nothing_is_there() {
    let home = home();
    let refused = home.facts.append("note", "a", json!({ "text": "x".repeat(70_000) }));
    assert!(matches!(refused, Err(Error::TooLong { .. })), "{refused:?}");
    for (kind, key) in [("", "a"), ("Page", "a"), ("page", ""), ("page", "a\nb"), ("page", &"k".repeat(600))]
    {
        let refused = home.facts.append(kind, key, json!({}));
        assert!(matches!(refused, Err(Error::Invalid(_))), "{kind:?} {key:?}: {refused:?}");
    }
    assert_eq!(home.told(), []);
}

#[test]
fn a11_a_fact_is_one_line_whatever_it_holds() {
    let home = home();
    home.facts.append("note", "a", json!({ "text": "x\n{\"v\":1}\r\u{2028}\u{1b}[2J" })).expect("room");
    assert_eq!(std::fs::read_to_string(home.file(1)).expect("reads").lines().count(), 1);
    assert_eq!(home.told(), [note(1, "a")]);
}

#[test]
fn facts_of_version_1_load() {
    let home = home();
    std::fs::write(home.file(1), include_bytes!("../../samples/facts.v1.jsonl")).expect("writes");
    assert_eq!(home.broken(), []);
    assert_eq!(home.told(), [(1, "page".to_owned(), "poison/agent7/note-1".to_owned())]);
    assert_eq!(home.append("b"), 2);
}

#[test]
fn a24_who_records_often_finds_what_it_recorded_lately_and_searches_no_older_file() {
    let home = home();
    let once = |key: &str| home.facts.append_once_lately("turn", key, json!({ "x": "y".repeat(60_000) }));
    let first = once("1").expect("room");
    assert_eq!(once("1").expect("there"), Appended { seq: first.seq, repeated: true });
    // The file before the last one, for who died as the last was begun.
    for key in 2..20 {
        once(&key.to_string()).expect("room");
    }
    assert!(home.file(2).exists() && !home.file(3).exists());
    assert!(once("1").expect("there").repeated);
    // An older one is as good as not there.
    for key in 20..40 {
        once(&key.to_string()).expect("room");
    }
    assert!(home.file(3).exists());
    assert!(!once("1").expect("room").repeated);
    assert!(once("39").expect("there").repeated);
    assert_eq!(home.broken().len(), 0);
}

#[test]
fn the_mark_of_the_end_leaves_out_what_is_there_and_nothing_that_comes() {
    let home = home();
    let nothing = end_of_facts(&home.layout).expect("reads");
    assert_eq!(nothing, Mark::default());
    home.append("a");
    home.append("b");
    let mark = end_of_facts(&home.layout).expect("reads");
    home.append("c");
    let (facts, ..) = facts_after(&home.layout, mark).expect("reads");
    assert_eq!(facts.iter().map(|fact| &*fact.key).collect::<Vec<_>>(), ["c"]);
}
