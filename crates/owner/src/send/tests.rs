//! Sending, with real programs as transports and a throwaway home.

use std::path::PathBuf;

use netsky_disk::home::Home;
use netsky_disk::lock::Lock;
use netsky_disk::sweep::marked;
use netsky_model::paging::Secret;
use tempfile::TempDir;

use super::*;
use crate::book::outlook;

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

    fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A transport that works while `<name>-up` is there, and then appends what it is given to `name`.
    fn command(&self, name: &str) -> Transport {
        let place = self.place(name).display().to_string();
        let script = "test -e \"$0-up\" && cat >> \"$0\"";
        Transport::Command { argv: ["/bin/sh", "-c", script, &place].map(str::to_owned).into() }
    }

    fn bring_up(&self, name: &str) {
        std::fs::write(self.place(&format!("{name}-up")), "").expect("written");
    }

    /// The pages that a transport took.
    fn taken(&self, name: &str) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.place(name)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a page is one line of JSON")).collect()
    }

    /// What the book is written in first cannot be made; with what is in its way.
    fn block_the_book(&self) -> PathBuf {
        let in_its_way = self.layout.pages_folder().join("tmp");
        std::fs::remove_dir_all(&in_its_way).expect("there");
        std::fs::write(&in_its_way, "").expect("written");
        in_its_way
    }

    fn send(&self, terms: &Paging) -> Sent {
        // A program that another test starts has every lock of this process until it is executed.
        let tries = (0..500).map(|_| {
            let sent = send_due(&self.layout, terms, &|_| false).expect("the book reads");
            sent.or_else(|| {
                clock::pause(Duration::from_millis(10));
                None
            })
        });
        tries.flatten().next().expect("nobody else sends")
    }
}

fn by(transports: Vec<Transport>) -> Paging {
    Paging { transports, ..Paging::default() }
}

#[test]
fn t27_fm_owner_page_with_every_transport_down_pages_are_unsent_and_each_goes_once_when_one_is_up() {
    let stage = Stage::new();
    let terms = by(vec![stage.command("one"), stage.command("two")]);
    for what in ["a", "b", "a"] {
        let escalated = escalate(&stage.layout, &terms, what, what);
        assert!(matches!(escalated.outcome, Outcome::Unsent { waits: true, .. }), "{escalated:?}");
    }
    assert_eq!(stage.send(&terms).problems.len(), 2, "tried again, and in vain");
    let seen = outlook(&stage.layout, &terms, &|_| false).expect("read").unsent.expect("red");
    assert_eq!(seen.count, 2);
    assert!(seen.why.expect("tried").contains("2 command: ended with 1"));
    stage.bring_up("two");
    assert_eq!(stage.send(&terms).done, ["paged for b by 2 command", "paged for a by 2 command"]);
    assert_eq!(stage.send(&terms), Sent::default());
    let keys: Vec<_> = stage.taken("two").iter().map(|page| page["key"].clone()).collect();
    assert_eq!(keys, ["b", "a"], "each condition once, and the one that failed least first");
    assert_eq!(outlook(&stage.layout, &terms, &|_| false).expect("read").unsent, None);
}

#[test]
fn t27_the_chain_is_tried_in_its_order_and_ends_at_the_first_that_takes_it() {
    let stage = Stage::new();
    let terms = by(["one", "two", "three"].map(|name| stage.command(name)).into());
    stage.bring_up("two");
    stage.bring_up("three");
    let escalated = escalate(&stage.layout, &terms, "k", "text");
    assert_eq!(escalated.outcome, Outcome::Sent { by: "2 command".to_owned() });
    assert_eq!(escalated.missing, [""; 0]);
    assert_eq!((stage.taken("two").len(), stage.taken("three").len()), (1, 0));
    let book = Book::read(&stage.layout, &Paging::default()).expect("read");
    let tries: Vec<_> =
        book.conditions["k"].tries.iter().map(|t| (&*t.transport, t.error.is_none())).collect();
    assert_eq!(tries, [("1 command", false), ("2 command", true)], "each attempt is written down");
}

#[test]
fn i10_what_is_raised_again_within_its_cool_down_is_not_sent() {
    let stage = Stage::new();
    let terms = by(vec![stage.command("one")]);
    stage.bring_up("one");
    escalate(&stage.layout, &terms, "k", "text");
    let again = escalate(&stage.layout, &terms, "k", "text");
    assert!(matches!(again.outcome, Outcome::Held { .. }), "{again:?}");
    assert_eq!(stage.send(&terms), Sent::default());
    assert_eq!(stage.taken("one").len(), 1);
}

#[test]
fn i10_a_condition_that_flaps_is_sent_once_a_cool_down() {
    let stage = Stage::new();
    let terms = by(vec![stage.command("one")]);
    stage.bring_up("one");
    let facts = Facts::new(&stage.layout);
    let hangs = |occurrence: &str| {
        let data = json!({ "condition": "hang.agent1", "reason": occurrence });
        facts.append(PAGE, &format!("hang.agent1.{occurrence}"), data).expect("recorded");
    };
    for (occurrence, is_sent) in [("first", true), ("first", false), ("second", false), ("third", false)] {
        hangs(occurrence);
        assert_eq!(stage.send(&terms).done.len(), usize::from(is_sent), "{occurrence}");
    }
    assert_eq!(stage.taken("one")[0]["key"], "hang.agent1");
    let over = Paging { cool_down: Duration::ZERO, ..terms };
    assert_eq!(stage.send(&over).done.len(), 1, "one for all that was raised meanwhile");
    let page = &stage.taken("one")[1];
    assert!(page["times"] == 3 && page["text"] == "third", "told twice the first is one: {page}");
}

#[test]
fn fm_owner_page_locked_a_record_that_takes_no_fact_keeps_no_page_back() {
    let stage = Stage::new();
    let terms = by(vec![stage.command("one")]);
    let _held = Lock::try_take(stage.layout.record_lock()).expect("ours").expect("free");
    let escalated = escalate(&stage.layout, &terms, "k", "text");
    assert!(matches!(escalated.outcome, Outcome::Unsent { waits: true, .. }), "{escalated:?}");
    assert!(escalated.missing[0].starts_with("the page is no fact"), "{escalated:?}");
    stage.bring_up("one");
    assert_eq!(stage.send(&terms).done, ["paged for k by 1 command"], "it waited all the same");
    assert_eq!(
        escalate(&stage.layout, &terms, "l", "t").outcome,
        Outcome::Sent { by: "1 command".to_owned() }
    );
}

#[test]
fn fm_owner_page_enospc_what_neither_the_record_nor_the_book_takes_is_not_said_to_wait_unless_it_does() {
    for has_room in [true, false] {
        let stage = Stage::new();
        let terms = by(vec![stage.command("one")]);
        Book::read(&stage.layout, &Paging::default()).expect("read").write(&stage.layout).expect("begun");
        let held = Lock::try_take(stage.layout.record_lock()).expect("ours").expect("free");
        let in_its_way = stage.block_the_book();
        if !has_room {
            let _ = std::fs::remove_dir_all(stage.layout.waiting_pages());
            std::fs::write(stage.layout.waiting_pages(), "").expect("written");
        }
        let escalated = escalate(&stage.layout, &terms, "k", "text");
        let Outcome::Unsent { waits, .. } = escalated.outcome else { panic!("{escalated:?}") };
        assert_eq!(waits, has_room, "{escalated:?}");
        drop(held);
        std::fs::remove_file(&in_its_way).expect("there");
        if has_room {
            stage.bring_up("one");
            assert_eq!(stage.send(&terms).done, ["paged for k by 1 command"]);
        }
    }
}

#[test]
fn fm_owner_page_enospc_a_book_that_cannot_be_written_holds_no_page_back_and_none_is_sent_twice() {
    let stage = Stage::new();
    let terms = by(vec![stage.command("one")]);
    stage.bring_up("one");
    Book::read(&stage.layout, &Paging::default()).expect("read").write(&stage.layout).expect("begun");
    Facts::new(&stage.layout).append(PAGE, "k", json!({ "text": "text" })).expect("recorded");
    let in_its_way = stage.block_the_book();
    let sent = stage.send(&terms);
    assert_eq!(sent.done, ["paged for k by 1 command"]);
    assert!(sent.problems[0].contains("so it may be sent again"), "{sent:?}");
    assert_eq!(stage.send(&terms).done, [""; 0], "the note of the lock has it");
    let escalated = escalate(&stage.layout, &terms, "l", "text");
    assert_eq!(escalated.outcome, Outcome::Sent { by: "1 command".to_owned() });
    assert!(escalated.missing[0].contains("so it may be sent again"), "{escalated:?}");
    std::fs::remove_file(&in_its_way).expect("there");
    assert_eq!(stage.send(&terms), Sent::default(), "and the book has it from there");
    assert!(matches!(escalate(&stage.layout, &terms, "l", "text").outcome, Outcome::Held { .. }));
    assert_eq!(stage.taken("one").len(), 2);
}

#[test]
fn i10_fm_owner_page_enospc_more_pages_than_the_note_has_room_for_wait_and_none_is_sent_at_every_tick() {
    let stage = Stage::new();
    let terms = Paging::default();
    Book::read(&stage.layout, &Paging::default()).expect("read").write(&stage.layout).expect("begun");
    for at in 0..25 {
        let key = format!("k{at:02}");
        Facts::new(&stage.layout).append(PAGE, &key, json!({ "text": "text" })).expect("recorded");
    }
    let in_its_way = stage.block_the_book();
    let sent = stage.send(&terms);
    assert_eq!(sent.done.len(), 20, "{sent:?}");
    for _ in 0..2 {
        let sent = stage.send(&terms);
        assert_eq!(sent.done, [""; 0]);
        assert!(sent.problems[0].starts_with("5 more wait"), "{sent:?}");
    }
    // A cool-down after what was told makes room, and is told again by and by.
    let over = Paging { cool_down: Duration::ZERO, ..terms.clone() };
    let sent = stage.send(&over);
    assert_eq!(sent.done.first().map(String::as_str), Some("paged for k20 by default file"));
    assert_eq!(sent.done.len(), 5, "those that waited");
    let again = stage.send(&over).done;
    assert_eq!(again.first().map(String::as_str), Some("paged for k00 by default file"), "{again:?}");
    assert_eq!(again.len(), 5);
    // Whoever escalates is heard, and nothing goes out of the note for it.
    let escalated = escalate(&stage.layout, &terms, "now", "text");
    assert!(matches!(escalated.outcome, Outcome::Sent { .. }), "{escalated:?}");
    assert_eq!(stage.send(&terms).done, [""; 0]);
    std::fs::remove_file(in_its_way).expect("there");
    stage.send(&terms);
    assert_eq!(stage.send(&terms), Sent::default(), "the book has them all");
}

#[test]
fn fm_owner_page_locked_what_went_out_beside_the_book_is_known_to_it_later() {
    let stage = Stage::new();
    let terms = by(vec![stage.command("one")]);
    stage.bring_up("one");
    let held = Sending::take(&stage.layout, Duration::ZERO).expect("ours").expect("free");
    let escalated = escalate(&stage.layout, &terms, "k", "text");
    assert_eq!(escalated.outcome, Outcome::Sent { by: "1 command".to_owned() });
    drop(held);
    assert_eq!(stage.send(&terms), Sent::default(), "nobody thinks that it is unsent");
    assert!(matches!(escalate(&stage.layout, &terms, "k", "text").outcome, Outcome::Held { .. }));
    // And one whose sender died at it.
    Facts::new(&stage.layout).append(PAGE, "l", json!({ "text": "text" })).expect("recorded");
    let begun = Waiting { is_fact: true, beside: Beside::Begun, ..Waiting::new("l", "text") };
    wait(&stage.layout, "begun.json", &begun).expect("kept");
    assert_eq!(stage.send(&terms).done.len(), 1);
    assert_eq!(stage.taken("one")[1]["repeated"], true, "the owner may have it");
}

#[test]
fn fm_owner_page_kill_between_send_and_receipt_it_is_sent_again_and_flagged() {
    let stage = Stage::new();
    let terms = by(vec![stage.command("one")]);
    stage.bring_up("one");
    Facts::new(&stage.layout).append(PAGE, "k", json!({ "text": "text" })).expect("recorded");
    let mut book = Book::read(&stage.layout, &Paging::default()).expect("read");
    book.conditions.get_mut("k").expect("its fact").begun = true;
    book.write(&stage.layout).expect("written");
    assert_eq!(stage.send(&terms).done.len(), 1, "no loss");
    assert_eq!(stage.taken("one")[0]["repeated"], true);
}

#[test]
fn i10_fm_owner_page_stop_what_the_owner_may_have_is_not_sent_at_every_tick() {
    let stage = Stage::new();
    // It gives each page on, and nobody hears of that.
    let place = stage.place("one").display().to_string();
    let mute = ["/bin/sh", "-c", "cat >> \"$0\"; kill -9 $$", &place].map(str::to_owned);
    let terms = by(vec![Transport::Command { argv: mute.into() }]);
    Facts::new(&stage.layout).append(PAGE, "k", json!({ "text": "text" })).expect("recorded");
    assert_eq!(stage.send(&terms).problems.len(), 1);
    assert_eq!(stage.send(&terms), Sent::default(), "a minute is not over");
    assert_eq!(stage.taken("one").len(), 1, "a telephone that rang once");
    let seen = outlook(&stage.layout, &terms, &|_| false).expect("read").unsent.expect("red");
    assert_eq!((seen.count, seen.due), (1, 0));
    // The same where the book cannot be told.
    let blocked = stage.block_the_book();
    Facts::new(&stage.layout).append(PAGE, "l", json!({ "text": "text" })).expect("recorded");
    assert!(stage.send(&terms).problems[0].contains("page of l"));
    assert_eq!(stage.taken("one").len(), 2);
    assert!(!stage.send(&terms).problems[0].contains("page of l"), "the note of the lock has it");
    std::fs::remove_file(blocked).expect("there");
    assert_eq!(stage.send(&terms), Sent::default(), "and the book has it from there");
    let eager = Paging { cool_down: Duration::ZERO, ..terms };
    assert_eq!(stage.send(&eager).problems.len(), 2, "they wait for no longer than a cool-down");
    assert_eq!(stage.taken("one")[2]["repeated"], true);
}

#[test]
fn fm_owner_page_stop_a_transport_that_hangs_is_ended_with_its_tree() {
    let stage = Stage::new();
    let name = stage.place("tree").display().to_string();
    let script = "(setsid sleep 100000 &); exec sleep 100000".to_owned();
    let hangs = Transport::Command {
        argv: [
            "/usr/bin/env".to_owned(),
            format!("TREE_OF={name}"),
            "sh".to_owned(),
            "-c".to_owned(),
            script,
        ]
        .into(),
    };
    let terms = by(vec![hangs, stage.command("two")]);
    stage.bring_up("two");
    let escalated = escalate(&stage.layout, &terms, "k", "text");
    assert_eq!(escalated.outcome, Outcome::Sent { by: "2 command".to_owned() });
    assert_eq!(marked("TREE_OF", &name).expect("looked"), [], "nobody of it lives");
}

#[test]
fn a17_a_secret_and_an_address_are_in_no_file_of_the_home() {
    let stage = Stage::new();
    let canary = "canary-4711";
    std::fs::write(stage.place("secret"), canary).expect("written");
    let secret = Some(Secret::File(stage.place("secret")));
    // Nobody listens there.
    let url = format!("http://127.0.0.1:1/{canary}");
    let ntfy = Transport::Ntfy { url: url.clone(), secret: secret.clone() };
    let terms = by(vec![Transport::Webhook { url, secret }, ntfy]);
    let escalated = format!("{:?}", escalate(&stage.layout, &terms, "k", "text"));
    assert!(escalated.contains("connection refused") && !escalated.contains(canary), "{escalated}");
    assert!(!format!("{terms:?}").contains(canary));
    let found = std::process::Command::new("grep").args(["-r", canary]).arg(stage.layout.home()).output();
    assert_eq!(found.expect("grep runs").stdout, b"");
}

#[test]
fn without_a_transport_pages_go_to_a_file_and_that_is_no_reach() {
    let stage = Stage::new();
    let terms = Paging::default();
    let escalated = escalate(&stage.layout, &terms, "k", "\u{1b}[2Jtext");
    assert_eq!(escalated.outcome, Outcome::Sent { by: "default file".to_owned() });
    let kept = std::fs::read_to_string(stage.layout.pages_log()).expect("there");
    assert!(kept.contains("[2Jtext") && !kept.contains("\\u001b"), "{kept}");
    assert!(!outlook(&stage.layout, &terms, &|_| false).expect("read").reaches);
}

#[test]
fn t27_each_week_every_transport_is_tested_and_one_that_fails_is_told() {
    let stage = Stage::new();
    let transports = by(vec![stage.command("one"), stage.command("two")]);
    let terms = Paging { test: Duration::from_millis(1), cool_down: Duration::ZERO, ..transports };
    stage.bring_up("one");
    Book::read(&stage.layout, &Paging::default()).expect("read").write(&stage.layout).expect("begun");
    clock::pause(Duration::from_millis(2));
    assert_eq!(stage.send(&terms).done, ["paged for page-test by 1 command"]);
    assert_eq!(stage.taken("one")[0]["test"], true);
    let seen = outlook(&stage.layout, &terms, &|_| false).expect("read");
    assert_eq!(seen.failed_test, ["2 command: ended with 1"]);
    clock::pause(Duration::from_millis(2));
    assert_eq!(stage.send(&terms).done, ["paged for page-test by 1 command"]);
    let tests = stage.taken("one");
    assert_eq!((&tests[1]["repeated"], &tests[1]["times"]), (&false.into(), &2.into()), "it is another");
    assert_ne!(tests[0]["ref"], tests[1]["ref"]);
}

/// Answers one request with `status`; what was asked, headers in lower case.
fn served(status: &'static str) -> (String, std::thread::JoinHandle<String>) {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
    let url = format!("http://{}/topic", listener.local_addr().expect("bound"));
    let serve = move || {
        let (mut stream, _) = listener.accept().expect("asked");
        let (mut asked, mut room) = (String::new(), [0; 4096]);
        let is_whole = |asked: &str| {
            let Some((head, body)) = asked.split_once("\r\n\r\n") else { return false };
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            length.is_some_and(|length| length.parse() == Ok(body.len()))
        };
        while !is_whole(&asked) {
            let read = stream.read(&mut room).expect("reads");
            assert!(read > 0, "it ended early: {asked}");
            asked.push_str(std::str::from_utf8(&room[..read]).expect("text"));
        }
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).expect("answers");
        let (head, body) = asked.split_once("\r\n\r\n").expect("whole");
        format!("{}\n{body}", head.to_lowercase())
    };
    (url, std::thread::spawn(serve))
}

#[test]
fn a17_a_webhook_is_signed_and_ntfy_gets_title_priority_and_token() {
    let stage = Stage::new();
    std::fs::write(stage.place("secret"), "Key\n").expect("written");
    let secret = || Some(Secret::File(stage.place("secret")));
    let (url, asked) = served("200 OK");
    let terms = by(vec![Transport::Webhook { url, secret: secret() }]);
    assert!(matches!(escalate(&stage.layout, &terms, "k", "text").outcome, Outcome::Sent { .. }));
    let asked = asked.join().expect("asked");
    let (_, body) = asked.rsplit_once('\n').expect("a body");
    let (_, signed) = crate::http::signature(b"Key", body.as_bytes());
    assert!(asked.contains(&format!("x-netsky-signature: {signed}")), "{asked}");
    assert!(!asked.contains("Key") && body.contains("\"text\":\"text\""), "{asked}");

    let (url, asked) = served("200 OK");
    let secret =
        Some(Secret::Command(["/bin/cat".to_owned(), stage.place("secret").display().to_string()].into()));
    let terms = by(vec![Transport::Ntfy { url, secret }]);
    assert!(matches!(escalate(&stage.layout, &terms, "l\u{e9}", "text").outcome, Outcome::Sent { .. }));
    let asked = asked.join().expect("asked");
    for header in ["title: netsky: l?", "priority: urgent", "authorization: bearer key"] {
        assert!(asked.contains(header), "{header}: {asked}");
    }
}

#[test]
fn t27_an_answer_that_is_no_success_or_leads_elsewhere_is_no_receipt() {
    for status in ["500 Oops", "302 Found\r\nLocation: http://127.0.0.1:1/"] {
        let stage = Stage::new();
        let (url, asked) = served(status);
        let outcome =
            escalate(&stage.layout, &by(vec![Transport::Ntfy { url, secret: None }]), "k", "text").outcome;
        assert!(matches!(outcome, Outcome::Unsent { waits: true, .. }), "{status}: {outcome:?}");
        asked.join().expect("asked");
    }
}

#[test]
fn a24_what_a_constellation_pages_nobody_for_is_not_kept_and_does_not_ring_once_it_is_the_root() {
    let stage = Stage::new();
    let terms = by(vec![stage.command("one")]);
    stage.bring_up("one");
    let muted = Paging { muted: true, ..terms.clone() };
    let hangs = |at: u64| {
        let (key, data) = (format!("hang.agent{at}"), json!({ "text": "it hangs" }));
        Facts::new(&stage.layout).append(PAGE, &key, data).expect("recorded");
    };
    // One is from when it was the root.
    hangs(0);
    Book::read(&stage.layout, &terms).expect("read").write(&stage.layout).expect("begun");
    (1..20).for_each(hangs);
    keep(&stage.layout, "poison/agent0/x", "x", "a dead letter").expect("kept");
    stage.send(&muted);
    assert_eq!(Book::read(&stage.layout, &muted).expect("read").conditions.len(), 1);
    assert_eq!(stage.taken("one").len(), 0);
    stage.send(&terms);
    assert_eq!(stage.taken("one").len(), 1);
}
