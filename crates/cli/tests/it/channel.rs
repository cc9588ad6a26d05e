//! The channel verbs as people and scripts use them, screen by screen.

use std::fs;
use std::process::Child;

use netsky_sim::{Call, Ended, Errno, Point};
use serde_json::Value;

use crate::bus_home::Home;
use crate::screen::{inside, netsky, program, said};

fn json(text: &str) -> Value {
    assert_eq!(text.matches('\n').count(), 1, "one object on one line: {text:?}");
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_message_from_send_to_ack() {
    let home = Home::init();
    let send = [
        "channel",
        "send",
        "agent0",
        "gate is green",
        "--from",
        "agent1",
        "--kind",
        "report",
        "--id",
        "job-1",
    ];
    assert_eq!(netsky(&home, &send).works(), "sent job-1 to agent0\n");
    assert_eq!(
        netsky(&home, &send).works(),
        "job-1 is a duplicate: agent0 had it before, nothing was sent\n"
    );
    let element = netsky(&home, &["channel", "drain", "0"]);
    let (head, tail) = element.works().split_once(" ts=\"").expect("a time");
    assert_eq!(head, "<channel source=\"agent\" from=\"agent1\" kind=\"report\" id=\"job-1\"");
    assert!(tail.ends_with(" verified=\"false\">gate is green</channel>\n"), "{tail}");
    assert_eq!(netsky(&home, &["channel", "drain", "agent0"]).works(), "");
    let listed = netsky(&home, &["channel", "list", "agent0"]);
    let rows: Vec<Vec<&str>> = listed.works().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["STATE", "ID", "FROM", "KIND", "ATTEMPT", "TS", "AGE", "NOTE"]);
    assert_eq!(rows[1][..5], ["delivered", "job-1", "agent1", "report", "1"]);
    assert_eq!(netsky(&home, &["channel", "ack", "agent0", "job"]).works(), "acked job-1\n");
    assert_eq!(netsky(&home, &["channel", "ack", "agent0", "job-1"]).works(), "job-1 was acked before\n");
    assert_eq!(
        netsky(&home, &["channel", "list", "agent0", "--state", "inbox"]).works(),
        "agent0 has no messages\n"
    );
}

#[test]
fn the_same_as_json() {
    let home = Home::init();
    let sent =
        json(netsky(&home, &["channel", "send", "agent0", "hi", "--from", "agent1", "--json"]).works());
    let id = sent["id"].as_str().expect("an id");
    assert_eq!((&sent["to"], &sent["duplicate"]), (&"agent0".into(), &false.into()));
    let listed = json(netsky(&home, &["channel", "list", "agent0", "--json"]).works());
    assert_eq!(
        (&listed["envelopes"][0]["id"], &listed["envelopes"][0]["state"]),
        (&id.into(), &"written".into())
    );
    let drained = json(netsky(&home, &["--json", "channel", "drain", "agent0"]).works());
    let envelope = &drained["envelopes"][0];
    assert_eq!(
        (&envelope["text"], &envelope["attempt"], &envelope["redelivered"]),
        (&"hi".into(), &1.into(), &false.into())
    );
    assert!(envelope["rendered"].as_str().expect("text").starts_with("<channel "));
    let acked = json(netsky(&home, &["channel", "ack", "agent0", id, "--json"]).works());
    assert_eq!((&acked["state"], &acked["already"]), (&"acked".into(), &false.into()));
    let empty = json(netsky(&home, &["channel", "drain", "agent0", "--json"]).works());
    assert_eq!(empty["envelopes"], Value::Array(Vec::new()));
}

#[test]
fn what_a_session_drains_for_itself_is_taken_by_its_generation() {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent0", "x", "--from", "owner", "--id", "own"]).works();
    inside(&home, "agent0", &["channel", "drain", "agent0"]).works();
    netsky(&home, &["channel", "send", "agent0", "x", "--from", "owner", "--id", "zother"]).works();
    netsky(&home, &["channel", "drain", "agent0"]).works();
    let files = home.files("agent0", "delivered").expect("there");
    assert!(files[0].ends_with("-own.1.g3.json"), "{files:?}");
    assert!(files[1].ends_with("-zother.1.g0.json"), "{files:?}");
}

#[test]
fn a1_a_session_takes_no_other_agents_mail() {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent0", "x", "--from", "owner", "--id", "one"]).works();
    for args in [
        &["channel", "drain", "agent0"][..],
        &["channel", "drain", "agent0", "--json"],
        &["channel", "ack", "agent0", "one"],
    ] {
        inside(&home, "agent7", args).fails(
            4,
            "the messages of agent0 are refused: this session is agent7; look at them with `netsky channel list`",
        );
    }
    assert_eq!(home.files("agent0", "inbox").expect("there").len(), 1);
    inside(&home, "agent7", &["channel", "list", "agent0"]).works();
    inside(&home, "agent7", &["channel", "show", "agent0", "one"]).works();
}

#[test]
fn a_json_drain_never_answers_more_than_its_bound() {
    let home = Home::init();
    for _ in 0..102 {
        netsky(&home, &["channel", "send", "agent0", "x", "--from", "owner"]).works();
    }
    let drained = json(netsky(&home, &["channel", "drain", "agent0", "--json", "--max", "1000"]).works());
    assert_eq!(drained["envelopes"].as_array().expect("a list").len(), 100);
    assert_eq!(home.files("agent0", "inbox").expect("there").len(), 2);
}

#[test]
fn eight_processes_with_one_id_place_one_envelope() {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent0", "first", "--from", "owner"]).works();
    for round in 0..10 {
        let id = format!("job-{round}");
        let args = ["channel", "send", "agent0", &id, "--from", "owner", "--id", &id];
        let racers: Vec<Child> = (0..8).map(|_| program(&home, &args).spawn().expect("it starts")).collect();
        let answers = racers.into_iter().map(|racer| said(&home, racer.wait_with_output().expect("it ends")));
        let placed = answers.filter(|answer| !answer.works().contains("duplicate")).count();
        assert_eq!(placed, 1, "{id}");
    }
    assert_eq!(home.files("agent0", "inbox").expect("there").len(), 11);
}

#[test]
fn a11_a17_telemetry_holds_what_was_run_and_no_message() {
    let home = Home::init();
    let secret = "canary-7d1f";
    netsky(&home, &["channel", "send", "agent0", secret, "--from", "agent1", "--kind", "note"]).works();
    netsky(&home, &["channel", "drain", "agent0"]).works();
    netsky(&home, &["channel", "ack", "agent0", "nothing"]);
    let lines = || -> Vec<Value> {
        let logs = fs::read_dir(home.path().join("logs")).expect("there");
        let files = logs.map(|entry| entry.expect("readable").path()).filter(|path| path.is_file());
        let text: String = files.map(|file| fs::read_to_string(file).expect("text")).collect();
        assert!(!text.contains(secret), "{text}");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let told: Vec<String> = lines().iter().map(told).collect();
    assert_eq!(
        told,
        [
            "ran init 0",
            "agent0 written 1",
            "ran channel send 0",
            "agent0 claimed 1",
            "agent0 surfaced 1 g0",
            "agent0 delivered 1 g0",
            "ran channel drain 0",
            "ran channel ack 3",
        ]
    );
    assert!(lines().iter().all(|line| line["process"]["pid"].is_u64()));
    netsky(&home, &["--version"]).works();
    netsky(&home, &["channel", "--help"]).works();
    netsky(&home, &["channel", "drain", "../x"]);
    assert_eq!(lines().len(), told.len());
}

fn told(line: &Value) -> String {
    let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    if line["event"] == "invocation" {
        return format!("ran {} {}", text("verb"), line["exit"]);
    }
    let what = if line["event"] == "surfaced" { "surfaced".to_owned() } else { text("to") };
    let generation = line["generation"].as_u64().map(|g| format!(" g{g}")).unwrap_or_default();
    format!("{} {what} {}{generation}", text("agent"), line["attempt"])
}

#[test]
fn a_message_for_a_generation_that_ended_is_never_shown_to_a_later_one() {
    let home = Home::init();
    for (id, generation) in [("early", "4"), ("late", "2"), ("now", "3")] {
        let send = ["channel", "send", "agent0", "x", "--from", "owner", "--id", id];
        netsky(&home, &[&send[..], &["--for-generation", generation]].concat()).works();
    }
    let drained = inside(&home, "agent0", &["channel", "drain", "agent0"]);
    let shown = drained.works();
    assert!(shown.matches("<channel ").count() == 1 && shown.contains(" id=\"now\""), "{shown}");
    let dead = netsky(&home, &["channel", "poison", "list", "agent0"]);
    assert!(dead.works().contains("meant for a generation before 3"), "{dead:?}");
    let wait = ["channel", "wait", "agent0", "--timeout", "10ms"];
    assert_eq!(inside(&home, "agent0", &wait).code, 5, "what is early wakes nobody before its time");
}

#[test]
fn a6_a_plain_file_among_the_mailboxes_is_nobody() {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent1", "x", "--from", "owner", "--create"]).works();
    std::fs::write(home.path().join("channels/agent/agent9"), "x").expect("written");
    netsky(&home, &["channel", "poison", "list"]).works();
    netsky(&home, &["watchdog", "tick"]).works();
    let counted = netsky(&home, &["query", "select count(*) as n from envelopes", "--json"]);
    assert!(counted.works().contains("\"n\":1"), "{}", counted.out);
    assert!(counted.err.is_empty(), "{}", counted.err);
}

#[test]
fn a5_a_dead_letter_without_a_messages_name_is_shown_by_the_name_that_the_list_prints() {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent0", "x", "--from", "owner", "--id", "first"]).works();
    for name in ["My notes.txt", "fir"] {
        std::fs::write(home.channel("agent0", "inbox").join(name), "no envelope").expect("written");
    }
    assert_eq!(netsky(&home, &["channel", "drain", "agent0"]).code, 7);
    let listed = netsky(&home, &["channel", "poison", "list", "agent0"]);
    for name in ["My notes.txt", "fir"] {
        assert!(listed.works().contains(name), "{}", listed.out);
        let shown = netsky(&home, &["channel", "poison", "show", "agent0", name]);
        assert!(shown.works().contains("poisoned") && shown.out.contains(name), "{}", shown.out);
        let path = format!("/channels/agent/agent0/poison/{name}");
        netsky(&home, &["channel", "poison", "retry", "agent0", name])
            .fails_with(4, &["is a file without a message's name", &path]);
    }
    netsky(&home, &["channel", "poison", "show", "agent0", "first"]).fails_with(3, &["no dead letter"]);
    netsky(&home, &["channel", "poison", "show", "agent0", "Other notes"]).fails_with(2, &["Other notes"]);
}

#[test]
fn a_dead_letter_is_shown_by_its_id_and_by_the_name_of_its_file() {
    let home = Home::init();
    let send = ["channel", "send", "agent0", "x", "--from", "owner", "--id", "x1", "--for-generation", "2"];
    netsky(&home, &send).works();
    inside(&home, "agent0", &["channel", "drain", "agent0"]).works();
    let listed = netsky(&home, &["channel", "poison", "list", "agent0", "--json"]);
    let listed: Value = serde_json::from_str(listed.works()).expect("JSON");
    let file = listed["envelopes"][0]["file"].as_str().expect("a name").to_owned();
    let show = |what: &str| {
        netsky(&home, &["channel", "poison", "show", "agent0", what, "--json"]).works().to_owned()
    };
    assert_eq!(show(&file), show("x1"));
    netsky(&home, &["channel", "poison", "retry", "agent0", &file]).fails_with(2, &["its id is x1"]);
    netsky(&home, &["channel", "poison", "retry", "agent0", "x1"]).works();
}

#[test]
fn a5_a_dead_letter_that_is_another_message_than_its_name_says_is_not_retried() {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent0", "x", "--from", "owner", "--id", "x1"]).works();
    let inbox = home.channel("agent0", "inbox");
    let file = std::fs::read_dir(&inbox).expect("there").next().expect("one").expect("read").path();
    let name = file.file_name().and_then(|name| name.to_str()).expect("text");
    std::fs::copy(&file, inbox.join(name.replace("x1", "x9"))).expect("copied");
    assert_eq!(netsky(&home, &["channel", "drain", "agent0"]).code, 7);
    netsky(&home, &["channel", "poison", "retry", "agent0", "x9"]).fails_with(4, &["x9"]);
    assert!(netsky(&home, &["channel", "poison", "list", "agent0"]).works().contains("x9"));
}

#[test]
fn t3_a_sender_whose_id_is_forgotten_before_it_has_the_lock_takes_it_anew() {
    let home = Home::init();
    let entry = home.channel("agent0", "ids").join("job-1");
    let is_opened = |point: &Point| {
        let is_entry = point.files.last().is_some_and(|file| *file == entry);
        point.call == Call::Open && is_entry
    };
    let send = home.stepper(["channel", "send", "agent0", "x", "--from", "owner", "--id", "job-1"]);
    let sender = send.pause_when(is_opened).expect("a sender").expect("it opens the entry of its id");
    std::fs::remove_file(&entry).expect("as retention forgets it");
    let sent = sender.resume().expect("its end");
    assert_eq!(sent.ended, Ended::Exited(0), "{}", sent.stderr);
    let name = std::fs::read_to_string(&entry).expect("the entry of a message that is there");
    assert_eq!(home.files("agent0", "inbox").expect("there"), [name.trim_end()]);
}

#[test]
fn what_a_list_names_can_be_shown_whatever_its_name() {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent7", "x", "--from", "owner", "--create"]).works();
    for name in ["notes.txt", "my notes", ".hidden"] {
        std::fs::write(home.channel("agent7", "inbox").join(name), "mine").expect("written");
    }
    let list = netsky(&home, &["--json", "channel", "list", "agent7"]);
    let list: serde_json::Value = serde_json::from_str(list.works()).expect("JSON");
    let rows = list["envelopes"].as_array().expect("a list");
    assert_eq!(rows.len(), 4);
    for row in rows {
        let id = row["id"].as_str().or(row["file"].as_str()).expect("a name");
        netsky(&home, &["channel", "show", "agent7", id]).works();
    }
}

#[test]
fn a3_what_moves_while_it_is_looked_at_is_found_where_it_went() {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent0", "x", "--from", "owner", "--id", "one"]).works();
    netsky(&home, &["channel", "send", "agent1", "x", "--from", "owner", "--create"]).works();
    let reads = |point: &Point| {
        let is_it = point.files.iter().any(|file| file.to_string_lossy().ends_with("-one.json"));
        point.call == Call::Open && is_it
    };
    // As for who comes to its name a moment too late.
    let moved = |args: &[&str]| {
        let outcome = home.stepper(args.iter().copied()).fail_when(reads, Errno::ENOENT).expect("a run");
        assert!(outcome.hit.is_some(), "{args:?} reads it");
        assert_eq!(outcome.run.ended, Ended::Exited(0), "{args:?}: {}", outcome.run.stderr);
    };
    moved(&["channel", "show", "agent0", "one"]);
    moved(&["channel", "send", "agent1", "y", "--from", "agent0", "--reply-to", "one", "--id", "answer"]);
    let answer = json(netsky(&home, &["channel", "show", "agent1", "answer", "--json"]).works());
    assert_ne!(answer["trust"], "external");
}

#[test]
fn a17_a_process_that_once_could_not_say_who_it_is_says_so_in_its_next_line() {
    let template = Home::init();
    netsky(&template, &["channel", "send", "agent7", "x", "--from", "owner", "--create"]).works();
    let looks =
        |point: &Point| point.call == Call::Open && point.files.iter().any(|file| file.ends_with("stat"));
    let mut lacking = 0;
    for nth in 0.. {
        let (home, mut seen) = (template.copy(), 0);
        let is_nth = |point: &Point| {
            seen += usize::from(looks(point));
            looks(point) && seen == nth + 1
        };
        let run = home.stepper(["channel", "drain", "agent7"]).fail_when(is_nth, Errno::EMFILE);
        if run.expect("a run").hit.is_none() {
            break;
        }
        let logs = fs::read_dir(home.path().join("logs")).expect("there");
        let files = logs.map(|entry| entry.expect("readable").path()).filter(|path| path.is_file());
        let text: String = files.map(|file| fs::read_to_string(file).expect("text")).collect();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let without = lines.filter(|line| line["process"].is_null()).count();
        assert!(without <= 1, "the look {nth} failed: {text}");
        lacking += without;
    }
    assert!(lacking > 0, "no line lacked it");
}

#[test]
fn what_no_forward_takes_is_told_with_the_verb_that_does() {
    let home = Home::init();
    for id in ["torn", "unowned"] {
        netsky(&home, &["channel", "send", "agent0", "x", "--from", "owner", "--id", id]).works();
    }
    netsky(&home, &["channel", "send", "agent1", "x", "--from", "owner", "--create"]).works();
    let file = |folder: &str, id: &str| {
        let mut files = home.files("agent0", folder).expect("there").into_iter();
        home.channel("agent0", folder).join(files.find(|file| file.contains(id)).expect("there"))
    };
    let unowned = file("inbox", "unowned");
    let claimed = home.channel("agent0", "claimed").join(unowned.file_name().expect("a name"));
    fs::rename(unowned, claimed).expect("moved");
    netsky(&home, &["channel", "drain", "agent0"]).works();
    fs::write(file("delivered", "torn"), "{").expect("ours");
    let forward = |id: &str| netsky(&home, &["channel", "forward", "agent0", id, "--to", "agent1"]);
    forward("torn")
        .fails_with(4, &["torn of agent0 in delivered/ is a damaged file", "`netsky channel ack`"]);
    assert_eq!(netsky(&home, &["channel", "ack", "agent0", "torn"]).works(), "acked torn\n");
    forward("unowned").fails_with(4, &["unowned of agent0 is in claimed/", "`netsky channel release`"]);
    netsky(&home, &["channel", "release", "agent0", "unowned"]).works();
    forward("unowned").works();
}
