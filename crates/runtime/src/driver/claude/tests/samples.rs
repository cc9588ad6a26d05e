//! What is learnt from each sample, line by line: the whole story of it, and nothing besides.

use std::fmt::Write as _;

use serde_json::Value;

use super::super::super::{Driver, Entry, Learnt, MessageKey, Outcome};
use super::{Talk, sample};

/// What is learnt and written, and what the agent does, in order; messages are named by letters.
fn story(name: &str) -> String {
    let (mut talk, mut story, mut doing) = (Talk::about(&sample(name)), String::new(), "starting".to_owned());
    for line in sample(name) {
        talk.lead(line);
        talk.line(line.as_bytes());
        for write in talk.writes.drain(..) {
            let line = String::from_utf8_lossy(&write.bytes).into_owned();
            let line: Value = serde_json::from_str(&line).expect("a line of JSON");
            let what = match line["type"].as_str() {
                Some("user") => line["priority"].as_str().unwrap_or("a message").to_owned(),
                Some("control_request") => line["request"]["subtype"].to_string(),
                _ => line["response"]["response"].to_string(),
            };
            writeln!(story, "> {}: {what}", write.once).expect("text");
        }
        for learnt in talk.learnt.drain(..) {
            if let Some(told) = tell(learnt) {
                writeln!(story, "{told}").expect("text");
            }
        }
        if talk.claude.doing().to_string() != doing {
            doing = talk.claude.doing().to_string();
            writeln!(story, "  {doing}").expect("text");
        }
    }
    for (n, key) in talk.delivered.iter().enumerate() {
        story = story.replace(key.as_str(), &char::from(b'A' + u8::try_from(n).expect("few")).to_string());
    }
    story
}

fn head(text: &str) -> String {
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(40).collect();
    text.trim_end().to_owned()
}

fn tell(learnt: Learnt) -> Option<String> {
    Some(match learnt {
        Learnt::Up { version } => format!("up {}", version.unwrap_or_default()),
        Learnt::Conversation(conversation) => format!("conversation begun={}", conversation.begun),
        Learnt::Model(model) => format!("model {model}"),
        Learnt::Settled(key) => format!("settled {key}"),
        Learnt::Untaken(key) => format!("untaken {key}"),
        Learnt::TurnBegan => "turn".to_owned(),
        Learnt::TurnEnded(end) => {
            let how = match end.outcome {
                Outcome::Failed { trouble, why } => format!("{trouble:?}: {}", head(&why)),
                other => format!("{other:?}"),
            };
            let keys: Vec<String> = end.messages.iter().map(MessageKey::to_string).collect();
            let usage = end.usage;
            let cost = usage.cost_micros.map_or_else(|| "-".to_owned(), |cost| cost.to_string());
            format!("ended [{}] in {} out {} cost {cost}, {how}", keys.join(" "), usage.input, usage.output)
        }
        Learnt::Context(pct) => format!("context {pct}"),
        Learnt::Compacted => "compacted".to_owned(),
        Learnt::Asked(ask) => format!("asks {:?} {}", ask.kind, ask.text),
        Learnt::Withdrawn { .. } => "withdrawn".to_owned(),
        Learnt::Said(Entry::Agent { text }) => format!("agent: {}", head(&text)),
        // The transcript's own tests tell what was put before it.
        Learnt::Doing | Learnt::Said(Entry::User { .. }) => return None,
        Learnt::Said(Entry::Tool { name, input }) => format!("tool {name} {}", head(&input)),
        Learnt::Said(Entry::Result { failed, text }) => {
            format!("result failed={failed}: {}", head(&text))
        }
        Learnt::Said(other) => format!("{other:?}"),
        Learnt::Unknown(name) => format!("unknown {name}"),
        Learnt::NoConversation(why) => format!("no conversation: {}", head(&why)),
    })
}

/// How each turn of the samples begins.
const OPENING: &str = r#"
    > netsky-greet: "initialize"
    up 2.1.330
      idle
    turn
      waiting-for-model
    > m:A: a message
    conversation begun=true
    model claude-haiku-4-5
"#;

/// A story without the indent that it has in this file.
fn told(indented: &str) -> String {
    let lines: Vec<&str> = indented.trim_matches('\n').trim_end().lines().collect();
    let indent = lines.iter().map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    lines.iter().map(|line| format!("{}\n", &line[indent..])).collect()
}

/// What a sample tells, all of it.
fn tells_all(name: &str, indented: &str) {
    assert_eq!(story(name), told(indented), "{name}");
}

/// What a sample tells behind the opening.
fn tells(name: &str, indented: &str) {
    let story = story(name);
    let rest =
        story.strip_prefix(&told(OPENING)).unwrap_or_else(|| panic!("{name} begins otherwise: {story}"));
    assert_eq!(rest, told(indented), "{name}");
}

#[test]
fn a_plain_turn_is_told_from_its_first_word_to_what_it_took() {
    tells(
        "plain",
        r#"
          working
        agent: Scripted answer 1 to: hello A
        context 11
        ended [A] in 22922 out 7 cost 22957, Done
          idle
    "#,
    );
}

#[test]
fn messages_end_in_the_turn_that_took_them_alone_or_together() {
    tells(
        "merged",
        r#"
          working
        > m:B: a message
        > m:C: a message
        > m:D: a message
        agent: aaaa bbbb cccc dddd
        context 11
        ended [A] in 22933 out 4 cost 22953, Done
        turn
        model claude-haiku-4-5
          waiting-for-model
          working
        agent: Scripted answer 2 to: m1 text m2 text m3
        context 11
        context 11
        ended [B C D] in 23001 out 11 cost 23056, Done
          idle
    "#,
    );
    tells(
        "injected",
        r#"
          working
        tool Bash sleep 3; echo slept
          runs Bash
        > m:B: a message
        > m:C: a message
        > m:D: a message
        result failed=false: slept
          waiting-for-model
          working
        agent: Tool result received: slept <system-remi
        context 11
        ended [A B C D] in 46513 out 56 cost 46793, Done
          idle
    "#,
    );
}

#[test]
fn a_message_that_cannot_wait_interrupts_what_it_cuts() {
    tells(
        "steered",
        r#"
          working
        tool Bash sleep 5; echo slept
          runs Bash
        > m:B: next
        result failed=false: slept
          waiting-for-model
        context 12
        ended [A] in 24319 out 1 cost 24324, Interrupted
        turn
        model claude-haiku-4-5
          working
        agent: Tool result received: slept <system-remi
        context 12
        context 12
        ended [B] in 24418 out 30 cost 24568, Done
          idle
    "#,
    );
}

#[test]
fn what_is_asked_is_told_until_it_is_answered() {
    tells(
        "allowed",
        r#"
          working
        tool Bash touch pa
          runs Bash
        asks Permission Bash: touch pa
          blocked: Bash: touch pa
        > answer:1fca4cf3-babc-4aa9-a04e-f4a9f0eb3460: {"behavior":"allow"}
        withdrawn
          runs Bash
        result failed=false: (Bash completed with no output)
          waiting-for-model
          working
        agent: Tool result received: (Bash completed wi
        context 11
        ended [A] in 45958 out 36 cost 46138, Done
          idle
    "#,
    );
    tells(
        "denied",
        r#"
          working
        tool Bash touch pc
          runs Bash
        asks Permission Bash: touch pc
          blocked: Bash: touch pc
        > answer:cad437ef-92b7-4468-81c2-d7157e5a453e: {"behavior":"deny","message":"not now, says the owner"}
        withdrawn
          runs Bash
        result failed=true: not now, says the owner
          waiting-for-model
          working
        agent: Tool result received: not now, says the
        context 11
        ended [A] in 46755 out 34 cost 46925, Done
          idle
    "#,
    );
}

#[test]
fn a_question_is_told_with_the_answer_that_it_got() {
    tells(
        "question",
        r#"
          working
        tool AskUserQuestion {"questions":[{"header":"Colour","multiS
          runs AskUserQuestion
        asks Question Red or blue?
          blocked: Red or blue?
        > answer:4a909e9b-d931-4b98-b93f-333bf513f21b: {"behavior":"allow","updatedInput":{"answers":{"Red or blue?":"Blue"},"questions":[{"header":"Colour","multiSelect":false,"options":[{"description":"r","label":"Red"},{"description":"b","label":"Blue"}],"question":"Red or blue?"}]}}
        withdrawn
          runs AskUserQuestion
        result failed=false: Your questions have been answered: "Red
          waiting-for-model
          working
        agent: Tool result received: Your questions hav
        context 11
        ended [A] in 46103 out 55 cost 46378, Done
          idle
    "#,
    );
}

#[test]
fn what_is_asked_again_after_lost_output_is_told_once() {
    tells(
        "asked-twice",
        r#"
          working
        tool Bash mkdir zz1
          runs Bash
        asks Permission Bash: mkdir zz1
          blocked: Bash: mkdir zz1
        > m:B: a message
        > netsky-gap-1: "initialize"
        > answer:dd247c44-d0d6-458a-bbf6-4859b3f96dbf: {"behavior":"allow"}
        withdrawn
          runs Bash
        result failed=false: (Bash completed with no output)
          waiting-for-model
          working
        agent: Tool result received: (Bash completed wi
        context 11
        ended [A B] in 46047 out 56 cost 46327, Done
          idle
    "#,
    );
}

#[test]
fn an_interrupt_ends_the_turn_and_what_it_asked() {
    tells(
        "interrupt",
        r#"
          working
        > netsky-interrupt-A: "interrupt"
        agent: aaa
        context 11
        ended [A] in 0 out 0 cost 22935, Interrupted
          idle
    "#,
    );
    tells(
        "interrupt-asked",
        r#"
          working
        tool Bash mkdir zz
          runs Bash
        asks Permission Bash: mkdir zz
          blocked: Bash: mkdir zz
        withdrawn
          runs Bash
        > netsky-interrupt-A: "interrupt"
        result failed=true: The user doesn't want to proceed with th
          waiting-for-model
        context 11
        ended [A] in 23524 out 1 cost 23529, Interrupted
          idle
    "#,
    );
}

#[test]
fn a_turn_that_failed_says_what_is_to_be_done_about_it() {
    tells(
        "529",
        r#"
          throttled until 2026-11-26T18:00:01Z: overloaded (529)
          throttled until 2026-11-26T18:00:02Z: overloaded (529)
        agent: API Error: 529 scripted overloaded_error
        ended [A] in 0 out 0 cost 0, Overloaded: API Error: 529 scripted overloaded_error
          idle
    "#,
    );
    tells(
        "401",
        r#"
          failed authentication: authentication_failed (401)
        agent: Failed to authenticate. API Error: 401 s
        ended [A] in 0 out 0 cost 0, Auth: Failed to authenticate. API Error: 401 s
          failed authentication: Failed to authenticate. API Error: 401 scripted authentication_error
    "#,
    );
    tells(
        "404-model",
        r#"
        agent: There's an issue with the selected model
        ended [A] in 0 out 0 cost 0, Model: There's an issue with the selected model
          idle
    "#,
    );
    tells(
        "idle-timeout",
        r#"
          working
        agent: API Error: Stream idle timeout - no chun
        ended [A] in 0 out 0 cost 22940, Silent: API Error: Stream idle timeout - no chun
          idle
    "#,
    );
}

#[test]
fn a_turn_that_the_users_own_limit_ended_is_done() {
    tells(
        "max-turns",
        r#"
          working
        tool Bash echo hi
          runs Bash
        result failed=false: hi
          waiting-for-model
        context 11
        ended [A] in 22972 out 1 cost 22977, Done
          idle
    "#,
    );
}

#[test]
fn a_compaction_is_told_and_the_context_is_counted_anew() {
    tells(
        "compaction",
        r#"
        compacted
          working
        agent: some answer
        context 92
        ended [A] in 185000 out 2 cost 215130, Done
          idle
    "#,
    );
}

#[test]
fn i1_a_uuid_that_is_known_from_before_is_not_taken_for_done() {
    tells_all(
        "known-uuid",
        r#"
        > netsky-greet: "initialize"
        up 2.1.330
          idle
        > m:A: a message
        untaken A
    "#,
    );
}

#[test]
fn a_conversation_that_is_not_there_is_no_failed_turn() {
    tells_all(
        "no-conversation",
        r#"
        no conversation: No conversation found with session ID: 5
    "#,
    );
}

#[test]
fn answers_to_what_others_asked_change_nothing() {
    tells_all(
        "controls",
        r#"
        > netsky-greet: "initialize"
        up 2.1.330
          idle
        > netsky-probe-1: "get_binary_version"
        > netsky-gap-1: "initialize"
        turn
          waiting-for-model
    "#,
    );
}
