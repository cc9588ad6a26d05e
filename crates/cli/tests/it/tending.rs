//! What the tick does for mail: overdue acks, replies, pages for dead letters, and what may go.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use netsky_sim::{Call, Errno};
use serde_json::{Value, json};

use crate::bus_home::Home;
use crate::screen::{netsky, program};

/// Nothing takes so many ticks.
const TICKS: usize = 1_000;

fn home(config: &str) -> Home {
    let home = Home::init();
    fs::write(home.path().join("config.toml"), config).expect("written");
    let send = ["channel", "send", "agent7", "hello", "--from", "owner", "--create", "--id", "first"];
    netsky(&home, &send).works();
    netsky(&home, &["channel", "drain", "agent7"]).works();
    home
}

fn send(home: &Home, id: &str, further: &[&str]) {
    let args = [&["channel", "send", "agent7", "x", "--from", "owner", "--id", id], further].concat();
    netsky(home, &args).works();
}

fn drain(home: &Home) -> String {
    netsky(home, &["channel", "drain", "agent7"]).works().to_owned()
}

/// Ticks until something is so.
fn tick_until(home: &Home, what: &str, done: impl Fn() -> bool) {
    let tick = |home: &Home| {
        netsky(home, &["watchdog", "tick"]).works();
    };
    until(home, what, done, tick);
}

fn until(home: &Home, what: &str, done: impl Fn() -> bool, tick: impl Fn(&Home)) {
    for _ in 0..TICKS {
        tick(home);
        if done() {
            return;
        }
    }
    panic!("{what} did not happen within {TICKS} ticks");
}

fn pages(home: &Home) -> Vec<Value> {
    let Ok(entries) = fs::read_dir(home.path().join("record")) else { return Vec::new() };
    let files = entries.map(|entry| entry.expect("readable").path());
    let texts = files.filter(|path| path.extension().is_some_and(|it| it == "jsonl"));
    let lines: Vec<Value> = texts
        .flat_map(|path| {
            fs::read_to_string(path).expect("text").lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .map(|line| serde_json::from_str(&line).expect("JSON"))
        .collect();
    lines.into_iter().filter(|fact| fact["kind"] == "page").collect()
}

#[test]
fn an_envelope_without_its_ack_in_time_comes_again_flagged_and_one_with_it_does_not() {
    let home = home("[mail]\nack_within = \"200ms\"\n");
    send(&home, "late", &["--requires-ack"]);
    send(&home, "patient", &["--ack-within", "1h"]);
    send(&home, "acked", &["--requires-ack"]);
    send(&home, "plain", &[]);
    assert_eq!(drain(&home).matches("<channel ").count(), 4);
    netsky(&home, &["channel", "ack", "agent7", "acked"]).works();
    tick_until(&home, "the return", || !home.files("agent7", "inbox").expect("there").is_empty());
    let again = drain(&home);
    assert_eq!(again.matches("<channel ").count(), 1, "{again}");
    assert!(again.contains("id=\"late\"") && again.contains("redelivered=\"true\" attempt=\"2\""), "{again}");
    netsky(&home, &["check"]).works();
}

#[test]
fn fm_ack_kill_a_consumer_that_dies_before_its_ack_leaves_the_message_to_come_again_flagged() {
    let home = home("[mail]\nack_within = \"200ms\"\n");
    send(&home, "asks", &["--requires-ack"]);
    let watch = ["channel", "watch", "agent7", "--max", "1", "--", "/bin/true"];
    let mut command = program(&home, &watch);
    command.env("NETSKY_FAULT", "bus.deliver.synced=kill");
    assert!(!command.status().expect("it starts").success());
    assert!(home.files("agent7", "acked").expect("there").is_empty());
    tick_until(&home, "the return", || !home.files("agent7", "inbox").expect("there").is_empty());
    let again = drain(&home);
    assert!(again.contains("id=\"asks\"") && again.contains("redelivered=\"true\" attempt=\"2\""), "{again}");
    netsky(&home, &["check"]).works();
}

#[test]
fn a_program_that_knows_no_acks_is_shown_nothing_again_for_want_of_one() {
    let home = home("[mail]\nack_within = \"1ms\"\n");
    let wish = json!({
        "v": 1, "agent": "agent7", "want": "stopped", "by": "down", "since": "2026-01-01T00:00:00Z",
        "runtime": "command", "argv": ["/bin/true"], "cwd": "/", "env": {}, "receipts": "none",
    });
    let desired = home.path().join("state/desired/agent7.json");
    fs::create_dir_all(desired.parent().expect("a folder")).expect("made");
    fs::write(&desired, wish.to_string()).expect("written");
    send(&home, "asks", &["--requires-ack"]);
    assert_eq!(drain(&home).matches("<channel ").count(), 1);
    for _ in 0..5 {
        netsky(&home, &["watchdog", "tick"]).works();
    }
    assert_eq!(home.files("agent7", "delivered").expect("there").len(), 2);
}

#[test]
fn an_ack_that_never_comes_ends_as_a_dead_letter_with_one_page() {
    let home = home("[mail]\nack_within = \"1ms\"\n");
    send(&home, "late", &["--requires-ack"]);
    for _ in 1..=5 {
        assert_eq!(drain(&home).matches("<channel ").count(), 1);
        tick_until(&home, "the return", || home.files("agent7", "delivered").expect("there").len() == 1);
    }
    let dead = netsky(&home, &["channel", "poison", "list", "agent7"]);
    assert!(dead.works().contains("no ack came within 1ms"), "{}", dead.out);
    for _ in 0..3 {
        netsky(&home, &["watchdog", "tick"]).works();
    }
    let keys: Vec<Value> = pages(&home).into_iter().map(|page| page["key"].clone()).collect();
    assert_eq!(keys, ["poison/agent7/late"]);
}

#[test]
fn what_was_acked_goes_after_its_time_and_the_check_misses_nothing() {
    let home = home("[mail]\nkeep_acked = \"1s\"\n");
    netsky(&home, &["channel", "ack", "agent7", "first"]).works();
    send(&home, "second", &[]);
    tick_until(&home, "the removal", || home.files("agent7", "acked").expect("there").is_empty());
    assert_eq!(home.files("agent7", "inbox").expect("there").len(), 1);
    netsky(&home, &["check"]).works();
    let repeat = ["channel", "send", "agent7", "x", "--from", "owner", "--id", "first"];
    assert!(netsky(&home, &repeat).works().contains("is a duplicate"), "its id is remembered");
}

#[test]
fn a_tick_carries_replies_to_agent0() {
    let home = home("");
    let reply = r#"{"from":"x","text":"all done","ts":"2026-04-19T17:22:57Z"}"#;
    fs::write(home.channel("agent7", "outbox").join("r1.json"), reply).expect("written");
    netsky(&home, &["watchdog", "tick"]).works();
    let told = netsky(&home, &["channel", "drain", "agent0"]);
    assert!(told.works().contains("from=\"agent7\"") && told.out.contains("all done"), "{}", told.out);
}

#[test]
fn a_mailbox_that_lets_others_in_keeps_no_other_from_being_tended() {
    let home = home("[mail]\nack_within = \"200ms\"\nkeep_acked = \"1s\"\n");
    netsky(&home, &["channel", "send", "agent3", "x", "--from", "owner", "--create"]).works();
    fs::write(home.path().join("channels/agent/agent1"), "a file among the mailboxes").expect("written");
    for folder in ["delivered", "poison", "acked"] {
        fs::set_permissions(home.channel("agent3", folder), fs::Permissions::from_mode(0o755)).expect("ours");
    }
    send(&home, "late", &["--requires-ack"]);
    drain(&home);
    netsky(&home, &["channel", "ack", "agent7", "first"]).works();
    fs::write(home.channel("agent7", "poison").join("strange"), "x").expect("written");
    // Each ends with the one mailbox's problem.
    let tick = |home: &Home| assert_eq!(netsky(home, &["watchdog", "tick"]).code, 1);
    let is_back = || !home.files("agent7", "inbox").expect("there").is_empty();
    until(&home, "the return", is_back, tick);
    let is_gone = || home.files("agent7", "acked").expect("there").is_empty();
    until(&home, "the removal", is_gone, tick);
    assert_eq!(pages(&home).len(), 1);
    let last = fs::read_to_string(home.path().join("state/tick/watchdog.json")).expect("written");
    for told in ["dead letters of agent3: ", "mail of agent3 that waits for acks: "] {
        assert!(last.contains(told), "{told}: {last}");
    }
}

#[test]
fn fm_retention_eio_a_dead_letter_stays_until_its_reason_reads() {
    let home = home("[mail]\nkeep_poison = \"1s\"\n");
    let torn = home.channel("agent7", "inbox").join("00000000000000000042-torn-1.json");
    fs::write(torn, b"{\"from\":").expect("written");
    assert_eq!(netsky(&home, &["channel", "drain", "agent7"]).code, 7);
    netsky(&home, &["watchdog", "tick"]).works();
    let reason = |point: &netsky_sim::Point| {
        point.call == Call::Open && point.files.iter().any(|file| file.to_string_lossy().ends_with(".reason"))
    };
    // Once its time is over, a tick wants to know why it is dead.
    let refused = |home: &Home| {
        let outcome = home.stepper(["watchdog", "tick"]).fail_when(reason, Errno::EIO).expect("a tick");
        outcome.hit.is_some()
    };
    assert!((0..TICKS).any(|_| refused(&home)), "none goes");
    assert_eq!(home.files("agent7", "poison").expect("there").len(), 2, "it and its reason");
    tick_until(&home, "the removal", || home.files("agent7", "poison").expect("there").is_empty());
    let asked = "SELECT reason IS NOT NULL AS told FROM envelopes WHERE id LIKE '%torn%'";
    let row = netsky(&home, &["query", "--json", asked]);
    assert_eq!(row.works(), "{\"rows\":[{\"told\":1}]}\n");
}
