//! `netsky task` as people and agents type it: one of many has a task, and its claim ends with its generation.

use std::process::Stdio;

use netsky_disk::process::Signal;
use serde_json::Value;

use crate::bus_home::Home;
use crate::screen::{fed, inside, netsky, program, said};
use crate::stage::Stage;

fn made(home: &Home, args: &[&str]) -> String {
    let told = netsky(home, &[&["task", "create"], args].concat());
    told.works().split(' ').nth(1).expect("its id").to_owned()
}

fn shown(home: &Home, id: &str) -> Value {
    serde_json::from_str(netsky(home, &["task", "show", id, "--json"]).works()).expect("one object")
}

fn listed(home: &Home, args: &[&str]) -> Vec<String> {
    let told = netsky(home, &[&["task", "list", "--json"], args].concat());
    let object: Value = serde_json::from_str(told.works()).expect("one object");
    let tasks = object["tasks"].as_array().expect("a list");
    tasks.iter().map(|task| task["id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn a_task_from_its_making_to_its_end() {
    let home = Home::init();
    made(&home, &["first", "--label", "x", "--priority", "low"]);
    let two = made(&home, &["second", "--after", "1", "--brief", "do it\nwell", "--priority", "urgent"]);
    assert_eq!(two, "2");
    let list = netsky(&home, &["task", "list"]);
    let rows: Vec<Vec<&str>> = list.works().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0].join(" "), "ID STATE PRIORITY WHO AFTER LABELS TITLE");
    assert_eq!(
        (rows[1].join(" "), rows[2].join(" ")),
        ("2 open urgent - 1 - second".into(), "1 open low - - x first".into())
    );
    let show = shown(&home, "2");
    assert_eq!((&show["brief_text"], &show["waits_for"]), (&"do it\nwell".into(), &serde_json::json!(["1"])));
    inside(&home, "agent3", &["task", "claim", "2"]).fails_with(5, &["task 2 waits for 1"]);
    netsky(&home, &["task", "update", "1", "--title", "the first", "--no-label"]).works();
    netsky(&home, &["task", "assign", "1", "agent3"]).works();
    inside(&home, "agent4", &["task", "claim", "1"]).fails_with(4, &["task 1 is assigned to agent3"]);
    assert_eq!(inside(&home, "agent3", &["task", "claim"]).works(), "task 1 claimed: the first\n");
    assert_eq!(
        inside(&home, "agent3", &["task", "claim"]).works(),
        "task 1 claimed: the first\n",
        "it has one"
    );
    inside(&home, "agent4", &["task", "close", "1"]).fails_with(4, &["agent4 may not have task 1 closed"]);
    inside(&home, "agent4", &["task", "release", "1"]).fails_with(4, &["only who holds it"]);
    inside(&home, "agent3", &["task", "close", "1", "it works"]).works();
    assert_eq!(
        (listed(&home, &[]), listed(&home, &["--all"])),
        (vec!["2".to_owned()], vec!["2".into(), "1".into()])
    );
    inside(&home, "agent3", &["task", "claim", "2"]).works();
    netsky(&home, &["task", "reopen", "1", "not quite"]).works();
    let kinds: Vec<String> = shown(&home, "1")["history"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|fact| fact["kind"].as_str().expect("a kind").to_owned())
        .collect();
    assert_eq!(
        kinds,
        ["task.created", "task.updated", "task.assigned", "task.claimed", "task.closed", "task.reopened"]
    );
    let table = |home: &Home| {
        netsky(home, &["query", "SELECT id, title, state, holder FROM tasks ORDER BY id"]).works().to_owned()
    };
    let rows: Vec<String> =
        table(&home).lines().map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(rows, ["ID TITLE STATE HOLDER", "1 the first open", "2 second claimed agent3"]);
    let before = table(&home);
    netsky(&home, &["ledger", "rebuild"]).works();
    assert_eq!(table(&home), before, "a rebuild says the same");
}

#[test]
fn what_is_no_task_is_refused_in_a_line_and_makes_none() {
    let home = Home::init();
    let long = "x".repeat(201);
    let within = home.path().display().to_string();
    for (args, code, word) in [
        (&["task", "create", ""][..], 2, "it is empty"),
        (&["task", "create", "a\u{1b}[31m"], 2, "control character"),
        (&["task", "create", &long], 2, "over the limit of 200"),
        (&["task", "create", "x", "--priority", "soon"], 2, "urgent, high, normal and low"),
        (&["task", "create", "x", "--after", "9"], 3, "there is no task 9"),
        (&["task", "create", "x", "--after", "../9"], 2, "task id"),
        (&["task", "create", "x", "--repo", "/nowhere/at/all"], 3, "there is no folder"),
        (&["task", "create", "x", "--repo", "file:///tmp"], 2, "only https and ssh are used"),
        (&["task", "create", "x", "--repo", "nowhere"], 3, "(https://…, ssh://… or user@host:path)"),
        (&["task", "create", "x", "--repo", &within], 4, "is within netsky's own home"),
        (&["task", "create", "x", "--main", "a..b"], 2, "git reads as an expression"),
        (&["task", "create", "x", "--brief", "nothere.md"], 3, "there is no file nothere.md"),
        (&["task", "create", "x", "--brief", " "], 2, "the brief is refused"),
        (&["task", "show", "9"], 3, "there is no task 9"),
        (&["task", "close", "9"], 3, "there is no task 9"),
        (&["task", "update", "9"], 2, "nothing was asked for"),
        (&["task", "claim"], 4, "below its session"),
        (&["task", "import", "/nowhere"], 3, "there is no file"),
    ] {
        let told = netsky(&home, args);
        assert!(told.code == code && told.err.contains(word), "{args:?}: {told:?}");
    }
    assert_eq!(listed(&home, &["--all"]), [""; 0]);
    fed(&home, &["task", "create", "x", "--brief", "-"], &vec![b'x'; 300_000]).fails_with(2, &["the brief"]);
    fed(&home, &["task", "create", "x", "--brief", "-"], "long ".repeat(9_000).as_bytes()).works();
    assert_eq!(shown(&home, "1")["brief_text"].as_str().expect("there").len(), 45_000);
    let digest = shown(&home, "1")["brief"]["digest"].as_str().expect("there").to_owned();
    std::fs::write(home.path().join("briefs").join(digest), "another").expect("ours");
    let told = netsky(&home, &["task", "show", "1"]);
    assert!(
        told.code == 7 && told.out.starts_with("task 1: x\n") && told.err.contains("is damaged"),
        "{told:?}"
    );
}

#[test]
fn fm_task_claim_racers_eight_programs_one_has_it() {
    let home = Home::init();
    made(&home, &["one"]);
    let racers: Vec<_> = (1..=8)
        .map(|n| {
            let mut command = program(&home, &["task", "claim", "1"]);
            let agent = format!("agent{n}");
            command.env("OSTK_MARK", format!("{agent}-0a0b0c0d.g3")).env("NETSKY_GENERATION", "3");
            command.env("NETSKY_AGENT", agent).stdin(Stdio::null()).spawn().expect("the program starts")
        })
        .collect();
    let told: Vec<_> =
        racers.into_iter().map(|racer| said(&home, racer.wait_with_output().expect("it ends"))).collect();
    let winners: Vec<_> = told.iter().filter(|told| told.code == 0).collect();
    assert_eq!(winners.len(), 1, "{told:?}");
    let holder = shown(&home, "1")["state"]["by"].as_str().expect("somebody").to_owned();
    for lost in told.iter().filter(|told| told.code != 0) {
        lost.fails_with(5, &[&format!("task 1 is claimed by {holder}, generation 3")]);
    }
}

#[test]
fn an_export_comes_back_in_another_home() {
    let (home, other) = (Home::init(), Home::init());
    made(&home, &["first", "--brief", "so"]);
    made(&home, &["second", "--after", "1", "--label", "x"]);
    netsky(&home, &["task", "close", "1", "--dropped", "no use"]).works();
    let lines = netsky(&home, &["task", "export"]);
    let imported = fed(&other, &["task", "import", "-"], lines.works().as_bytes());
    assert_eq!(imported.works(), "2 tasks imported, 0 were there already\n");
    assert_eq!(netsky(&other, &["task", "export"]).works(), lines.works());
    let again = fed(&other, &["task", "import", "-"], lines.works().as_bytes());
    assert_eq!(again.works(), "0 tasks imported, 2 were there already\n");
    let bad = format!("{{\"id\":\"9\",\"title\":\"x\"}}\n{}x", lines.works());
    fed(&other, &["task", "import", "-"], bad.as_bytes())
        .fails_with(2, &["line 4: ", "no task was imported"]);
    assert_eq!(listed(&other, &["--all"]), ["2", "1"]);
    let mut command = program(&other, &["task", "import", "-"]);
    command
        .env("NETSKY_AGENT", "agent3")
        .env("NETSKY_GENERATION", "3")
        .env("OSTK_MARK", "agent3-0a0b0c0d.g3");
    said(&other, command.output().expect("it starts")).fails_with(4, &["is for the owner"]);
}

#[test]
fn a_record_that_is_held_or_damaged_decides_nothing() {
    let home = Home::init();
    made(&home, &["one"]);
    let held =
        netsky_disk::lock::Lock::try_take(home.path().join("record/lock")).expect("opens").expect("free");
    netsky(&home, &["task", "close", "1"]).fails_with(5, &["is held by another process"]);
    assert_eq!(listed(&home, &[]), ["1"], "a look needs no lock");
    drop(held);
    let file = home.path().join("record/facts-1.jsonl");
    let text = std::fs::read_to_string(&file).expect("there");
    std::fs::write(&file, text.replace("one", "two")).expect("written");
    netsky(&home, &["task", "close", "1"]).fails_with(7, &["does not have its own hash"]);
    netsky(&home, &["task", "list"]).fails_with(7, &["does not have its own hash"]);
    std::fs::write(&file, text).expect("written");
    netsky(&home, &["task", "close", "1"]).works();
}

fn history(stage: &Stage) -> Vec<String> {
    let told = stage.ok(&[
        "query",
        "--json",
        "SELECT kind, data ->> '$.why' AS why FROM facts WHERE kind GLOB 'task.*' ORDER BY seq",
    ]);
    let rows: Value = serde_json::from_str(&told).expect("one object");
    let rows = rows["rows"].as_array().expect("a list");
    rows.iter()
        .map(|row| match row["why"].as_str() {
            Some(why) => format!("{}: {why}", row["kind"].as_str().unwrap_or_default()),
            None => row["kind"].as_str().unwrap_or_default().to_owned(),
        })
        .collect()
}

const CLAIMS: &str =
    "netsky session up; [ $NETSKY_AGENT = agent1 ] && netsky task claim 1; exec sleep 100000";

fn holder(stage: &Stage) -> Option<u64> {
    let told = stage.ok(&["task", "show", "1", "--json"]);
    serde_json::from_str::<Value>(&told).expect("one object")["state"]["generation"].as_u64()
}

#[test]
fn fm_task_release_a_claim_ends_with_its_generation_and_is_told_before_the_next_one() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    stage.ok(&["task", "create", "one"]);
    stage.ok(&["up", "1", "--tick", "200ms", "--", "/bin/sh", "-c", CLAIMS]);
    stage.until("a claim", |stage| holder(stage).filter(|generation| *generation == 1));
    stage.signal(&stage.program("agent1"), Signal::KILL);
    stage.until("a claim of its successor", |stage| holder(stage).filter(|generation| *generation == 2));
    let released = "task.released: generation 1 of agent1 has ended";
    assert_eq!(history(&stage), ["task.created", "task.claimed", released, "task.claimed"]);
}

#[test]
fn fm_task_release_a_tick_frees_what_a_stopped_agent_had_also_without_an_anchor() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    stage.ok(&["task", "create", "one"]);
    stage.ok(&["up", "1", "--tick", "10m", "--", "/bin/sh", "-c", CLAIMS]);
    stage.until("a claim", holder);
    stage.hold_triggers();
    assert_eq!(stage.ok(&["task", "tick"]), "no claim is over\n", "it lives");
    stage.kill_anchor();
    let worker = stage.worker("agent1");
    stage.signal(&stage.program("agent1"), Signal::KILL);
    stage.until("an end of its worker", |_| (!netsky_disk::process::is_alive(&worker)).then_some(()));
    assert_eq!(stage.ok(&["task", "tick"]), "task 1: released, generation 1 of agent1 has ended\n");
    assert_eq!(stage.ok(&["task", "tick"]), "no claim is over\n");
    assert_eq!(holder(&stage), None);
}

#[test]
fn a17_a_repository_that_is_refused_is_told_without_its_secret() {
    let home = Home::init();
    for text in ["https://me:s3cret@host/a", "https://s3cret@host/a", "ftp://me:s3cret@host/a"] {
        let refused = netsky(&home, &["task", "create", "x", "--repo", text]);
        refused.fails_with(2, &["host/a", "nothing was changed"]);
        assert!(!refused.err.contains("s3cret"), "{}", refused.err);
    }
    let refused = netsky(&home, &["task", "create", "x", "--repo", "https:/me:s3cret@host/a"]);
    refused.fails_with(3, &["there is no folder …@host/a"]);
}
