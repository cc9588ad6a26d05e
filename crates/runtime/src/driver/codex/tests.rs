//! What Codex really said, read again: what is learnt from it, what it is told, and that both stay the same for a driver that
//! begins anywhere in it.

use std::collections::BTreeMap;

use super::super::{AskKind, Entry, IN_VAIN, Outcome, Trouble, TurnEnd, Write};
use super::*;

const PLAIN: &str = include_str!("../../../samples/codex-plain.jsonl");
const APPROVAL: &str = include_str!("../../../samples/codex-approval.jsonl");
const FAILED: &str = include_str!("../../../samples/codex-failed.jsonl");
const BEFORE: &str = include_str!("../../../samples/codex-killed-before.jsonl");
const AFTER: &str = include_str!("../../../samples/codex-killed-after.jsonl");
pub(super) const ROLLOUT: &str = include_str!("../../../samples/codex-killed-rollout.jsonl");
const INTERRUPT: &str = include_str!("../../../samples/codex-interrupt.jsonl");
const COMPACT: &str = include_str!("../../../samples/codex-compact.jsonl");
const STEER: &str = include_str!("../../../samples/codex-steer.jsonl");
const NO_THREAD: &str = include_str!("../../../samples/codex-nothread.jsonl");

/// The thread of the sample in which it is killed.
pub(super) const KILLED: &str = "01a21901-b278-7242-b4a8-a88a4504e60e";

/// Samples of one generation each, with the conversation that it was started for.
pub(super) const ALL: [(&str, Option<&str>); 9] = [
    (PLAIN, None),
    (APPROVAL, None),
    (FAILED, None),
    (BEFORE, None),
    (AFTER, Some(KILLED)),
    (INTERRUPT, None),
    (COMPACT, None),
    (STEER, None),
    (NO_THREAD, Some("01a218fe-c3bc-7e52-8e7e-eb15b40cdde9")),
];

fn key(n: u8) -> MessageKey {
    format!("0192f0c1-2345-7abc-8def-0123456789{n:02x}").parse().expect("a key")
}

/// A driver and those around it: who gives messages, answers and interrupts as the sample's own driver did.
#[derive(Default)]
pub(super) struct Run {
    pub(super) driver: Codex,
    learnt: Vec<Learnt>,
    doings: Vec<&'static str>,
    written: Vec<Write>,
}

impl Run {
    pub(super) fn begun(conversation: Option<&str>) -> Run {
        let mut run = Run::default();
        let conversation = conversation.map(|id| Conversation { id: id.to_owned(), begun: true });
        run.driver.begin(conversation.as_ref());
        let mut out = Out::default();
        run.driver.greet(&mut out);
        run.take(out);
        run
    }

    fn over(sample: &str, conversation: Option<&str>) -> Run {
        let mut run = Run::begun(conversation);
        sample.lines().for_each(|line| run.step(line));
        run
    }

    fn take(&mut self, out: Out) {
        self.written.extend(out.writes);
        for learnt in &out.learnt {
            // As the slot does.
            if let Learnt::TurnEnded(TurnEnd { outcome: Outcome::Failed { .. }, messages, .. }) = learnt {
                messages.iter().for_each(|key| self.driver.forget(key));
            }
        }
        if !out.learnt.is_empty() && self.doings.last() != Some(&self.driver.doing().word()) {
            self.doings.push(self.driver.doing().word());
        }
        self.learnt.extend(out.learnt);
    }

    pub(super) fn step(&mut self, line: &str) {
        self.lead_to(&serde_json::from_str(line).expect("JSON"));
        let mut out = Out::default();
        self.driver.line(line.as_bytes(), Timestamp::UNIX_EPOCH, &mut out);
        self.take(out);
    }

    /// Does what a line answers to.
    fn lead_to(&mut self, line: &Value) {
        let mut out = Out::default();
        let id = line["id"].as_str().unwrap_or_default();
        if let Some(key) = id.strip_prefix("netsky-m-").and_then(|rest| rest.get(..36)) {
            let key: MessageKey = key.parse().expect("a key");
            let steer = line["result"]["turnId"].is_string();
            if self.driver.held.values().all(|held| held.request != id) {
                self.driver.deliver(&Message { key, text: "x".to_owned() }, steer, &mut out);
            }
        } else if id.starts_with("netsky-interrupt-") {
            self.driver.interrupt(&mut out);
        } else if id == "netsky-probe-1" {
            self.driver.probe(1, &mut out);
        } else if line["method"] == "serverRequest/resolved" {
            let id = &line["params"]["requestId"];
            if let Some(ask) = self.driver.asks.iter().find(|ask| ask.detail["id"] == *id) {
                let answer = Answer { allow: *id == 0, ask: ask.id.clone(), text: None };
                self.driver.answer(&answer, &mut out);
            }
        }
        if !id.is_empty() && !out.writes.is_empty() {
            assert_eq!(out.writes.iter().map(|write| write.once.as_str()).collect::<Vec<_>>(), [id]);
        }
        self.take(out);
    }

    fn ends(&self) -> Vec<(&Outcome, &[MessageKey])> {
        let ends = self.learnt.iter().filter_map(|learnt| match learnt {
            Learnt::TurnEnded(end) => Some((&end.outcome, end.messages.as_slice())),
            _ => None,
        });
        ends.collect()
    }

    fn untaken(&self) -> Vec<&MessageKey> {
        let keys = self.learnt.iter().filter_map(|learnt| match learnt {
            Learnt::Untaken(key) => Some(key),
            _ => None,
        });
        keys.collect()
    }

    fn said(&self) -> Vec<Value> {
        self.written.iter().map(|write| serde_json::from_slice(&write.bytes).expect("JSON")).collect()
    }

    fn onces(&self) -> Vec<&str> {
        self.written.iter().map(|write| write.once.as_str()).collect()
    }
}

#[test]
fn a_plain_conversation_is_entered_told_and_counted() {
    let run = Run::over(PLAIN, None);
    let (one, two) = (format!("netsky-m-{}", key(1)), format!("netsky-m-{}", key(2)));
    let onces = ["netsky-greet", "netsky-initialized", "netsky-thread", &one, "netsky-probe-1", &two];
    assert_eq!(run.onces(), onces);
    assert_eq!(run.ends(), [(&Outcome::Done, &[key(1)][..]), (&Outcome::Done, &[key(2)][..])]);
    let thread = run.driver.thread().to_owned();
    assert_eq!(
        run.learnt[..4],
        [
            Learnt::Model("scripted-1".to_owned()),
            Learnt::Conversation(Conversation { id: thread.clone(), begun: false }),
            Learnt::Up { version: Some("0.169.0".to_owned()) },
            Learnt::Doing,
        ]
    );
    assert!(run.learnt.contains(&Learnt::Conversation(Conversation { id: thread, begun: true })));
    let working =
        ["waiting-for-model", "working", "idle", "waiting-for-model", "tool-running", "waiting-for-model"];
    assert_eq!(run.doings[1..7], working, "{:?}", run.doings);
    assert!(run.learnt.iter().any(
        |learnt| matches!(learnt, Learnt::Said(Entry::Result { failed: true, text }) if text == "out\n")
    ));
    assert!(run.learnt.iter().all(|learnt| !matches!(learnt, Learnt::Unknown(_))));
    assert_eq!((run.driver.heard(), run.driver.room(), run.driver.doing()), (1, Room::Free, &Doing::Idle));
    let spent: u64 = run
        .learnt
        .iter()
        .map(|learnt| match learnt {
            Learnt::TurnEnded(end) => end.usage.input + end.usage.output,
            _ => 0,
        })
        .sum();
    let total = run.driver.total.clone().expect("it was told");
    assert_eq!(spent, total.input + total.output, "turns take what the thread takes");
    assert!(run.learnt.contains(&Learnt::Context(5)));
}

#[test]
fn what_it_asks_is_answered_once_and_dropped_with_its_turn() {
    let run = Run::over(APPROVAL, None);
    let asks: Vec<&Ask> = run
        .learnt
        .iter()
        .filter_map(|learnt| match learnt {
            Learnt::Asked(ask) => Some(ask),
            _ => None,
        })
        .collect();
    assert_eq!(asks.len(), 3);
    assert_eq!(asks[0].kind, AskKind::Permission);
    assert_eq!(asks[0].text, "/bin/bash -lc 'touch x; echo done' (need it)");
    let said = run.said();
    let answers: Vec<&Value> = said.iter().filter(|line| line["id"].is_u64()).collect();
    assert_eq!(
        answers,
        [
            &json!({"id": 0, "result": {"decision": "accept"}}),
            &json!({"id": 1, "result": {"decision": "decline"}})
        ]
    );
    let withdrawn = run.learnt.iter().filter(|learnt| matches!(learnt, Learnt::Withdrawn { .. })).count();
    assert_eq!((withdrawn, run.driver.asks().len()), (3, 0));
    assert_eq!(run.ends()[2], (&Outcome::Interrupted, &[key(3)][..]));
    assert_eq!(run.doings.iter().filter(|word| **word == "blocked").count(), 3);
}

#[test]
fn keys_that_do_not_hold_are_told_of_until_a_turn_fares_better() {
    let lines: Vec<&str> = FAILED.lines().collect();
    let end = lines.iter().position(|line| line.contains("turn/completed")).expect("an end");
    let mut run = Run::begun(None);
    lines[..=end].iter().for_each(|line| run.step(line));
    assert!(matches!(run.driver.doing(), Doing::FailedAuth { why } if why.contains("401")));
    let ends = run.ends();
    let [(Outcome::Failed { trouble: Trouble::Auth, .. }, keys)] = ends[..] else { panic!("{ends:?}") };
    assert_eq!(keys, [key(1)]);
    assert!(!run.driver.has_finished(&key(1)) && run.driver.room() == Room::Free);
    let mut out = Out::default();
    run.driver.deliver(&Message { key: key(1), text: String::new() }, false, &mut out);
    assert_eq!(out.writes[0].once, format!("netsky-m-{}-1", key(1)), "the worker is to take it again");
    let all = Run::over(FAILED, None);
    assert_eq!(all.driver.doing(), &Doing::Idle);
    assert!(all.driver.has_finished(&key(2)));
}

#[test]
fn what_was_cut_by_a_death_comes_again_and_what_was_answered_does_not() {
    let mut run = Run::over(BEFORE, None);
    assert_eq!(run.driver.silence(), Some(Wedge::Stalled));
    let conversation = run.driver.conversation.clone().expect("one");
    assert_eq!(conversation, Conversation { id: KILLED.to_owned(), begun: true });
    // Its memory is lost with it: the rollout knows.
    let mut next = Codex::default();
    next.begin(Some(&conversation));
    let second = ROLLOUT
        .lines()
        .enumerate()
        .filter(|(_, line)| line.contains("task_started"))
        .map(|(at, _)| at)
        .nth(2);
    for line in ROLLOUT.lines().take(second.expect("three turns")) {
        next.recall(line.as_bytes());
    }
    next.recalled();
    assert_eq!([1, 2].map(|n| next.has_finished(&key(n))), [true, false]);
    run.driver.begin(Some(&conversation));
    assert_eq!([1, 2].map(|n| run.driver.has_finished(&key(n))), [true, false]);

    let again = Run::over(AFTER, Some(KILLED));
    let resume = json!({"threadId": KILLED, "excludeTurns": true, "cwd": ".", "model": "scripted-1"});
    assert_eq!(again.said()[3], json!({"id": "netsky-resume", "method": "thread/resume", "params": resume}));
    assert_eq!(again.ends(), [(&Outcome::Done, &[key(2)][..])]);
    assert_eq!(again.driver.conversation, Some(conversation));
    let Some(Learnt::TurnEnded(end)) =
        again.learnt.iter().find(|learnt| matches!(learnt, Learnt::TurnEnded(_)))
    else {
        panic!("no end")
    };
    assert_eq!(
        (end.usage.input, end.usage.output),
        (10_072, 2),
        "what the thread took before is not this turn's"
    );
    let mut whole = Codex::default();
    ROLLOUT.lines().for_each(|line| whole.recall(line.as_bytes()));
    whole.recalled();
    assert!(whole.has_finished(&key(2)));
}

#[test]
fn an_interrupt_ends_the_turn_and_its_tool_and_loses_no_message() {
    let run = Run::over(INTERRUPT, None);
    assert_eq!(run.ends(), [(&Outcome::Interrupted, &[key(1)][..]), (&Outcome::Done, &[key(2)][..])]);
    assert_eq!(run.untaken(), [&key(2)], "it was accepted, and gone with the turn");
    assert!(run.onces().iter().any(|once| once.starts_with("netsky-clean-")));
    let steered = &run.said()[4];
    assert_eq!(
        (&steered["method"], steered["params"]["expectedTurnId"].is_string()),
        (&json!("turn/steer"), true)
    );
    assert_eq!(run.driver.doing(), &Doing::Idle);
}

#[test]
fn a_context_that_it_made_smaller_is_told_of() {
    let run = Run::over(COMPACT, None);
    assert_eq!(run.learnt.iter().filter(|learnt| **learnt == Learnt::Compacted).count(), 1);
    let contexts: Vec<u8> = run
        .learnt
        .iter()
        .filter_map(|learnt| match learnt {
            Learnt::Context(pct) => Some(*pct),
            _ => None,
        })
        .collect();
    assert_eq!(contexts, [97, 97, 4, 3, 5]);
    assert_eq!(run.ends().len(), 2);
}

#[test]
fn what_is_steered_ends_with_the_turn_and_what_is_late_comes_again() {
    let run = Run::over(STEER, None);
    assert_eq!(run.ends(), [(&Outcome::Done, &[key(1), key(2)][..]), (&Outcome::Done, &[key(3)][..])]);
    assert_eq!(run.untaken(), [&key(3)]);
}

#[test]
fn a_conversation_that_is_not_there_is_begun_anew() {
    let run = Run::over(NO_THREAD, Some("01a218fe-c3bc-7e52-8e7e-eb15b40cdde9"));
    assert_eq!(run.onces()[2..], ["netsky-config", "netsky-resume", "netsky-thread"]);
    assert!(run.driver.conversation.is_some_and(|conversation| !conversation.begun));
    assert!(run.learnt.contains(&Learnt::Up { version: Some("0.169.0".to_owned()) }));
}

#[test]
fn whoever_reads_on_from_any_line_comes_to_the_same_and_finishes_each_message_once() {
    for (sample, conversation) in ALL {
        let lines: Vec<&str> = sample.lines().collect();
        let mut first = Run::begun(conversation);
        let mut moments = Vec::new();
        for line in &lines {
            moments.push(first.driver.memory());
            first.step(line);
        }
        let mut times: BTreeMap<MessageKey, u32> = BTreeMap::new();
        for (outcome, keys) in first.ends() {
            if !matches!(outcome, Outcome::Failed { .. }) {
                keys.iter().for_each(|key| *times.entry(key.clone()).or_default() += 1);
            }
        }
        assert!(times.values().all(|times| *times == 1), "{times:?}");
        for (at, moment) in moments.iter().enumerate() {
            let mut second = Run { driver: Codex::remember(moment), ..Run::default() };
            let mut out = Out::default();
            second.driver.greet(&mut out);
            second.take(out);
            lines[at..].iter().for_each(|line| second.step(line));
            assert_eq!(second.driver, first.driver, "from line {at}");
            assert!(second.written.iter().all(|write| first.written.contains(write)), "from line {at}");
        }
        // The same lines once more, by a driver that knows how it ends.
        let finished = first.driver.finished.clone();
        for line in &lines {
            first.driver.line(line.as_bytes(), Timestamp::UNIX_EPOCH, &mut Out::default());
        }
        assert_eq!(first.driver.finished, finished);
    }
}

#[test]
fn a_lost_end_is_asked_for() {
    let lines: Vec<&str> = PLAIN.lines().collect();
    let mut run = Run::begun(None);
    let end = lines.iter().position(|line| line.contains("turn/completed")).expect("an end");
    lines[..end].iter().for_each(|line| run.step(line));
    let turn = run.driver.turn.as_ref().expect("a turn").id.clone();
    let mut out = Out::default();
    run.driver.gap(&mut out);
    assert_eq!(out.writes[0].once, "netsky-gap-1");
    let item = json!({"type": "userMessage", "id": "u", "clientId": key(1), "content": []});
    let row = |status: &str| json!({"id": turn, "status": status, "items": [item]});
    let answer = |status: &str| json!({"id": "netsky-gap-1", "result": {"data": [row(status)]}}).to_string();
    run.step(&answer("inProgress"));
    assert_eq!((run.driver.room(), run.ends().len()), (Room::Steers, 0));
    run.step(&answer("completed"));
    assert_eq!(run.ends(), [(&Outcome::Done, &[key(1)][..])]);
    assert_eq!(run.driver.room(), Room::Free);

    let mut run = Run::begun(None);
    run.driver.gap(&mut Out::default());
    run.step(r#"{"id":"netsky-gap-1","result":{"data":["t1"]}}"#);
    assert_eq!((run.driver.room(), run.driver.thread()), (Room::Free, "t1"));
}

#[test]
fn questions_are_answered_in_their_own_form_and_what_nobody_knows_is_refused() {
    let mut run = Run::begun(None);
    let questions = json!([{"id": "q1", "question": "Which?"}]);
    let params = json!({"turnId": "u", "questions": questions});
    run.step(&json!({"method": "item/tool/requestUserInput", "id": 8, "params": params}).to_string());
    let params = json!({"permissions": {"network": {"enabled": true}, "fileSystem": null}});
    run.step(&json!({"method": "item/permissions/requestApproval", "id": "p", "params": params}).to_string());
    run.step(r#"{"method":"attestation/generate","id":9,"params":{}}"#);
    run.step(r#"{"method":"nobody/knows","params":{}}"#);
    assert_eq!(run.driver.asks()[0].text, "Which?");
    let mut out = Out::default();
    let asks: Vec<String> = run.driver.asks().iter().map(|ask| ask.id.clone()).collect();
    for (ask, text) in asks.into_iter().zip([Some("B".to_owned()), None]) {
        run.driver.answer(&Answer { ask, allow: true, text }, &mut out);
    }
    run.take(out);
    assert_eq!(
        run.said()[1..],
        [
            json!({"id": 9, "error": {"code": -32601, "message": "netsky does not answer this"}}),
            json!({"id": 8, "result": {"answers": {"q1": {"answers": ["B"]}}}}),
            json!({"id": "p", "result": {"permissions": {"network": {"enabled": true}}, "scope": "turn"}}),
        ]
    );
    let unknown: Vec<&Learnt> =
        run.learnt.iter().filter(|learnt| matches!(learnt, Learnt::Unknown(_))).collect();
    assert_eq!(unknown.len(), 2, "{unknown:?}");
}

#[test]
fn another_question_under_the_same_id_of_another_process_has_another_name() {
    let asked = |command: &str| {
        let mut run = Run::begun(None);
        let params = json!({"turnId": "u", "itemId": "i", "command": command});
        run.step(
            &json!({"method": "item/commandExecution/requestApproval", "id": 0, "params": params})
                .to_string(),
        );
        run.driver.asks()[0].id.clone()
    };
    assert_ne!(asked("ls"), asked("rm -r ."));
    assert_eq!(asked("ls"), asked("ls"), "and whoever reads the line again knows it again");
}

#[test]
fn each_of_several_questions_has_an_answer_of_its_own() {
    let mut run = Run::begun(None);
    let questions = json!([{"id": "q1", "question": "Which?"}, {"id": "q2", "question": "And?"}]);
    let params = json!({"turnId": "u", "questions": questions});
    run.step(&json!({"method": "item/tool/requestUserInput", "id": 8, "params": params}).to_string());
    let ask = run.driver.asks()[0].clone();
    assert_eq!((ask.text.as_str(), ask.questions()), ("Which? / And?", 2));
    let mut out = Out::default();
    run.driver.answer(&Answer { ask: ask.id, allow: true, text: Some("a / b".to_owned()) }, &mut out);
    run.take(out);
    let answers = json!({"q1": {"answers": ["a"]}, "q2": {"answers": ["b"]}});
    assert_eq!(run.said().last(), Some(&json!({"id": 8, "result": {"answers": answers}})));
}

#[test]
fn a_turn_that_has_ended_ends_no_second_time_where_a_list_names_it_beside_the_next() {
    let mut run = Run::begun(None);
    run.step(&json!({"id": "netsky-thread", "result": {"thread": {"id": "t"}}}).to_string());
    let item = json!({"type": "userMessage", "id": "u", "clientId": key(1), "content": []});
    let error = json!({"message": "busy", "codexErrorInfo": "rateLimitExceeded"});
    let failed = json!({"id": "u1", "status": "failed", "error": error, "items": [item]});
    run.driver.deliver(&Message { key: key(1), text: "x".to_owned() }, false, &mut Out::default());
    run.step(
        &json!({"method": "item/completed", "params": {"threadId": "t", "turnId": "u1", "item": item}})
            .to_string(),
    );
    run.step(&json!({"method": "turn/completed", "params": {"threadId": "t", "turn": failed}}).to_string());
    assert_eq!(run.ends().len(), 1);
    // It is given once more, and what became of that is asked for.
    run.driver.deliver(&Message { key: key(1), text: "x".to_owned() }, false, &mut Out::default());
    run.driver.gap(&mut Out::default());
    let next = json!({"id": "u2", "status": "inProgress", "items": [item]});
    run.step(&json!({"id": "netsky-gap-1", "result": {"data": [next, failed]}}).to_string());
    assert_eq!(run.ends().len(), 1, "{:?}", run.ends());
    assert_eq!(run.driver.turn.as_ref().map(|turn| turn.id.as_str()), Some("u2"));
}

#[test]
fn a_program_that_refuses_to_begin_says_why_and_is_up_once_it_does() {
    for (request, error) in [("netsky-greet", "bad config"), ("netsky-thread", "no thread")] {
        let mut run = Run::begun(None);
        run.step(&json!({"id": request, "error": {"message": error}}).to_string());
        let refused = Doing::Wedged { how: Wedge::Refused, why: error.to_owned() };
        assert_eq!((run.driver.doing(), run.driver.room()), (&refused, Room::None));
        run.step(&json!({"id": "netsky-thread", "result": {"thread": {"id": "t"}}}).to_string());
        assert_eq!((run.driver.doing(), run.driver.room()), (&Doing::Idle, Room::Free));
    }
    let mut run = Run::begun(None);
    run.step(r#"{"id":"netsky-greet","result":{"userAgent":"codex/1 x"}}"#);
    run.step(r#"{"id":"netsky-greet","error":{"message":"Already initialized"}}"#);
    assert_eq!(run.driver.doing(), &Doing::Starting, "to be greeted twice is no harm");
}

#[test]
fn a2_no_word_of_a_message_is_a_mention_and_every_other_stays_as_it_was() {
    for (text, given) in [
        (
            "use $zapper, [$zipper](/a/SKILL.md) and\n$_x",
            "use &#x24;zapper, [&#x24;zipper](/a/SKILL.md) and\n&#x24;_x",
        ),
        ("see @plugin and @/etc/passwd", "see &#x40;plugin and &#x40;/etc/passwd"),
        ("＄zapper", "&#xff04;zapper"),
        ("it costs $5, $(date) and a$b, x@y.org", "it costs $5, $(date) and a$b, x@y.org"),
    ] {
        let (mut driver, mut out) = (Codex::default(), Out::default());
        driver.deliver(&Message { key: key(1), text: text.to_owned() }, false, &mut out);
        let line: Value = serde_json::from_slice(&out.writes[0].bytes).expect("JSON");
        assert_eq!(line["params"]["input"][0]["text"], given);
    }
}

#[test]
fn of_messages_that_were_given_in_vain_the_newest_go_under_another_name_whatever_they_are_called() {
    let mut driver = Codex::default();
    (0..IN_VAIN).for_each(|n| driver.forget(&MessageKey::derived(&[&n.to_string()])));
    let first: MessageKey = "00000000-0000-8000-a000-000000000000".parse().expect("a key");
    driver.forget(&first);
    let mut out = Out::default();
    driver.deliver(&Message { key: first.clone(), text: String::new() }, false, &mut out);
    assert_eq!(out.writes[0].once, format!("netsky-m-{first}-1"));
}
