//! What is remembered of messages, and for how long: which are finished, which go under another name, what a memory holds.

use std::collections::BTreeSet;

use serde_json::json;

use super::super::super::{Driver, IN_VAIN, Learnt, Message, MessageKey, Out};
use super::super::{Claude, FINISHED};
use super::{Talk, bad, good, key, sample, some_key};

#[test]
fn what_does_not_read_of_a_memory_takes_nothing_else_with_it() {
    let lines = sample("plain");
    let mut talk = Talk::about(&lines);
    talk.read(&lines);
    let whole = talk.claude.memory();
    for field in whole.as_object().expect("fields").keys() {
        let mut damaged = whole.clone();
        damaged[field] = json!({"another": ["build"]});
        damaged["news"] = json!(7);
        let mut mended = Claude::remember(&damaged).memory();
        mended[field] = whole[field].clone();
        assert_eq!(mended, whole, "{field}");
    }
    for nothing in [json!(null), json!([]), json!("x"), json!({})] {
        assert_eq!(Claude::remember(&nothing).memory(), Claude::default().memory());
    }
}

#[test]
fn a_message_that_was_withdrawn_before_it_began_is_settled() {
    let (mut talk, key) = (Talk::default(), some_key(1));
    talk.deliver(&key);
    for state in ["queued", "cancelled", "cancelled"] {
        talk.line(
            json!({"type": "command_lifecycle", "command_uuid": key, "state": state}).to_string().as_bytes(),
        );
    }
    assert_eq!(talk.learnt, [Learnt::Settled(key.clone())]);
    assert!(talk.claude.has_finished(&key));
}

#[test]
fn a_message_whose_turn_failed_goes_under_another_uuid_each_time_until_it_is_finished() {
    let (mut talk, key, mut uuids) = (Talk::default(), some_key(1), BTreeSet::new());
    for _ in 0..4 {
        let uuid = talk.deliver(&key);
        assert!(uuid.parse::<MessageKey>().is_ok(), "{uuid}");
        assert_eq!(uuids.is_empty(), uuid == key.as_str());
        assert!(uuids.insert(uuid.clone()), "{uuid} is used up");
        talk.turn(&uuid, &bad(&uuid));
        assert!(!talk.claude.has_finished(&key));
        // Nor does another program, or another driver, take it under the name of before.
        talk.claude = Claude::remember(&talk.claude.memory());
        talk.claude.begin(None);
    }
    let uuid = talk.deliver(&key);
    talk.turn(&uuid, &good(&uuid));
    assert!(talk.claude.has_finished(&key));
    talk.claude.begin(None);
    assert!(talk.claude.has_finished(&key));
    let whole = talk.claude.memory();
    for uuid in &uuids {
        talk.turn(uuid, &bad(uuid));
    }
    assert!(talk.claude.has_finished(&key), "old lines change nothing");
    talk.claude.forget(&key);
    assert!(!talk.claude.has_finished(&key));
    assert_ne!(talk.deliver(&key), key.as_str());
    assert_ne!(talk.claude.memory(), whole);
}

#[test]
fn what_an_end_does_not_name_is_not_finished_by_it() {
    let mut talk = Talk::default();
    let (named, other) = (some_key(1), some_key(2));
    for key in [&named, &other] {
        talk.deliver(key);
        let life = json!({"type": "command_lifecycle", "command_uuid": key, "state": "started"});
        talk.line(life.to_string().as_bytes());
    }
    talk.turn(named.as_str(), &good(named.as_str()));
    assert_eq!(talk.claude.held.len(), 1);
    assert!(talk.claude.has_finished(&named) && !talk.claude.has_finished(&other));
    talk.turn(other.as_str(), &good(other.as_str()));
    assert!(talk.claude.has_finished(&other));
}

#[test]
fn memory_is_bounded_however_many_turns_end_well_or_not() {
    let (mut talk, mut largest) = (Talk::default(), 0);
    for n in 0..10_000 {
        let key = some_key(n);
        let uuid = talk.deliver(&key);
        talk.turn(&uuid, &if n % 2 == 0 { good(&uuid) } else { bad(&uuid) });
        talk.learnt.clear();
        talk.writes.clear();
        if n % 500 == 0 {
            talk.claude.begin(None);
            for n in n..n + 500 {
                let text = format!(
                    "<channel source=\"agent\" id=\"{}\">x</channel>",
                    some_key(n + 100_000).as_str()
                );
                talk.claude
                    .recall(json!({"type": "user", "message": {"content": text}}).to_string().as_bytes());
            }
            talk.claude.recalled();
            let size = talk.claude.memory().to_string().len();
            largest = largest.max(size);
        }
    }
    assert!(talk.claude.finished.len() <= FINISHED && talk.claude.tries.keys().count() <= IN_VAIN);
    assert!(talk.claude.held.is_empty() && talk.claude.started.is_empty());
    assert!(largest < 64 << 10, "{largest}");
    // The newest are those that are known.
    assert!(talk.claude.has_finished(&some_key(9_998)) && !talk.claude.has_finished(&some_key(0)));
    assert_ne!(talk.deliver(&some_key(9_999)), some_key(9_999).as_str());
}

#[test]
fn each_turn_can_be_interrupted_and_each_once() {
    let mut talk = Talk::default();
    let interrupt = |talk: &mut Talk| {
        let mut out = Out::default();
        talk.claude.interrupt(&mut out);
        out.writes.remove(0).once
    };
    let key = some_key(1);
    talk.deliver(&key);
    let first = interrupt(&mut talk);
    assert_eq!(first, interrupt(&mut talk));
    talk.turn(key.as_str(), &good(key.as_str()));
    let of_its_own = interrupt(&mut talk);
    assert_ne!(first, of_its_own);
    talk.line(json!({"type": "result", "is_error": false, "uuid": "r2"}).to_string().as_bytes());
    assert_ne!(of_its_own, interrupt(&mut talk));
}

#[test]
fn a_transcript_tells_of_messages_that_came_while_a_tool_ran_and_a_summary_tells_of_none() {
    let keys = ["a", "b", "c"].map(|n| format!("0192f0c1-2345-7abc-8def-0123456789a{n}"));
    let text = |id: &String| format!("<channel source=\"agent\" from=\"agent1\" id=\"{id}\">do it</channel>");
    let model = |stop: &str| json!({"type": "assistant", "message": {"model": "m", "stop_reason": stop}});
    let [first, injected, old] = &keys;
    let mut claude = Claude::default();
    for row in [
        json!({"type": "user", "message": {"content": text(first)}}),
        json!({"type": "system", "subtype": "compact_boundary"}),
        json!({"type": "user", "isCompactSummary": true, "message": {"content": format!("It was told {}", text(old))}}),
        model("tool_use"),
        json!({"type": "attachment", "attachment": {"type": "queued_command", "prompt": [{"type": "text", "text": text(injected)}]}}),
        json!({"type": "attachment", "attachment": {"type": "hook", "prompt": text(old)}}),
        model("end_turn"),
    ] {
        claude.recall(row.to_string().as_bytes());
    }
    claude.recalled();
    assert_eq!(keys.each_ref().map(|id| claude.has_finished(&key(id))), [true, true, false]);
}

#[test]
fn a_message_that_was_cut_after_a_failure_goes_under_a_name_that_nobody_has_used() {
    let (mut talk, key, mut uuids) = (Talk::default(), some_key(1), BTreeSet::new());
    let cut = |uuid: &str| json!({"type": "result", "subtype": "success", "terminal_reason": "aborted_streaming", "user_message_uuids": [uuid]});
    for n in 0..6 {
        let uuid = talk.deliver(&key);
        assert!(uuids.insert(uuid.clone()), "try {n}: {uuid} is used up");
        match n % 2 {
            0 => talk.turn(&uuid, &bad(&uuid)),
            _ => {
                talk.line(cut(&uuid).to_string().as_bytes());
                // As the slot does where nobody wanted that.
                talk.claude.forget(&key);
            }
        }
    }
}

#[test]
fn the_end_of_a_turn_names_a_message_by_its_second_uuid_to_a_driver_that_did_not_give_it() {
    let (mut talk, key) = (Talk::default(), some_key(1));
    let first = talk.deliver(&key);
    talk.turn(&first, &bad(&first));
    let before = talk.claude.memory();
    let again = talk.deliver(&key);
    // Whoever gave it died before it could write that down.
    talk.claude = Claude::remember(&before);
    talk.learnt.clear();
    talk.turn(&again, &good(&again));
    assert!(talk.claude.has_finished(&key));
    let ended = |learnt: &Learnt| matches!(learnt, Learnt::TurnEnded(end) if end.messages == [key.clone()]);
    assert!(talk.learnt.iter().any(ended), "{:?}", talk.learnt);
}

#[test]
fn a2_no_word_of_a_message_is_a_mention_and_every_other_stays_as_it_was() {
    for (text, given) in [
        ("@/etc/passwd", "&#x40;/etc/passwd"),
        ("see @agent-x, (@b) \n@\"c d\"", "see &#x40;agent-x, (&#x40;b) \n&#x40;\"c d\""),
        ("＠/etc/passwd", "&#xff20;/etc/passwd"),
        ("mail a.b@example.org, x+1@y or 語@z", "mail a.b@example.org, x+1@y or 語@z"),
        ("@@a", "&#x40;&#x40;a"),
    ] {
        let (mut claude, mut out) = (Claude::default(), Out::default());
        claude.deliver(&Message { key: some_key(1), text: text.to_owned() }, false, &mut out);
        let line: serde_json::Value = serde_json::from_slice(&out.writes[0].bytes).expect("JSON");
        assert_eq!(line["message"]["content"][0]["text"], given);
    }
}

#[test]
fn a_program_refuses_by_what_it_says_to_the_greeting_and_no_more_once_it_takes_messages() {
    let mut talk = Talk::default();
    let answer = |id: &str, subtype: &str| {
        let response =
            json!({"subtype": subtype, "request_id": id, "error": "greeted before", "response": {}});
        json!({"type": "control_response", "response": response}).to_string()
    };
    talk.line(answer("netsky-gap-1", "error").as_bytes());
    assert_eq!(talk.claude.doing().word(), "starting", "{:?}", talk.claude.doing());
    talk.line(answer("netsky-greet", "error").as_bytes());
    assert_eq!(talk.claude.doing().word(), "wedged");
    talk.line(answer("netsky-greet", "success").as_bytes());
    assert_eq!(talk.claude.doing().word(), "waiting-for-model", "{:?}", talk.claude.doing());
}
