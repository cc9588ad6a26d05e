//! Clients that follow the journal: over the deaths of anchors, too slow, and with words that make no sense.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use netsky_kernel::client::{Client, Follow};
use netsky_kernel::drain::Report;
use netsky_kernel::rpc::{Event, EventKind, Guard};
use serde_json::{Value, json};

use crate::anchor_world::*;

/// A connection without a client's manners.
pub(crate) struct Raw {
    lines: BufReader<UnixStream>,
}

impl Raw {
    pub(crate) fn to(world: &World) -> Raw {
        let stream = UnixStream::connect(world.layout().sock()).expect("an anchor serves");
        stream.set_read_timeout(Some(LONG)).expect("a socket");
        Raw { lines: BufReader::new(stream) }
    }

    fn say(&mut self, method: &str, params: &Value) {
        let line = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params}).to_string();
        self.lines.get_mut().write_all(format!("{line}\n").as_bytes()).expect("written");
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("the anchor lives");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line:?}"))
    }

    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        self.say(method, params);
        self.hear()
    }
}

/// Every row of the journal, as it is on the disk.
pub(crate) fn journal(world: &World) -> Vec<Value> {
    let text = std::fs::read_to_string(world.layout().journal()).expect("reads");
    text.lines().map(|line| serde_json::from_str(line).expect("a row")).collect()
}

fn seq(row: &Value) -> u64 {
    row["seq"].as_u64().expect("a number")
}

#[test]
fn who_follows_gets_every_row_once_while_anchors_are_killed() {
    let mut world = World::new();
    let mut client = world.anchor();
    spawn(&mut client, &sleeper("agent0"));
    let root = world.root.clone();
    let follower = std::thread::spawn(move || {
        let mut rows = Follow::all(&root, 0);
        let mut told: Vec<Event> = Vec::new();
        let is_last = |event: &Event| {
            event.kind == EventKind::Started
                && event.session.as_ref().is_some_and(|name| name.as_str() == "last")
        };
        while !told.last().is_some_and(is_last) {
            told.push(rows.next(Some(LONG)).expect("an anchor comes").expect("a row comes"));
        }
        told
    });
    for n in 0..6 {
        // Where it is in its work when it dies differs from round to round.
        let mut doomed = world.client();
        for step in 0..n * 7 {
            let report = Report::SessionId { session_id: format!("c{n}-{step}"), transcript: None };
            doomed.report(&id("agent0"), &report, &Guard::none()).expect("told");
        }
        world.kill_anchor();
        world.anchor();
    }
    spawn(&mut world.client(), &sleeper("last"));
    let told = follower.join().expect("no panic");
    let seqs: Vec<u64> = told.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "no row is lost and none comes twice");
    for (event, row) in told.iter().zip(journal(&world)) {
        let event = serde_json::to_value(event).expect("plain");
        assert!(event.as_object().expect("an object").iter().all(|(key, value)| row[key] == *value), "{row}");
        let kind: EventKind = serde_json::from_value(row["kind"].clone()).expect("a kind");
        assert!(kind.fits(&row["data"]), "{row}");
    }
    let epochs: std::collections::BTreeSet<u64> = told.iter().map(|event| event.epoch).collect();
    assert_eq!(epochs.len(), 7, "it followed seven anchors");
}

#[test]
fn another_connection_goes_on_behind_the_row_it_names_and_hears_of_its_session_alone() {
    let mut world = World::new();
    let mut client = world.anchor();
    let epoch = client.hello().epoch;
    spawn(&mut client, &sleeper("agent0"));
    spawn(&mut client, &sleeper("agent1"));
    let mut first = Raw::to(&world);
    let attach = |since: u64| json!({"session": "agent0", "mode": "events", "since": since});
    let answer = first.call("client/attach", &attach(0));
    assert_eq!((&answer["epoch"], &answer["result"]["generation"]), (&json!(epoch), &json!(1)), "{answer}");
    let seen = first.hear()["params"].clone();
    assert_eq!((&seen["kind"], &seen["session"]), (&json!("spawn"), &json!("agent0")));
    drop(first);
    world.kill_anchor();
    let mut client = world.anchor();
    let mut second = Raw::to(&world);
    let answer = second.call("client/attach", &attach(seq(&seen)));
    assert_eq!(answer["epoch"], json!(epoch + 1));
    client.kill(&id("agent0"), Some(Duration::ZERO), &Guard::none()).expect("killed");
    let mut heard = Vec::new();
    while heard.last().is_none_or(|row: &Value| row["kind"] != "exited") {
        heard.push(second.hear()["params"].clone());
    }
    let is_wanted = |row: &Value| row["session"] == "agent0" && seq(row) > seq(&seen);
    let wanted: Vec<u64> = journal(&world).iter().filter(|row| is_wanted(row)).map(seq).collect();
    assert_eq!(heard.iter().map(seq).collect::<Vec<_>>(), wanted);

    assert_eq!(second.call("client/detach", &json!({}))["result"], json!({"followed": true}));
    client.spawn(&sleeper("agent0"), &Guard::none()).expect("starts");
    let next = second.call("client/detach", &json!({}));
    assert_eq!((&next["result"], &next["epoch"]), (&json!({"followed": false}), &json!(epoch + 1)));
}

#[test]
fn a_terminal_is_told_by_its_workers_socket_and_what_does_not_run_has_none() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent0"));
    let mut raw = Raw::to(&world);
    let mut attach = |name: &str, since: Value| {
        let params = json!({"session": name, "mode": "terminal", "since": since});
        raw.call("client/attach", &params)
    };
    let answer = attach("agent0", Value::Null);
    assert_eq!(answer["result"]["socket"], json!(session.socket), "{answer}");
    assert_eq!(attach("agent0", json!(0))["error"]["data"]["kind"], "bad-params");
    assert_eq!(attach("agent9", Value::Null)["error"]["data"]["kind"], "not-found");
    client.kill(&id("agent0"), Some(Duration::ZERO), &Guard::none()).expect("killed");
    assert_eq!(attach("agent0", Value::Null)["error"]["data"]["kind"], "refused");
}

#[test]
fn a_since_that_makes_no_sense_is_refused_in_words_and_the_connection_stays() {
    let mut world = World::new();
    let mut client = world.anchor();
    spawn(&mut client, &sleeper("agent0"));
    let mut raw = Raw::to(&world);
    let head = raw.call("client/subscribe", &json!({}))["result"]["head"].as_u64().expect("a number");
    assert_eq!(raw.call("client/detach", &json!({}))["result"], json!({"followed": true}));
    for since in [json!("x"), json!(-1), json!(1.5), json!(1e30), json!([]), json!(head + 1), json!(u64::MAX)]
    {
        for (method, params) in [
            ("client/subscribe", json!({"since": since})),
            ("client/attach", json!({"session": "agent0", "mode": "events", "since": since})),
        ] {
            let answer = raw.call(method, &params);
            assert_eq!(answer["error"]["data"]["kind"], "bad-params", "{since}: {answer}");
        }
    }
    let answer = raw.call("client/subscribe", &json!({"since": head + 7}));
    let message = format!("no row {} yet: the newest of this journal is {head}", head + 7);
    assert_eq!(answer["error"]["message"], json!(message));
    let mut ahead = Follow::all(&world.root, head + 7);
    ahead.next(Some(LONG)).expect_err("it is told, and does not wait for ever");
    assert_eq!(raw.call("client/subscribe", &json!({"since": head}))["result"]["head"], json!(head + 1));
}

#[test]
fn who_never_reads_delays_nobody_and_every_row_is_told_or_named_in_a_gap() {
    let mut world = World::new();
    let mut client = world.anchor();
    spawn(&mut client, &sleeper("agent0"));
    let mut slow = Raw::to(&world);
    let first = slow.call("client/subscribe", &json!({}))["result"]["head"].as_u64().expect("a number");
    let word = "x".repeat(200);
    for _ in 0..4_000 {
        let report = Report::SessionId { session_id: word.clone(), transcript: None };
        client.report(&id("agent0"), &report, &Guard::none()).expect("nobody waits for the slow one");
    }
    let head = world.client().subscribe(None).expect("subscribed").head();
    let (mut last, mut gaps) = (first, Vec::new());
    while last < head {
        let event = slow.hear()["params"].clone();
        let from = event["data"]["from"].as_u64().filter(|_| event["kind"] == "gap");
        assert_eq!(from.unwrap_or(seq(&event)), last + 1, "{event}");
        gaps.extend(from.map(|from| (from, seq(&event))));
        last = seq(&event);
    }
    let [(from, to)] = gaps[..] else { panic!("one gap: {gaps:?}") };
    let mut rest = Follow::all(&world.root, from - 1);
    for wanted in from..=to {
        let event = rest.next(Some(LONG)).expect("an anchor serves").expect("it is in the journal");
        assert_eq!((event.seq, event.kind), (wanted, EventKind::SessionId));
    }
}

#[test]
fn rows_that_are_gone_are_one_gap_for_whoever_asks_for_them() {
    let mut world = World::new();
    let mut client = world.anchor();
    spawn(&mut client, &sleeper("agent0"));
    spawn(&mut client, &sleeper("agent1"));
    world.kill_anchor();
    let text = std::fs::read_to_string(world.layout().journal()).expect("reads");
    let kept: Vec<&str> =
        text.lines().enumerate().filter(|(n, _)| !(2..4).contains(n)).map(|(_, row)| row).collect();
    std::fs::write(world.layout().journal(), kept.join("\n") + "\n").expect("ours");
    world.anchor();
    let mut rows = Follow::all(&world.root, 0);
    let mut told = Vec::new();
    while told.len() < 6 {
        let event = rows.next(Some(LONG)).expect("an anchor serves").expect("a row comes");
        told.push((event.kind == EventKind::Gap, event.seq));
    }
    assert_eq!(told, [(false, 1), (false, 2), (true, 4), (false, 5), (false, 6), (false, 7)]);
    assert!(Client::connect(&world.root).is_ok());
}
