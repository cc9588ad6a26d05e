//! The owner's side: what he sees, what he is told, and how he answers; in real constellations where something has to die.

use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};

use netsky_disk::layout::Layout;
use netsky_disk::process::Signal;
use netsky_ledger::Facts;
use serde_json::{Value, json};

use crate::stage::{QUIET, Stage};

/// A home whose transport keeps what it takes in a file, and tells milestones with the next tick.
fn home(more: &str) -> Stage {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let taken = stage.outside("taken").join("feed.jsonl");
    let transport = format!("[[page.transports]]\nkind = \"file\"\npath = {taken:?}\n");
    let config = format!("[owner]\ndigest = \"0\"\n{more}\n{transport}");
    std::fs::write(stage.home().join("config.toml"), config).expect("written");
    stage
}

fn taken(stage: &Stage) -> Vec<Value> {
    let text = std::fs::read_to_string(stage.outside("taken/feed.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Which events each digest told of, and whether it was flagged.
fn digests(stage: &Stage) -> Vec<(Vec<u64>, bool)> {
    let seqs = |page: &Value| {
        let events = page["events"].as_array()?;
        Some((events.iter().filter_map(|event| event["seq"].as_u64()).collect(), page["repeated"] == true))
    };
    taken(stage).iter().filter_map(seqs).collect()
}

fn lands(stage: &Stage, task: u64) {
    let data = json!({ "task": task, "sha": "0123456789abcdef", "main": "main" });
    let facts = Facts::new(&Layout::new(stage.home()));
    facts.append_once("harvest.landed", &format!("{task}/x"), data).expect("recorded");
}

fn events(stage: &Stage, args: &[&str]) -> Vec<Value> {
    let all: Vec<&str> = ["events", "--json"].iter().chain(args).copied().collect();
    let told: Value = serde_json::from_str(&stage.ok(&all)).expect("one object");
    told["events"].as_array().expect("a list").clone()
}

fn keys(events: &[Value]) -> Vec<String> {
    events.iter().map(|event| format!("{} {}", text(&event["kind"]), text(&event["key"]))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

#[test]
fn events_are_shown_by_kind_and_time_and_followed() {
    let stage = home("");
    assert_eq!(stage.ok(&["events"]), "nothing happened\n");
    lands(&stage, 12);
    stage.ok(&["escalate", "the disk", "--key", "disk"]);
    let line = stage.ok(&["events", "--kind", "harvest"]);
    assert!(
        line.contains("harvest.landed") && line.contains("task 12: landed on main as 0123456789ab"),
        "{line}"
    );
    assert_eq!(keys(&events(&stage, &[])), ["harvest.landed 12/x", "page escalate/disk"]);
    assert_eq!(keys(&events(&stage, &["--kind", "page"])), ["page escalate/disk"]);
    assert_eq!(events(&stage, &["--since", "1h"]).len(), 2);
    assert_eq!(events(&stage, &["--since", "2100-01-01T00:00:00Z"]), [json!(null); 0]);
    assert_eq!(stage.refused(&["events", "--since", "yesterday"]).0, 2);
    assert_eq!(events(&stage, &["--kind", "harv"]), [json!(null); 0], "a kind is whole words");

    let mut follow = stage.command(&["events", "-f", "--json", "--kind", "harvest"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(follow.stdout.take().expect("piped")).lines();
    let mut next =
        || -> Value { serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("JSON") };
    assert_eq!(next()["key"], "12/x");
    lands(&stage, 13);
    assert_eq!(next()["key"], "13/x");
    rustix::process::kill_process(rustix::process::Pid::from_child(&follow), rustix::process::Signal::TERM)
        .expect("ours");
    assert!(follow.wait().expect("ours").success(), "it was asked to end");
}

#[test]
fn fm_owner_digest_kill_at_each_point_loses_none_keeps_the_order_and_tells_a_file_once() {
    for (point, all) in [
        ("owner.digest.begun", [(vec![1, 2], true), (vec![3], false)]),
        ("owner.digest.taken", [(vec![1, 2], false), (vec![3], false)]),
    ] {
        let stage = home("");
        [1, 2].into_iter().for_each(|task| lands(&stage, task));
        let mut killed = stage.command(&["watchdog", "pages"]);
        let killed = killed.env("NETSKY_FAULT", format!("{point}=kill")).output().expect("it starts");
        assert_eq!(code(&killed), None, "{point}: {killed:?}");
        lands(&stage, 3);
        for _ in 0..3 {
            stage.ok(&["watchdog", "pages"]);
        }
        assert_eq!(digests(&stage), all, "{point}");
    }
}

#[test]
fn a18_t13_fm_owner_budget_kill_a_budget_that_is_reached_is_one_page_and_one_event_whoever_dies() {
    let stage = home("[budget]\ntokens_a_day = 100");
    let facts = Facts::new(&Layout::new(stage.home()));
    let usage = json!({ "input": 90, "output": 9, "cache_read": 5000, "cache_write": 1 });
    let turn = json!({ "agent": "agent7", "usage": usage });
    facts.append_once("turn.finished", "agent7-00000001.g1.5", turn.clone()).expect("recorded");
    for _ in 0..2 {
        let mut killed = stage.command(&["watchdog", "tick"]);
        let killed = killed.env("NETSKY_FAULT", "watchdog.budget.told=kill").output().expect("it starts");
        assert_eq!(code(&killed), None, "{killed:?}");
    }
    stage.ok(&["watchdog", "tick"]);
    // Recorded again, and one more of the same day.
    facts.append("turn.finished", "agent7-00000001.g1.5", turn.clone()).expect("recorded");
    facts.append("turn.finished", "agent7-00000001.g1.9", turn).expect("recorded");
    stage.ok(&["watchdog", "tick"]);
    let pages = stage.until("the page", |stage| Some(taken(stage)).filter(|pages| !pages.is_empty()));
    let said = text(&pages[0]["text"]);
    assert!(said.starts_with("the constellation reached its budget: 100 of 100 tokens on 2"), "{said}");
    assert_eq!((pages.len(), &pages[0]["key"]), (1, &json!("budget")), "{pages:?}");
    let told: Vec<(Value, Value)> = events(&stage, &[])
        .into_iter()
        .map(|mut event| (event["kind"].take(), event["level"].take()))
        .collect();
    assert_eq!(told, [(json!("page"), json!("page")), (json!("budget.reached"), json!("quiet"))]);
}

#[test]
fn must_show_7_a_tick_has_it_told_and_the_record_alone_says_the_same() {
    let stage = home("");
    [1, 2].into_iter().for_each(|task| lands(&stage, task));
    assert!(stage.ok(&["watchdog", "tick"]).contains("started to tell the owner of 2 events"));
    stage.until("the digest", |stage| (digests(stage).len() == 1).then_some(()));
    lands(&stage, 3);
    stage.ok(&["watchdog", "pages"]);
    std::fs::remove_dir_all(stage.home().join("state/owner")).expect("there");
    let pushed: Vec<Value> =
        taken(&stage).iter().filter_map(|page| page["events"].as_array()).flatten().cloned().collect();
    assert_eq!(events(&stage, &[]), pushed);
    let seqs =
        stage.ok(&["query", "--json", "SELECT seq FROM owner_events WHERE level = 'milestone' ORDER BY seq"]);
    assert!(seqs.contains("[1]") || seqs.contains("\"seq\":1"), "{seqs}");
}

#[test]
fn in_quiet_hours_milestones_wait_and_pages_do_not_unless_that_is_wanted() {
    let quiet = "quiet = [\"00:00-12:00\", \"12:00-00:00\"]\ntz = \"Europe/Berlin\"";
    for (more, is_paged) in [(quiet.to_owned(), true), (format!("{quiet}\nhold_pages = true"), false)] {
        let stage = home(&more);
        lands(&stage, 1);
        Facts::new(&Layout::new(stage.home())).append("page", "k", json!({ "text": "t" })).expect("recorded");
        stage.ok(&["watchdog", "pages"]);
        assert_eq!(taken(&stage).iter().any(|page| page["key"] == "k"), is_paged, "{more}");
        assert_eq!(digests(&stage), [], "{more}");
    }
}

#[test]
fn only_the_root_constellation_speaks_to_the_owner() {
    let stage = home("[constellation]\nroot = false");
    lands(&stage, 1);
    Facts::new(&Layout::new(stage.home())).append("page", "k", json!({ "text": "t" })).expect("recorded");
    stage.ok(&["watchdog", "pages"]);
    assert_eq!(taken(&stage), [json!(null); 0]);
    assert!(!stage.ok(&["status"]).contains("unsent"), "nobody waits for it");
    assert_eq!(events(&stage, &[]).len(), 2, "who looks sees them");
    let (code, line) = stage.refused(&["channel", "send", "owner", "hello", "--from", "agent0"]);
    assert!(code == 4 && line.contains("only the root constellation speaks to the owner"), "{code} {line}");
    stage.ok(&["escalate", "it burns", "--key", "fire"]);
    assert_eq!(taken(&stage)[0]["key"], "escalate/fire", "what somebody escalates is told from anywhere");
}

#[test]
fn a_zone_or_a_transport_that_is_none_is_refused_by_one_line() {
    for (more, said) in [
        ("tz = \"Mars/Olympus\"", "[owner] tz is no zone"),
        ("most = 0", "[owner] most is 0 and must be 1 to 1000"),
        ("[budget]\ntokens_a_day = 0", "[budget] tokens_a_day is 0 and must be 1 or more"),
        (
            "[[owner.transports]]\nkind = \"imessage\"\nto = \"x\"",
            "[[owner.transports]] 1: imessage is for macOS",
        ),
    ] {
        let stage = home(more);
        let (code, line) = stage.refused(&["owner", "test"]);
        assert!(code == 2 && line.contains(said), "{code} {line}");
    }
}

#[test]
fn owner_test_asks_each_transport_and_says_which_failed() {
    let stage = home("");
    assert!(stage.ok(&["owner", "test"]).contains("took it"));
    assert_eq!(taken(&stage)[0]["test"], true);
    let broken = "[[owner.transports]]\nkind = \"webhook\"\nurl = \"http://127.0.0.1:1/\"";
    let stage = home(broken);
    lands(&stage, 1);
    assert_eq!(code(&stage.run(&["watchdog", "pages"])), Some(5));
    let status = stage.ok(&["status"]);
    assert!(status.contains("the owner was not told of 1 event: 1 webhook: connection refused"), "{status}");
    let output = stage.run(&["owner", "test", "--json"]);
    assert_eq!(code(&output), Some(5), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let told: Vec<_> = told["transports"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (&one["list"], &one["took"]))
        .collect();
    assert_eq!(told, [(&json!("page"), &json!(true)), (&json!("owner"), &json!(false))]);
}

#[test]
fn a1_t21_the_owner_is_answered_by_agent0_alone_and_nobody_in_a_session_is_the_owner() {
    let stage = home("");
    let asked =
        stage.ok(&["channel", "send", "owner", "may I?\nsay so", "--from", "agent0", "--kind", "question"]);
    assert!(asked.contains("to owner"), "{asked}");
    for schedule in [["loop", "create", "1h"], ["cron", "add", "0 9 * * *"]] {
        let (exit, line) = stage.refused(&[&schedule[..], &["x", "--agent", "owner"]].concat());
        assert!(exit == 4 && line.contains("who hears agent0 alone"), "{exit} {line}");
    }
    for from in ["agent7", "build-bot", "owner"] {
        let (exit, line) = stage.refused(&["channel", "send", "owner", "hello", "--from", from]);
        assert!(exit == 4 && line.contains("the owner hears agent0 alone"), "{exit} {line}");
    }
    let sent = stage.ok(&["channel", "send", "agent7", "tell him", "--from", "agent0", "--create", "--json"]);
    let id = text(&serde_json::from_str::<Value>(&sent).expect("one object")["id"]);
    let (exit, line) = stage.refused(&["channel", "forward", "agent7", &id, "--to", "owner"]);
    assert!(exit == 4 && line.contains("the owner hears agent0 alone"), "{exit} {line}");
    let inbox: Value = serde_json::from_str(&stage.ok(&["owner", "inbox", "--json"])).expect("one object");
    assert_eq!(inbox["envelopes"][0]["text"], "may I?\nsay so");
    let id = text(&inbox["envelopes"][0]["id"]);
    assert!(stage.ok(&["owner", "inbox"]).contains(&format!("{id}  agent0 at ")));
    stage.ok(&["owner", "send", "yes", "--reply-to", &id]);
    stage.ok(&["owner", "ack", &id]);
    assert!(!stage.ok(&["owner", "inbox"]).contains("may I?"));
    assert!(stage.ok(&["owner", "inbox", "--all"]).contains("may I?"));
    let told: Value =
        serde_json::from_str(&stage.ok(&["channel", "list", "agent0", "--json"])).expect("one object");
    let told = &told["envelopes"][0];
    assert_eq!(
        (&told["from"], &told["reply_to"], &told["text"]),
        (&json!("owner"), &json!(id), &json!("yes"))
    );
    let rows = stage.ok(&["query", "--json", "SELECT to_agent, body FROM owner_directives"]);
    assert!(rows.contains("agent0") && rows.contains("yes"), "{rows}");
    // Whoever bears no agent's name is nobody either.
    let mut nameless = stage.command(&["channel", "drain", "owner"]);
    let nameless = nameless.env("NETSKY_AGENT", "no agent!").output().expect("starts");
    assert_eq!(code(&nameless), Some(4), "{nameless:?}");
    for args in [&["owner", "send", "obey"][..], &["owner", "ack", &id], &["owner", "test"]] {
        let mut inside = stage.command(args);
        let inside =
            inside.env("NETSKY_AGENT", "agent0").env("NETSKY_GENERATION", "1").output().expect("starts");
        assert_eq!(code(&inside), Some(4), "{args:?}: {inside:?}");
    }
}

#[test]
fn what_ticks_repair_is_an_event_once_and_so_is_what_agent0_writes() {
    let stage = Stage::up(1, QUIET, "200ms");
    stage.ok(&["channel", "send", "owner", "all is well", "--from", "agent0"]);
    stage.signal(&stage.program("agent1"), Signal::KILL);
    stage.until("agent1 again", |stage| (stage.agent("agent1")["generation"] == 2).then_some(()));
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_verified(2);
    stage.signal(&stage.program("netsky-ticker"), Signal::KILL);
    let is_kind = |wanted: &'static str| move |key: &&String| key.starts_with(wanted);
    stage.until("all of them", |stage| {
        let keys = keys(&events(stage, &[]));
        let found = [
            "watchdog.repaired agent1/g2",
            "watchdog.repaired restart/",
            "watchdog.repaired netsky-ticker/g2",
        ];
        let all = found.iter().all(|wanted| keys.iter().any(|key| key.starts_with(wanted)));
        (all && keys.iter().filter(is_kind("owner.message")).count() == 1).then_some(())
    });
    stage.kill_anchor();
    stage.until("the anchor", |stage| {
        keys(&events(stage, &[])).iter().any(|key| key == "watchdog.repaired anchor/2").then_some(())
    });
    let all = keys(&events(&stage, &["--kind", "watchdog"]));
    let each: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(each.len(), all.len(), "each once: {all:?}");
}
