//! What is made, changed and closed, what is refused, and what the record says of it.

use std::fs;

use netsky_ledger::latest;
use netsky_model::id::{AgentId, Sender};
use netsky_model::task::{Actor, Change, Event, How, MAX_AFTER, State, Verdict};
use netsky_work::task::{Board, Error};
use serde_json::json;

use super::{claim, draft, home, id};

#[test]
fn tasks_are_numbered_and_the_newest_fact_of_each_is_the_task() {
    let home = home();
    let mut named = draft("named");
    named.id = Some(id("41"));
    assert_eq!(home.create("one").id, id("1"));
    home.board().create(named.clone()).expect("free");
    assert_eq!(home.create("next").id, id("42"));
    assert!(matches!(home.board().create(named), Err(Error::Exists(_))));
    let closed = home.board().act(&id("1"), Event::Closed { how: How::Dropped, why: None }).expect("open");
    let newest = latest(&home.layout, "task").expect("reads");
    assert_eq!(newest["1"].data["task"], json!(closed));
    assert_eq!(
        (newest["1"].data["actor"].as_str(), newest["1"].data["how"].as_str()),
        (Some("owner"), Some("dropped"))
    );
    let ids: Vec<String> =
        home.board().list().expect("reads").iter().map(|task| task.id.to_string()).collect();
    assert_eq!(ids, ["1", "41", "42"]);
}

#[test]
fn what_would_wait_for_itself_or_for_nothing_is_refused_and_changes_nothing() {
    let home = home();
    home.create("one");
    let mut second = draft("two");
    second.after = [id("1")].into();
    home.board().create(second).expect("made");
    let wait = |of: &str, on: &[&str]| {
        let after = on.iter().map(|one| id(one)).collect();
        let change = Change { after: Some(after), ..Change::default() };
        home.board().act(&id(of), Event::Updated(Box::new(change)))
    };
    let cycle = wait("1", &["2"]).expect_err("a cycle");
    assert_eq!(cycle.to_string(), "tasks would wait for one another: 1 after 2 after 1");
    assert!(matches!(wait("1", &["1"]), Err(Error::Cycle(_))));
    assert!(matches!(wait("1", &["9"]), Err(Error::Unknown(_))));
    let many: Vec<String> = (0..=MAX_AFTER).map(|n| format!("t{n}")).collect();
    assert!(matches!(wait("1", &many.iter().map(String::as_str).collect::<Vec<_>>()), Err(Error::Unfit(_))));
    let mut itself = draft("three");
    (itself.id, itself.after) = (Some(id("3")), [id("3")].into());
    assert!(matches!(home.board().create(itself), Err(Error::Cycle(_))));
    let mut bad = draft("four");
    bad.repo = Some("-x".to_owned());
    assert!(matches!(home.board().create(bad), Err(Error::Name(_))));
    assert_eq!(home.told(), ["task.created 1", "task.created 2"]);
}

#[test]
fn a_long_brief_has_a_file_and_one_that_was_changed_is_damage() {
    let home = home();
    let text = "line\n".repeat(10_000);
    let brief = home.board().keep_brief(&text).expect("fits");
    let file = home.layout.brief(&brief.digest);
    let mut long = draft("long");
    long.brief = Some(brief);
    let task = home.board().create(long).expect("made");
    assert_eq!(home.board().brief(&task).expect("reads"), Some(text));
    fs::write(&file, "another").expect("ours");
    assert!(matches!(home.board().brief(&task), Err(Error::Brief { why: "damaged", .. })));
    fs::remove_file(&file).expect("ours");
    assert!(matches!(home.board().brief(&task), Err(Error::Brief { why: "gone", .. })));
    let mut short = draft("short");
    short.brief = Some(home.board().keep_brief("short").expect("fits"));
    let task = home.board().create(short).expect("made");
    assert_eq!(home.board().brief(&task).expect("reads").as_deref(), Some("short"));
    assert_eq!(fs::read_dir(home.layout.briefs()).expect("there").count(), 1, "only its tmp");
}

#[test]
fn a_decision_on_a_damaged_record_is_none() {
    let home = home();
    home.create("one");
    let file = home.layout.record().join("facts-1.jsonl");
    let text = fs::read_to_string(&file).expect("reads");
    for damaged in [text.replace("one", "two"), text.replace(r#"{"v":1"#, r#"{"x":1"#)] {
        fs::write(&file, &damaged).expect("ours");
        assert!(matches!(home.board().list(), Err(Error::Record(netsky_ledger::Error::Broken { .. }))));
        assert!(home.board_of("agent7", 1).act(&id("1"), claim("agent7", 1)).is_err());
        assert_eq!(fs::read_to_string(&file).expect("reads"), damaged, "it is left as it is");
    }
    fs::write(&file, &text).expect("ours");
    home.board_of("agent7", 1).act(&id("1"), claim("agent7", 1)).expect("as it was");
}

#[test]
fn a_fact_of_a_task_that_holds_none_is_told_and_not_passed_by() {
    let home = home();
    let facts = netsky_ledger::Facts::new(&home.layout);
    facts.append("task.created", "7", json!({ "task": { "id": "7" } })).expect("room");
    let Err(Error::Unread { seq: 1, .. }) = home.board().list() else { panic!("no task") };
}

#[test]
fn what_is_told_is_read_across_files_whose_ends_are_named_by_the_next() {
    let home = home();
    let facts = netsky_ledger::Facts::new(&home.layout);
    home.create("old");
    for n in 0..40 {
        facts.append("note", &n.to_string(), json!({ "x": "y".repeat(50_000) })).expect("room");
    }
    home.create("new");
    assert!(home.layout.record().join("facts-2.jsonl").exists());
    let titles = |home: &super::Home| -> Vec<String> {
        home.board().list().expect("reads").iter().map(|task| task.title.to_string()).collect()
    };
    assert_eq!(titles(&home), ["old", "new"]);
    // What stands beyond the end that the next file names was never synced.
    let first = home.layout.record().join("facts-1.jsonl");
    let mut text = fs::read_to_string(&first).expect("reads");
    let void = text.lines().next().expect("a row").replace("old", "void");
    text.push_str(&void);
    text.push('\n');
    fs::write(&first, &text).expect("ours");
    assert_eq!(titles(&home), ["old", "new"]);
    let cut: Vec<&str> = text.lines().take(3).collect();
    fs::write(&first, cut.join("\n") + "\n").expect("ours");
    assert!(home.board().list().is_err(), "the end that the next one names is gone");
}

#[test]
fn of_a_report_the_words_are_kept_and_the_owner_has_the_last_one() {
    let home = home();
    home.create("one");
    let agent0 = Board::new(&home.layout, Actor::Keeper(Sender::from(AgentId::root())));
    let holder = home.board_of("agent7", 1);
    holder.act(&id("1"), claim("agent7", 1)).expect("free");
    let blocked = Event::Reported {
        verdict: Verdict::Blocked,
        text: "no key".to_owned(),
        by: super::agent("agent7"),
        generation: netsky_model::id::Generation(1),
    };
    let task = holder.act(&id("1"), blocked).expect("its own");
    let State::Blocked { why, .. } = &task.state else { panic!("{task:?}") };
    assert_eq!(why, "no key");
    agent0.act(&id("1"), Event::Released { why: "here it is".to_owned() }).expect("agent0 may");
    home.board_of("agent8", 1).act(&id("1"), claim("agent8", 1)).expect("free");
    assert_eq!(
        home.told(),
        ["task.created 1", "task.claimed 1", "task.reported 1", "task.released 1", "task.claimed 1"]
    );
    let history = home.board().history(&id("1")).expect("reads");
    assert_eq!((history.len(), history[3].data["why"].as_str()), (5, Some("here it is")));
}

#[test]
#[ignore = "how long a decision takes in a long record: cargo test -p netsky-work --test it -- --ignored --nocapture long_record"]
fn a_decision_in_a_long_record() {
    let home = home();
    let facts = netsky_ledger::Facts::new(&home.layout);
    let titles: Vec<String> =
        (0..1_000).map(|n| format!("{{\"id\":\"t{n}\",\"title\":\"task {n}\"}}")).collect();
    home.board().import(&titles.join("\n")).expect("whole");
    let note = json!({ "text": "x".repeat(300) });
    let keys: Vec<String> = (0..99_000).map(|n| n.to_string()).collect();
    for keys in keys.chunks(1_000) {
        let rows: Vec<_> = keys.iter().map(|key| ("note", key.as_str(), note.clone())).collect();
        let told: netsky_ledger::Result<u64> = facts.decide(|deciding| deciding.append(&rows));
        told.expect("room");
    }
    for round in 0..5 {
        let began = netsky_disk::clock::boot();
        home.board_of("agent7", round).act(&id(&format!("t{round}")), claim("agent7", round)).expect("free");
        println!("{:?}", netsky_disk::clock::boot() - began);
    }
}
