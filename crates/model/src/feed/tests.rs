//! The feed, by hand-made facts and clocks.

use jiff::tz::TimeZone;
use serde_json::json;

use super::*;
use crate::paging::LONGEST;

fn now(secs: u64) -> Stamp {
    let wall = Timestamp::from_second(1_790_000_000 + secs as i64).expect("in range");
    Stamp { wall, boot_ms: secs * 1000, boot_id: "b".to_owned() }
}

fn landed(seq: u64, key: &str) -> Event {
    let data = json!({ "task": "12", "sha": "0123456789abcdef", "main": "main" });
    Event::of((seq, now(seq).wall), "harvest.landed", key, &data).expect("an event")
}

fn feed(count: u64) -> Feed {
    Feed { waiting: (1..=count).map(|seq| landed(seq, &format!("12/{seq}"))).collect(), ..Feed::default() }
}

fn sends(verdict: Verdict) -> Option<(u64, bool)> {
    match verdict {
        Verdict::Send { upto, repeated } => Some((upto, repeated)),
        _ => None,
    }
}

#[test]
fn each_kind_says_what_its_fact_has() {
    for (kind, key, data, said) in [
        (
            "clone.finished",
            "12/d1",
            json!({"task": "12", "agent": "agent7", "verdict": "done", "text": "two\ncommits"}),
            "agent7 on task 12: done: two commits",
        ),
        (
            "harvest.landed",
            "12/x",
            json!({"sha": "0123456789abcdef", "title": "Fix it"}),
            "task 12 (Fix it): landed on main as 0123456789ab",
        ),
        ("harvest.conflict", "12/x", json!({"paths": ["a", "b"]}), "task 12: conflicts with main: a, b"),
        (
            "gate.failed",
            "12/x",
            json!({"task": {"id": 12}, "why": "ended with 1"}),
            "task 12: the gate failed: ended with 1",
        ),
        (
            "agent.blocked",
            "agent7/q",
            json!({"agent": "agent7", "kind": "permission", "tool": "Bash"}),
            "agent7 waits for an answer: permission, Bash",
        ),
        (
            "watchdog.repaired",
            "anchor/3",
            json!({"what": "the anchor serves again"}),
            "the anchor serves again",
        ),
        (
            "loop.missed",
            "loop-1/5",
            json!({"loop": "loop-1", "agent": "agent0"}),
            "loop-1 of agent0 missed an instant",
        ),
        (
            "budget.reached",
            "agent7/5",
            json!({"agent": "agent7", "why": "5 USD"}),
            "agent7 reached its budget: 5 USD",
        ),
        (
            "budget.reached",
            "2026-11-28",
            json!({"agent": null, "why": "6 of 5 tokens on 2026-11-28"}),
            "the constellation reached its budget: 6 of 5 tokens on 2026-11-28",
        ),
        ("page", "hang.agent1.b", json!({"condition": "hang.agent1", "reason": "it hangs"}), "it hangs"),
    ] {
        let event = Event::of((1, now(0).wall), kind, key, &data).expect("an event");
        assert_eq!(event.text, said, "{kind}");
    }
    assert_eq!(Event::of((1, now(0).wall), "turn.finished", "x", &json!({})), None, "no other fact is one");
    // Whatever a fact lacks, or holds.
    for (kind, _) in KINDS {
        for data in [json!({}), json!(null), json!({"text": "\u{1b}[2J\nforged", "what": 5, "why": []})] {
            let event = Event::of((1, now(0).wall), kind, "k/1", &data).expect("an event");
            assert!(!event.text.is_empty() && !event.text.contains('\u{1b}'), "{kind}: {event:?}");
        }
    }
}

#[test]
fn an_agent_that_is_slower_than_its_loop_is_no_news() {
    let level = |data| Event::of((1, now(0).wall), "loop.missed", "k", &data).expect("an event").level;
    assert_eq!(level(json!({ "missed": 3 })), Level::Milestone);
    assert_eq!(level(json!({ "unread": "x" })), Level::Quiet);
}

#[test]
fn i10_a_fact_that_was_recorded_twice_is_one_event_and_a_page_is_as_often_as_it_was_raised() {
    let mut seen = Seen::default();
    assert!(seen.is_new(&landed(1, "12/a")) && seen.is_new(&landed(2, "12/b")));
    assert!(!seen.is_new(&landed(3, "12/a")));
    let page = Event::of((4, now(0).wall), PAGE, "k", &json!({"text": "t"})).expect("an event");
    assert!(seen.is_new(&page) && seen.is_new(&page));
    for seq in 0..KNOWN as u64 {
        seen.is_new(&landed(seq, &format!("13/{seq}")));
    }
    assert!(seen.0.len() == KNOWN && seen.is_new(&landed(5, "12/a")), "what is far back is forgotten");
}

#[test]
fn milestones_wait_for_others_and_go_together_in_their_order() {
    let (terms, feed) = (Terms::default(), feed(3));
    assert_eq!(Feed::default().verdict(&terms, false, &now(0)), Verdict::Nothing);
    assert_eq!(feed.verdict(&terms, false, &now(600)), Verdict::Wait, "since the first of them");
    assert_eq!(sends(feed.verdict(&terms, false, &now(601))), Some((3, false)));
    let at_once = Terms { digest: Duration::ZERO, ..Terms::default() };
    assert_eq!(sends(feed.verdict(&at_once, false, &now(3))), Some((3, false)));
    // The clock was ahead when they were recorded.
    assert_eq!(sends(feed.verdict(&terms, false, &now(0))), Some((3, false)));
    let seqs: Vec<u64> = feed.upto(2).iter().map(|event| event.seq).collect();
    assert_eq!(seqs, [1, 2]);
    let full = self::feed(MOST as u64);
    assert!(
        !full.has_room() && sends(full.verdict(&terms, false, &now(2))).is_some(),
        "no more fit into one"
    );
}

#[test]
fn in_quiet_hours_and_beside_the_root_nothing_is_told() {
    let (feed, relays) = (feed(1), Terms { root: false, ..Terms::default() });
    assert_eq!(feed.verdict(&Terms::default(), true, &now(9_999)), Verdict::Wait);
    assert_eq!(feed.verdict(&relays, false, &now(9_999)), Verdict::Wait);
    assert!(sends(feed.verdict(&Terms::default(), false, &now(9_999))).is_some());
}

#[test]
fn fm_owner_digest_kill_what_was_begun_is_sent_again_alone_and_flagged() {
    let (terms, mut feed) = (Terms::default(), feed(2));
    feed.begin(2, now(700));
    feed.waiting.push(landed(3, "12/3"));
    assert_eq!(sends(feed.verdict(&terms, false, &now(700))), Some((2, true)), "and nothing that came since");
    feed.begin(2, now(700));
    assert_eq!(feed.verdict(&terms, false, &now(701)), Verdict::Doubted, "it rings no telephone all night");
    assert_eq!(sends(feed.verdict(&terms, false, &now(820))), Some((2, true)));
    feed.took(now(820));
    assert_eq!(feed.waiting.len(), 1);
    assert_eq!(sends(feed.verdict(&terms, false, &now(820))), Some((3, false)), "its time is long over");
}

#[test]
fn t27_what_no_transport_took_goes_with_what_came_since_and_what_one_may_have_alone() {
    let (terms, mut feed) = (Terms::default(), feed(2));
    feed.begin(2, now(700));
    feed.in_vain(false, now(700));
    feed.waiting.push(landed(3, "12/3"));
    assert_eq!(sends(feed.verdict(&terms, false, &now(760))), Some((3, false)));
    feed.begin(3, now(760));
    feed.in_vain(true, now(760));
    feed.waiting.push(landed(4, "12/4"));
    assert_eq!(feed.verdict(&terms, false, &now(761)), Verdict::Doubted);
    assert_eq!(sends(feed.verdict(&terms, false, &now(820))), Some((3, true)));
    assert_eq!(feed.failures, 2);
}

#[test]
fn t27_what_one_may_have_is_flagged_also_where_all_refused_it_since() {
    let (terms, mut feed) = (Terms::default(), feed(2));
    feed.begin(2, now(700));
    feed.in_vain(true, now(700));
    feed.begin(2, now(760));
    feed.in_vain(false, now(760));
    feed.waiting.push(landed(3, "12/3"));
    assert_eq!(feed.verdict(&terms, false, &now(761)), Verdict::Doubted);
    assert_eq!(sends(feed.verdict(&terms, false, &now(880))), Some((2, true)), "the same, and flagged");
    feed.begin(2, now(880));
    feed.took(now(880));
    assert_eq!(sends(feed.verdict(&terms, false, &now(880))), Some((3, false)));
}

#[test]
fn i10_over_the_rate_they_wait_and_go_together() {
    let (terms, mut feed) = (Terms { most: 2, digest: Duration::ZERO, ..Terms::default() }, feed(1));
    for seq in [2, 3] {
        let (upto, _) = sends(feed.verdict(&terms, false, &now(10))).expect("due");
        feed.begin(upto, now(10));
        feed.took(now(10));
        feed.waiting.push(landed(seq, &format!("12/{seq}")));
    }
    feed.waiting.push(landed(4, "12/4"));
    assert_eq!(feed.verdict(&terms, false, &now(3_609)), Verdict::Wait);
    assert_eq!(sends(feed.verdict(&terms, false, &now(3_610))), Some((4, false)), "none is dropped");
}

#[test]
fn quiet_hours_are_of_a_zone_and_go_over_midnight() {
    let terms = |text: &str| -> Terms { serde_json::from_str(text).expect("they read") };
    let night = terms(r#"{"quiet": ["22:00-07:00", "12:30-13:00"]}"#);
    let quiet = |time: &str, zone: &TimeZone| night.is_quiet(time.parse().expect("a time"), zone);
    for (time, is_quiet) in [
        ("21:59", false),
        ("22:00", true),
        ("00:00", true),
        ("06:59", true),
        ("07:00", false),
        ("12:30", true),
        ("13:00", false),
    ] {
        assert_eq!(quiet(&format!("2026-06-01T{time}:00Z"), &TimeZone::UTC), is_quiet, "{time}");
    }
    let ahead = TimeZone::fixed(jiff::tz::offset(2));
    assert!(quiet("2026-06-01T20:00:00Z", &ahead) && !quiet("2026-06-01T20:00:00Z", &TimeZone::UTC));
    for wrong in ["22-07", "22:00", "24:00-07:00", "22:60-07:00", "2:00-07:00", "07:00-07:00", "22:00-07:00x"]
    {
        let text = format!(r#"{{"quiet": ["{wrong}"]}}"#);
        assert!(serde_json::from_str::<Terms>(&text).is_err(), "{wrong}");
    }
    assert_eq!(terms(r#"{"digest": "0"}"#).digest, Duration::ZERO);
    assert!(Terms { most: 0, ..Terms::default() }.trouble().is_some());
    assert_eq!(Terms::default().trouble(), None);
}

#[test]
fn a_digest_says_as_much_as_a_telephone_shows_and_counts_the_rest() {
    let one = landed(1, "12/1");
    assert_eq!(digest(std::slice::from_ref(&one)), one.text);
    let two = digest(&feed(2).waiting);
    assert_eq!(
        two.lines().collect::<Vec<_>>(),
        ["2 events", &format!("· {}", one.text), &format!("· {}", one.text)]
    );
    let many = digest(&feed(100).waiting);
    assert!(many.chars().count() <= LONGEST, "{many}");
    let shown = many.lines().count() - 2;
    assert!(many.ends_with(&format!("and {} more: `netsky events`", 100 - shown)), "{many}");
}
