//! Digests, with real programs and sockets as transports and a throwaway home.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use netsky_disk::home::Home;
use netsky_disk::lock::Lock;
use netsky_ledger::Facts;
use netsky_model::paging::{Secret, Transport};
use netsky_model::stamp::Stamp;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::feed::{Digest, Reader, milestones};
use crate::send::send_due;

struct Stage {
    folder: TempDir,
    layout: Layout,
}

impl Stage {
    fn new() -> Stage {
        let folder = tempfile::tempdir().expect("a throwaway folder");
        let layout = Layout::new(folder.path().join("home"));
        Home::init(&layout).expect("a fresh folder becomes a home");
        Stage { folder, layout }
    }

    fn file(&self) -> Transport {
        Transport::File { path: Some(self.folder.path().join("taken").join("feed.jsonl")) }
    }

    /// What the file transport took.
    fn taken(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("taken/feed.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("one line of JSON")).collect()
    }

    fn lands(&self, task: u64) {
        let key = format!("{task}/a");
        let data = json!({ "task": task, "sha": "0123456789ab" });
        Facts::new(&self.layout).append_once("harvest.landed", &key, data).expect("recorded");
    }

    fn send(&self, terms: &Terms) -> Sent {
        self.tried(terms).expect("the book is written")
    }

    fn tried(&self, terms: &Terms) -> Result<Sent> {
        // A program that another test starts has every lock of this process until it is executed.
        let tries = (0..500).map(|_| {
            let sent = send_digest(&self.layout, terms, &Paging::default()).transpose();
            sent.or_else(|| {
                clock::pause(Duration::from_millis(10));
                None
            })
        });
        tries.flatten().next().expect("nobody else sends")
    }
}

fn by(transports: Vec<Transport>) -> Terms {
    Terms { transports, digest: Duration::ZERO, ..Terms::default() }
}

fn seqs(page: &Value) -> Vec<u64> {
    let events = page["events"].as_array().expect("a digest has them");
    events.iter().map(|event| event["seq"].as_u64().expect("a place")).collect()
}

/// A server of one topic that keeps what it is sent, and tells it to who polls. While it is `down` it takes nothing; when
/// `mute` it keeps the message and answers nobody.
struct Topic {
    url: String,
    kept: Arc<Mutex<Vec<(String, String)>>>,
    ways: Arc<Mutex<Ways>>,
}

#[derive(Default)]
struct Ways {
    down: bool,
    mute: bool,
}

impl Topic {
    fn open() -> Topic {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
        let url = format!("http://{}/topic", listener.local_addr().expect("bound"));
        let (kept, ways) = (Arc::default(), Arc::default());
        let topic = Topic { url, kept: Arc::clone(&kept), ways: Arc::clone(&ways) };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Whoever hangs up has asked nothing.
                let _ = answer(stream, &kept, &ways);
            }
        });
        topic
    }

    fn set(&self, down: bool, mute: bool) {
        *self.ways.lock().expect("ours") = Ways { down, mute };
    }

    /// Heads in lower case, and bodies.
    fn kept(&self) -> Vec<(String, String)> {
        self.kept.lock().expect("ours").clone()
    }
}

fn answer(
    mut stream: std::net::TcpStream,
    kept: &Mutex<Vec<(String, String)>>,
    ways: &Mutex<Ways>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {}
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8_lossy(&body).into_owned();
    let Ways { down, mute } = *ways.lock().expect("ours");
    let (mut status, mut said) = ("200 OK", String::new());
    if down {
        status = "503 Down";
    } else if head.starts_with("get /topic/json?poll=1&since=") {
        for (head, body) in kept.lock().expect("ours").iter() {
            let tags = head.lines().find_map(|line| line.strip_prefix("tags: ")).unwrap_or_default();
            said += &format!("{}\n", json!({"event": "message", "message": body, "tags": [tags]}));
        }
    } else {
        kept.lock().expect("ours").push((head, body));
        if mute {
            return Ok(());
        }
    }
    let length = said.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{said}")
}

#[test]
fn t27_must_show_6_after_an_outage_each_event_is_told_once_in_order_and_no_secret_is_anywhere() {
    let stage = Stage::new();
    let canary = "canary-4711";
    std::fs::write(stage.folder.path().join("secret"), canary).expect("written");
    let secret = || Some(Secret::File(stage.folder.path().join("secret")));
    let (hook, topic) = (Topic::open(), Topic::open());
    let webhook = Transport::Webhook { url: format!("{}?{canary}", hook.url), secret: secret() };
    let ntfy = Transport::Ntfy { url: topic.url.clone(), secret: secret() };
    hook.set(true, false);
    topic.set(true, false);
    for transport in [webhook, ntfy] {
        let terms = by(vec![transport]);
        [1, 2].into_iter().for_each(|task| stage.lands(task));
        for _ in 0..2 {
            let sent = stage.send(&terms);
            assert!(sent.problems[0].contains("answered 503"), "{sent:?}");
        }
        let seen = milestones(&stage.layout, &terms).expect("read");
        assert!((seen.waiting, seen.due) == (2, true) && seen.why.is_some(), "{seen:?}");
        stage.lands(3);
        hook.set(false, false);
        topic.set(false, false);
        assert_eq!(stage.send(&terms).problems, [""; 0]);
        assert_eq!(stage.send(&terms), Sent::default(), "once");
        hook.set(true, false);
        topic.set(true, false);
        let found = std::process::Command::new("grep").args(["-r", canary]).arg(stage.layout.home()).output();
        assert_eq!(found.expect("grep runs").stdout, b"", "in no file of the home");
        std::fs::remove_dir_all(stage.layout.record()).expect("there");
        std::fs::remove_file(stage.layout.feed_book()).expect("there");
    }
    let [(head, body)] = &hook.kept()[..] else { panic!("one digest: {:?}", hook.kept()) };
    let page: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(seqs(&page), [1, 2, 3]);
    let (_, signed) = crate::http::signature(canary.as_bytes(), body.as_bytes());
    assert!(head.contains(&format!("x-netsky-signature: {signed}")), "{head}");
    let [(head, body)] = &topic.kept()[..] else { panic!("one digest: {:?}", topic.kept()) };
    assert!(head.contains("priority: default") && head.contains("authorization: bearer canary"), "{head}");
    let order: Vec<_> = [1, 2, 3].iter().map(|task| body.find(&format!("task {task}: landed"))).collect();
    assert!(order.is_sorted() && order[0].is_some(), "{body}");
}

#[test]
fn t27_after_a_timeout_the_topic_is_read_first_and_what_it_has_is_not_sent_again() {
    let (stage, topic) = (Stage::new(), Topic::open());
    let terms = by(vec![Transport::Ntfy { url: topic.url.clone(), secret: None }]);
    stage.lands(1);
    topic.set(false, true);
    assert_eq!(stage.send(&terms).problems.len(), 1, "it hung up");
    assert_eq!(topic.kept().len(), 1, "and has it");
    topic.set(false, false);
    assert_eq!(stage.send(&terms), Sent::default(), "the owner may have it: a minute is not over");
    stage.lands(2);
    doubt_is_over(&stage);
    assert_eq!(stage.send(&terms).done, ["told the owner of 1 event by 1 ntfy"]);
    assert_eq!(topic.kept().len(), 1, "it was read there");
    assert_eq!(stage.send(&terms).done, ["told the owner of 1 event by 1 ntfy"], "and what came since");
    assert_eq!(topic.kept().len(), 2);
}

#[test]
fn a24_t27_a_flood_during_an_outage_is_told_in_order_and_each_once() {
    let (stage, hook) = (Stage::new(), Topic::open());
    let terms = by(vec![Transport::Webhook { url: hook.url.clone(), secret: None }]);
    hook.set(true, false);
    (1..=150).for_each(|task| stage.lands(task));
    for task in 151..=260 {
        stage.lands(task);
        if task % 50 == 0 {
            assert_eq!(stage.send(&terms).problems.len(), 1);
        }
    }
    hook.set(false, false);
    while milestones(&stage.layout, &terms).expect("read").due {
        stage.send(&terms);
    }
    let told =
        hook.kept().into_iter().flat_map(|(_, body)| seqs(&serde_json::from_str(&body).expect("JSON")));
    assert_eq!(told.collect::<Vec<_>>(), (1..=260).collect::<Vec<_>>());
}

/// As if the minute were over.
fn doubt_is_over(stage: &Stage) {
    let mut book = Book::read(&stage.layout, &Terms::default()).expect("read");
    if let Some(doubt) = &mut book.feed.doubt {
        doubt.since = Stamp {
            wall: doubt.since.wall - Duration::from_secs(60),
            boot_id: "before".to_owned(),
            ..doubt.since.clone()
        };
    }
    book.write(&stage.layout).expect("written");
}

#[test]
fn fm_owner_digest_kill_between_send_and_receipt_the_same_is_sent_again_flagged_and_nothing_before_it() {
    let stage = Stage::new();
    // It tells nobody what it has.
    let place = stage.folder.path().join("one").display().to_string();
    let argv = ["/bin/sh", "-c", "cat >> \"$0\"", &place].map(str::to_owned).into();
    let terms = by(vec![Transport::Command { argv }]);
    [1, 2].into_iter().for_each(|task| stage.lands(task));
    let mut book = Book::read(&stage.layout, &Terms::default()).expect("read");
    book.feed.begin(2, clock::stamp());
    book.write(&stage.layout).expect("written");
    stage.lands(3);
    assert_eq!(stage.send(&terms).done, ["told the owner of 2 events by 1 command"]);
    assert_eq!(stage.send(&terms).done, ["told the owner of 1 event by 1 command"]);
    let text = std::fs::read_to_string(place).expect("there");
    let pages: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told: Vec<_> = pages.iter().map(|page| (seqs(page), page["repeated"] == true)).collect();
    assert_eq!(told, [(vec![1, 2], true), (vec![3], false)]);
}

#[test]
fn fm_owner_digest_kill_that_it_begins_is_on_disk_before_it_is_sent() {
    let stage = Stage::new();
    let (book, seen) = (stage.layout.feed_book(), stage.folder.path().join("seen"));
    let argv = ["/bin/sh", "-c", "cat > /dev/null; cp \"$0\" \"$1\""].map(str::to_owned).into_iter();
    let argv = argv.chain([&book, &seen].map(|path| path.display().to_string())).collect();
    stage.lands(1);
    stage.send(&by(vec![Transport::Command { argv }]));
    let seen: Value = serde_json::from_slice(&std::fs::read(seen).expect("copied")).expect("JSON");
    assert_eq!(seen["begun"], 1, "or a death here would send it again as if nobody had it");
}

#[test]
fn fm_owner_digest_kill_a_file_that_has_it_gets_no_second_one() {
    let stage = Stage::new();
    let terms = by(vec![stage.file()]);
    stage.lands(1);
    let begun = |stage: &Stage| {
        let mut book = Book::read(&stage.layout, &Terms::default()).expect("read");
        book.feed.begin(1, clock::stamp());
        book.write(&stage.layout).expect("written");
        std::fs::read(stage.layout.feed_book()).expect("there")
    };
    let before = begun(&stage);
    stage.send(&terms);
    std::fs::write(stage.layout.feed_book(), before).expect("as if it had died there");
    assert_eq!(stage.send(&terms).done, ["told the owner of 1 event by 1 file"]);
    assert_eq!(stage.taken().len(), 1);
}

#[test]
fn fm_owner_digest_enospc_where_it_cannot_be_noted_nothing_is_sent_and_nothing_is_lost() {
    let stage = Stage::new();
    let terms = by(vec![stage.file()]);
    stage.lands(1);
    let folder = stage.layout.feed_book().parent().expect("a folder").to_owned();
    std::fs::write(&folder, "").expect("something is in its way");
    stage.tried(&terms).expect_err("it cannot be noted");
    assert_eq!(stage.taken(), [json!(null); 0], "or it would be sent at every tick");
    std::fs::remove_file(folder).expect("there");
    stage.send(&terms);
    assert_eq!(stage.taken().len(), 1);
}

#[test]
fn fm_owner_digest_locked_a_record_that_takes_no_fact_keeps_none_back() {
    let stage = Stage::new();
    let terms = by(vec![stage.file()]);
    stage.lands(1);
    let _held = Lock::try_take(stage.layout.record_lock()).expect("ours").expect("free");
    assert_eq!(stage.send(&terms).done.len(), 1);
}

#[test]
fn i10_in_quiet_hours_none_is_told_and_all_are_later() {
    let stage = Stage::new();
    let terms = by(vec![stage.file()]);
    stage.lands(1);
    assert_eq!(stage.send(&quiet(&terms)), Sent::default());
    assert!(!milestones(&stage.layout, &quiet(&terms)).expect("read").due);
    stage.lands(2);
    stage.send(&terms);
    assert_eq!(stage.taken().iter().map(seqs).collect::<Vec<_>>(), [[1, 2]]);
}

/// The same in hours that are all quiet.
fn quiet(terms: &Terms) -> Terms {
    let always: Terms =
        serde_json::from_value(json!({"quiet": ["00:00-12:00", "12:00-00:00"], "digest": "0"}))
            .expect("reads");
    Terms { transports: terms.transports.clone(), ..always }
}

/// As if the record had gone on by a file: what it says is far over what fits into one.
fn goes_on_by_a_file(stage: &Stage) {
    let facts = Facts::new(&stage.layout);
    for at in 0..20 {
        let data = json!({ "said": "x".repeat(60_000) });
        facts.append("test.filler", &format!("f{at}"), data).expect("recorded");
    }
}

#[test]
fn a24_beside_the_root_nothing_is_kept_for_the_owner_and_nobody_reads_the_record_at_each_tick() {
    let stage = Stage::new();
    let terms = by(vec![stage.file()]);
    let relays = Terms { root: false, ..terms.clone() };
    (1..=130).for_each(|task| stage.lands(task));
    goes_on_by_a_file(&stage);
    assert!(milestones(&stage.layout, &relays).expect("read").behind, "once");
    assert_eq!(stage.send(&relays), Sent::default());
    let seen = milestones(&stage.layout, &relays).expect("read");
    assert_eq!(seen, Digest::default(), "it got on");
    assert_eq!(stage.send(&terms), Sent::default(), "nor are they told once it is the root");
    stage.lands(131);
    stage.send(&terms);
    assert_eq!(stage.taken().len(), 1);
}

#[test]
fn what_was_passed_by_beside_the_root_is_not_told_once_it_is_the_root() {
    let stage = Stage::new();
    let terms = by(vec![stage.file()]);
    let relays = Terms { root: false, ..terms.clone() };
    for task in [1, 2] {
        stage.lands(task);
        assert!(milestones(&stage.layout, &relays).expect("read").behind, "a tick has it passed by");
        assert_eq!(stage.send(&relays), Sent::default());
        Facts::new(&stage.layout).append("test.filler", &format!("f{task}"), json!({})).expect("recorded");
        assert!(!milestones(&stage.layout, &relays).expect("read").behind, "once");
    }
    assert_eq!(stage.send(&terms), Sent::default());
    assert!(stage.taken().is_empty());
}

#[test]
fn a24_a_feed_that_is_full_and_waits_has_nobody_started_at_each_tick() {
    let stage = Stage::new();
    let terms = by(vec![stage.file()]);
    stage.lands(1);
    stage.send(&terms);
    (2..=130).for_each(|task| stage.lands(task));
    goes_on_by_a_file(&stage);
    assert!(milestones(&stage.layout, &quiet(&terms)).expect("read").behind, "once");
    stage.send(&quiet(&terms));
    assert!(!milestones(&stage.layout, &quiet(&terms)).expect("read").behind, "there is no room for more");
    stage.send(&terms);
    stage.send(&terms);
    let told: Vec<u64> = stage.taken().iter().flat_map(seqs).collect();
    assert_eq!(told.len(), 130, "each once: {told:?}");
}

#[test]
fn i10_what_waits_is_written_down_at_the_first_look_or_it_would_be_too_old_one_day() {
    let stage = Stage::new();
    let terms = quiet(&by(vec![stage.file()]));
    assert!(!milestones(&stage.layout, &terms).expect("read").behind, "nothing waits");
    stage.lands(1);
    assert!(milestones(&stage.layout, &terms).expect("read").behind);
    stage.send(&terms);
    let seen = milestones(&stage.layout, &terms).expect("read");
    assert_eq!((seen.waiting, seen.behind), (1, false));
}

#[test]
fn must_show_7_the_feed_rebuilt_from_the_facts_alone_is_what_was_pushed() {
    let stage = Stage::new();
    let paging = Paging { transports: vec![stage.file()], cool_down: Duration::ZERO, ..Paging::default() };
    let terms = by(paging.transports.clone());
    for task in 1..=250 {
        stage.lands(task);
        // Told again it is the same one.
        let again = json!({ "task": task, "sha": "ffff" });
        if task % 50 == 0 {
            Facts::new(&stage.layout)
                .append("harvest.landed", &format!("{task}/a"), again)
                .expect("recorded");
            let data = json!({ "text": format!("page {task}") });
            Facts::new(&stage.layout)
                .append(netsky_ledger::PAGE, &format!("k{task}"), data)
                .expect("recorded");
        }
        if task % 125 == 0 {
            send_due(&stage.layout, &paging, &|_| false).expect("the book reads");
            stage.send(&terms);
        }
    }
    while milestones(&stage.layout, &terms).expect("read").due {
        stage.send(&Terms { most: 1_000, ..terms.clone() });
    }
    let most = stage.taken().iter().filter_map(|page| page["events"].as_array()).map(Vec::len).max();
    assert_eq!(most, Some(netsky_model::feed::MOST), "a digest is no book");
    let pushed: Vec<Value> =
        stage.taken().iter().filter_map(|page| page["events"].as_array()).flatten().cloned().collect();
    let pages: Vec<Value> = stage.taken().into_iter().filter(|page| page["events"].is_null()).collect();
    for state in [stage.layout.feed_book(), stage.layout.page_book()] {
        std::fs::remove_file(state).expect("there");
    }
    let (feed, passed) = Reader::default().read(&stage.layout).expect("read");
    assert_eq!(passed, [""; 0]);
    let (paged, milestones): (Vec<Event>, Vec<Event>) =
        feed.into_iter().partition(|event| event.kind == netsky_ledger::PAGE);
    assert_eq!(milestones.len(), 250);
    assert_eq!(serde_json::to_value(milestones).expect("JSON"), Value::from(pushed));
    let said =
        |key: &Value, text: &Value| (key.as_str().map(str::to_owned), text.as_str().map(str::to_owned));
    let rebuilt: Vec<_> =
        paged.iter().map(|page| (Some(page.key.clone()), Some(page.text.clone()))).collect();
    assert_eq!(rebuilt, pages.iter().map(|page| said(&page["key"], &page["text"])).collect::<Vec<_>>());
}

#[test]
fn messages_is_told_on_its_standard_input_and_its_arguments_hold_neither_whom_nor_what() {
    let stage = Stage::new();
    let place = stage.folder.path().join("said");
    let program = stage.folder.path().join("osascript");
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > {0}.args; cat > {0}\n", place.display());
    std::fs::write(&program, script).expect("written");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("ours");
    stage.lands(1);
    let to = "+49 30 4711".to_owned();
    let terms = by(vec![Transport::Imessage { to, program: Some(program) }]);
    let sent = stage.send(&terms);
    assert_eq!(sent.done, ["told the owner of 1 event by 1 imessage"], "{sent:?}");
    let said = std::fs::read_to_string(&place).expect("there");
    assert_eq!(said, "+49 30 4711\nhome: task 1: landed on main as 0123456789ab");
    let args = std::fs::read_to_string(place.with_extension("args")).expect("there");
    assert!(args.starts_with("-e\nuse framework") && !args.contains("4711"), "{args}");
    stage.lands(2);
    let mut book = Book::read(&stage.layout, &terms).expect("read");
    book.feed.begin(2, clock::stamp());
    book.write(&stage.layout).expect("written");
    stage.send(&terms);
    let said = std::fs::read_to_string(place).expect("there");
    assert_eq!(said, "+49 30 4711\n(again) home: task 2: landed on main as 0123456789ab");
}
