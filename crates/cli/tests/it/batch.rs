//! `channel send --batch` and `--file`: each line has its answer, and an answer means durable.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use netsky_disk::lock::Lock;
use netsky_sim::{Call, Ended, Moment};
use serde_json::{Value, json};

use crate::bus_home::Home;
use crate::racers::is_output;
use crate::screen::{Said, fed, netsky, program};

/// How long a flood goes on when nobody calms it.
const STORM: Duration = Duration::from_secs(180);

/// How often each is measured who must be heard through it; the median counts, for the machine has other work.
const HEARD: usize = 5;

const BATCH: [&str; 5] = ["channel", "send", "--batch", "--from", "agent0"];

fn lines(lines: &[Value]) -> Vec<u8> {
    lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

fn answers(said: &Said) -> Vec<Value> {
    said.out.lines().map(|line| serde_json::from_str(line).expect("one object a line")).collect()
}

#[test]
fn every_line_has_its_answer_in_order_and_the_worst_is_the_exit_code() {
    let home = Home::init();
    let batch = lines(&[
        json!({"to": "agent7", "text": "one", "create": true, "id": "job-1"}),
        json!({"to": "7", "text": "two", "kind": "note", "for_generation": 3, "trust": "external", "ack_within": "15m"}),
        json!({"to": "agent7", "text": "one", "id": "job-1"}),
        json!({"to": "agent9", "text": "nobody"}),
        json!({"to": "agent7", "text": "x", "hops": 0}),
        json!({"to": "agent7", "text": "x", "from": "agentloop"}),
        json!({"to": "agent7", "text": "y".repeat(300 * 1024)}),
        json!("no object"),
        json!({"to": "agent7", "text": "three"}),
    ]);
    let said = fed(&home, &BATCH, &batch);
    assert_eq!(said.code, 4, "{said:?}");
    assert_eq!(said.err, "netsky: 5 of 9 messages were not sent; the answer of each says why\n");
    let answers = answers(&said);
    let exits: Vec<u64> = answers.iter().map(|answer| answer["exit"].as_u64().unwrap_or(0)).collect();
    assert_eq!(exits, [0, 0, 0, 4, 2, 4, 2, 2, 0], "{answers:#?}");
    assert_eq!(answers[0], json!({"line": 1, "id": "job-1", "to": "agent7", "sent": true}));
    assert_eq!(
        answers[2],
        json!({"line": 3, "id": "job-1", "to": "agent7", "sent": false, "duplicate": true})
    );
    assert_eq!(answers[3]["line"], 4);
    let audit = home.audit("agent7").expect("whole");
    let texts: Vec<&str> =
        ["one", "two", "three"].into_iter().filter(|text| audit.saying(text) == 1).collect();
    assert_eq!((texts.len(), audit.found.len()), (3, 3));
    assert!(home.files("agent7", "tmp").expect("there").is_empty());
}

#[test]
fn whoever_waits_for_an_answer_gets_it_before_the_next_line() {
    let home = Home::init();
    let mut child = program(&home, &BATCH).stdin(Stdio::piped()).spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    for n in 1..=3 {
        stdin.write_all(&lines(&[json!({"to": "agent0", "text": n.to_string()})])).expect("it reads");
        let mut answer = String::new();
        stdout.read_line(&mut answer).expect("it answers");
        assert!(answer.contains("\"sent\":true"), "{answer}");
        assert_eq!(home.files("agent0", "inbox").expect("there").len(), n);
    }
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn t1_a_group_is_durable_before_any_of_it_is_said_to_be_sent() {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent7", "first", "--from", "agent0", "--create"]).works();
    let file = home.path().join("../batch.jsonl");
    let count = 10;
    let batch: Vec<Value> = (0..count).map(|n| json!({"to": "agent7", "text": n.to_string()})).collect();
    fs::write(&file, lines(&batch)).expect("written");
    let args = ["channel", "send", "--batch", "--file", file.to_str().expect("UTF-8"), "--from", "agent0"];
    let trace = home.stepper(args).points().expect("a traced run");
    assert_eq!(trace.run.ended, Ended::Exited(0), "{}", trace.run.stderr);
    let calls: Vec<_> = trace.points.into_iter().filter(|point| point.moment == Moment::Exit).collect();
    let places = |call: Call, folder: &str| -> Vec<usize> {
        let folder = home.channel("agent7", folder);
        let fits = |at: &usize| {
            calls[*at].call == call && calls[*at].files.iter().any(|file| file.starts_with(&folder))
        };
        (0..calls.len()).filter(fits).collect()
    };
    let (synced, named) = (places(Call::Sync, "tmp"), places(Call::Rename, "inbox"));
    assert_eq!((synced.len(), named.len()), (count, count), "{calls:#?}");
    assert!(synced.last() < named.first(), "named before it was synced: {calls:#?}");
    let folder = places(Call::Sync, "inbox");
    assert_eq!(folder.len(), 1, "one sync for all names: {calls:#?}");
    assert!(named.last() < folder.first(), "synced before the last name: {calls:#?}");
    let said = calls.iter().position(is_output).expect("it answers");
    assert!(said > folder[0], "said too soon: {calls:#?}");
}

#[test]
fn fm_send_kill_a_batch_leaves_whole_messages_or_none() {
    let home = Home::init();
    let batch: Vec<Value> = (0..40).map(|n| json!({"to": "agent0", "text": n.to_string()})).collect();
    for (point, placed) in [("bus.batch.begin", 0), ("disk.group.named", 40), ("bus.batch.placed", 40)] {
        let copy = home.copy();
        let mut command = program(&copy, &BATCH);
        let mut child = command
            .env("NETSKY_FAULT", format!("{point}=kill"))
            .stdin(Stdio::piped())
            .spawn()
            .expect("the program starts");
        child.stdin.take().expect("piped").write_all(&lines(&batch)).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.code().is_none() && output.stdout.is_empty(), "{point}: {output:?}");
        assert_eq!(copy.audit("agent0").expect("whole").found.len(), placed, "{point}");
    }
}

#[test]
fn a_message_from_a_file_is_its_text() {
    let home = Home::init();
    let file = home.path().join("../note.txt");
    let path = file.to_str().expect("UTF-8");
    let send = ["channel", "send", "agent0", "--from", "agent1", "--id", "n", "--file", path];
    netsky(&home, &send).fails_with(3, &["there is no file", "nothing was sent"]);
    let batch = |file| ["channel", "send", "--batch", "--from", "agent1", "--file", file];
    netsky(&home, &batch(path)).fails_with(3, &["there is no file", "nothing was sent"]);
    netsky(&home, &batch("/")).fails_with(2, &["/ is refused: not a regular file", "nothing was sent"]);
    fs::write(&file, "two\nlines\n").expect("written");
    netsky(&home, &send).works();
    assert_eq!(home.audit("agent0").expect("whole").saying("two\nlines"), 1);
    fs::write(&file, [0xff, 0xfe]).expect("written");
    netsky(&home, &send).fails(2, "the message is refused: not UTF-8; nothing was sent");
    fs::write(&file, vec![b'x'; 300 * 1024]).expect("written");
    netsky(&home, &send).fails_with(2, &["over the limit", "nothing was sent"]);
    let both = ["channel", "send", "agent0", "text", "--from", "agent1", "--file", path];
    netsky(&home, &both).fails_with(2, &["cannot be used with"]);
    netsky(&home, &["channel", "send", "agent0", "--from", "agent1"]).fails_with(2, &["required"]);
}

#[test]
fn a3_an_answer_has_no_more_trust_than_what_it_answers() {
    let home = Home::init();
    let trust = |id: &str| {
        let shown = netsky(&home, &["channel", "show", "agent0", id, "--json"]);
        let value: Value = serde_json::from_str(shown.works()).expect("JSON");
        value["trust"].as_str().map(str::to_owned)
    };
    let send = |args: &[&str]| netsky(&home, &[&["channel", "send"], args].concat());
    send(&["agent1", "from a page", "--from", "agent2", "--create", "--id", "in", "--trust", "external"])
        .works();
    send(&["agent1", "mine", "--from", "agent2", "--id", "own"]).works();
    send(&["agent0", "x", "--from", "agent1", "--id", "out", "--reply-to", "in"]).works();
    send(&["agent0", "x", "--from", "agent1", "--id", "raised", "--reply-to", "in", "--trust", "owner"])
        .works();
    send(&["agent0", "x", "--from", "agent1", "--id", "fair", "--reply-to", "own"]).works();
    send(&["agent0", "x", "--from", "agent1", "--id", "blind", "--reply-to", "unknown"]).works();
    send(&["agent0", "x", "--from", "owner", "--id", "owners", "--reply-to", "unknown"]).works();
    send(&["agent0", "x", "--from", "owner", "--id", "lowered", "--trust", "peer"]).works();
    let seen = ["out", "raised", "fair", "blind", "owners", "lowered"].map(trust);
    let external = Some("external".to_owned());
    assert_eq!(seen, [external.clone(), external.clone(), None, external, None, Some("peer".to_owned())]);
}

/// Sends some messages, one after the other; how long each took until its sender was answered and it could be read in the
/// inbox, the shortest first.
fn heard(home: &Home, sender: &str, kind: &str) -> Vec<Duration> {
    let one = |n: usize| {
        let id = format!("{kind}-{n}");
        let send = ["channel", "send", "agent0", "hear me", "--from", sender, "--kind", kind, "--id", &id];
        let began = Instant::now();
        match sender {
            "owner" => netsky(home, &send).works().len(),
            component => crate::screen::inside(home, component, &send).works().len(),
        };
        let shown = netsky(home, &["channel", "show", "agent0", &id, "--json"]);
        let took = began.elapsed();
        assert!(shown.works().contains("hear me"), "{shown:?}");
        let waits = home.files("agent0", "inbox").expect("there").iter().any(|file| file.contains(&id));
        assert!(waits, "{id} is in the inbox");
        took
    };
    let mut took: Vec<Duration> = (0..HEARD).map(one).collect();
    took.sort_unstable();
    took
}

#[test]
fn a24_a_flooding_clone_keeps_no_handoff_and_no_owner_out() {
    let home = Home::init();
    let noise: Vec<Value> =
        (0..4_000).map(|n| json!({"to": "agent0", "text": format!("noise {n}")})).collect();
    let (flood, gust) = (lines(&noise), lines(&noise[..200]));
    let send = ["channel", "send", "--batch"];
    let said = fed(&home, &[&send[..], &["--from", "agent7"]].concat(), &flood);
    assert_eq!((said.code, answers(&said).len()), (5, 4_000));
    let refused = answers(&said).pop().expect("the last")["error"].as_str().expect("text").to_owned();
    assert!(refused.contains("of this sender 2500 of at most 2500 envelopes"), "{refused}");
    assert_eq!(home.files("agent0", "inbox").expect("there").len(), 2_500);
    // Three more that flood take all that is not reserved.
    for clone in ["agent1", "agent2", "agent3"] {
        assert_eq!(fed(&home, &[&send[..], &["--from", clone]].concat(), &flood).code, 5);
    }
    assert_eq!(home.files("agent0", "inbox").expect("there").len(), 9_000);
    // They go on trying while the others send, and long enough to tell who waits for them.
    let calm = Arc::new(AtomicBool::new(false));
    let (begins, begun) = mpsc::channel();
    let began = Instant::now();
    let storm: Vec<_> = (1..=2)
        .map(|n| {
            let mut child = program(&home, &[&send[..], &["--from", &format!("agent{n}")]].concat())
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .expect("the program starts");
            let mut stdin = child.stdin.take().expect("piped");
            let (gust, calm, begins) = (gust.clone(), Arc::clone(&calm), begins.clone());
            let feed = move || {
                while !calm.load(Relaxed) && began.elapsed() < STORM {
                    stdin.write_all(&gust)?;
                    let _ = begins.send(());
                }
                Ok::<_, std::io::Error>(())
            };
            (child, std::thread::spawn(feed))
        })
        .collect();
    for _ in &storm {
        begun.recv_timeout(STORM).expect("it rages");
    }
    let (owner, handoff) = (heard(&home, "owner", "note"), heard(&home, "agentinfinity", "handoff"));
    assert!(began.elapsed() < STORM, "heard only when the storm was over");
    calm.store(true, Relaxed);
    for (mut child, feeder) in storm {
        feeder.join().expect("no panic").expect("it reads to the end");
        assert_eq!(child.wait().expect("it ends").code(), Some(5));
    }
    assert_eq!(home.files("agent0", "inbox").expect("there").len(), 9_000 + 2 * HEARD);
    println!("through the flood: owner {owner:?}, handoff {handoff:?}");
    for took in [owner, handoff] {
        assert!(took[HEARD / 2] <= Duration::from_secs(1), "{took:?}");
    }
}

#[test]
fn t16_a_clock_that_a_stopped_process_keeps_is_told_by_whoever_sends() {
    let home = Home::init();
    let state = home.path().join("state");
    let _ = fs::remove_file(state.join("clock"));
    let _stopped = Lock::try_take(state.join("clock.lock")).expect("it opens").expect("nobody has it");
    let why = "failed to wait for lock $HOME/state/clock.lock: another process has had it for 10 s; nothing was lost";
    netsky(&home, &["channel", "send", "agent0", "x", "--from", "owner"]).fails_with(5, &[why, "`fuser`"]);
}

#[test]
fn the_owner_sets_the_limits() {
    let home = Home::init();
    fs::write(home.path().join("config.toml"), "[bus]\ninbox_envelopes = 8\nshare_percent = 50\n")
        .expect("ours");
    let send = ["channel", "send", "agent0", "x", "--from", "agent7"];
    for _ in 0..4 {
        netsky(&home, &send).works();
    }
    netsky(&home, &send).fails_with(
        5,
        &[
            "the inbox of agent0 takes no more from agent7: it holds of this sender 4 of at most 4 envelopes",
            "nothing was sent, repeat when it has drained",
        ],
    );
    netsky(&home, &["channel", "drain", "agent0"]).works();
    netsky(&home, &send).works();
    fs::write(home.path().join("config.toml"), "[bus]\ninbox_bytes = 0\n").expect("ours");
    let never = "nothing was sent, for [bus] in config.toml has no room for it in an empty inbox either";
    netsky(&home, &send).fails_with(4, &["of at most 0 bytes; ", never]);
}

#[test]
fn limits_that_do_not_read_are_told_by_whoever_sends_past_them() {
    let home = Home::init();
    fs::write(home.path().join("config.toml"), "[bus]\ninbox_envelopes = \"x\"\n").expect("ours");
    let sent = netsky(&home, &["channel", "send", "agent0", "x", "--from", "agent7"]);
    assert!(sent.code == 0 && sent.err.lines().count() == 1, "{}", sent.err);
    assert!(sent.err.starts_with("netsky: config.toml: ") && sent.err.contains("line 2"), "{}", sent.err);
    assert!(sent.err.ends_with("; the defaults are used\n"), "{}", sent.err);
}

#[test]
fn a_line_that_is_no_message_is_told_in_the_words_of_who_wrote_it() {
    let home = Home::init();
    let lines = [
        ("", "it is empty"),
        ("[1]", "it is no JSON object"),
        ("{\"text\":", "it is no JSON, from byte"),
        (r#"{"to":"agent0"}"#, "it has no \"text\""),
        (r#"{"text":5}"#, "its \"text\" is not a text"),
        (r#"{"text":"x","requires_ack":"yes"}"#, "its \"requires_ack\" is not true or false"),
        (r#"{"text":"x","txet":"x"}"#, "it has \"txet\", which is none of to, text"),
        (r#"{"text":"x","text":"x"}"#, "it has `text` twice"),
    ];
    let text: String = lines.iter().map(|(line, _)| format!("{line}\n")).collect();
    let args = ["channel", "send", "agent0", "--batch", "--from", "owner"];
    let said = fed(&home, &args, text.as_bytes());
    for ((line, why), answer) in lines.iter().zip(said.out.lines()) {
        let answer: Value = serde_json::from_str(answer).expect("JSON");
        let error = answer["error"].as_str().expect("an error");
        assert!(error.starts_with(&format!("the line is no message: {why}")), "{line}: {error}");
    }
    assert_eq!(said.out.lines().count(), lines.len());
}
