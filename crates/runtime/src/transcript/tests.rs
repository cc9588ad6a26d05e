//! Transcripts of what both programs really printed, and of what none should.

use std::fmt::Write as _;

use netsky_model::envelope::Envelope;
use netsky_model::id::AgentId;
use netsky_model::render;

use serde_json::json;

use super::*;

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn read(runtime: &str, said: &str) -> Vec<Piece> {
    let mut transcript = Transcript::new(runtime, 0, Some(0), false).expect("driven");
    transcript.take(0, said.as_bytes(), now())
}

/// A transcript, a line for each piece.
fn story(runtime: &str, said: &str) -> String {
    read(runtime, said).iter().fold(String::new(), |mut story, piece| {
        let head = |text: &Text| text.text.lines().next().unwrap_or_default().to_owned();
        match piece {
            Piece::Told(told) => {
                let from = told.from.as_deref().unwrap_or("-");
                writeln!(story, "told by {from}: {}", head(&told.text))
            }
            Piece::Says(text) => writeln!(story, "says {}", head(text)),
            Piece::Uses { name, input } => writeln!(story, "uses {name}: {input}"),
            Piece::Result { failed, first, more } => writeln!(story, "result {failed} {first} +{more}"),
            Piece::Asked(ask) => writeln!(story, "asks {}", ask.text),
            Piece::Ended { outcome, usage } => {
                writeln!(story, "ended {outcome:?} in {} out {}", usage.input, usage.output)
            }
            Piece::Withdrawn { .. } => writeln!(story, "withdrawn"),
            other => writeln!(story, "{other:?}"),
        }
        .expect("text");
        story
    })
}

#[test]
fn a_turn_of_claude_with_a_tool_that_had_to_be_allowed() {
    assert_eq!(
        story("claude", include_str!("../../samples/claude-allowed.jsonl")),
        "told by -: a [[tool Bash {\"command\":\"touch pa\"}]]\n\
         uses Bash: touch pa\n\
         asks Bash: touch pa\n\
         withdrawn\n\
         result false (Bash completed with no output) +0\n\
         says Tool result received: (Bash completed with no output)\n\
         ended Done in 45958 out 36\n"
    );
}

#[test]
fn turns_of_codex_one_allowed_one_denied_and_one_stopped() {
    let story = story("codex", include_str!("../../samples/codex-approval.jsonl"));
    let lines: Vec<String> =
        story.lines().filter(|line| !line.starts_with("Note")).map(str::to_owned).collect();
    let turn = |file: &str, rest: &[&str]| {
        let command = format!("/bin/bash -lc 'touch {file}; echo done'");
        let told = format!(
            "told by agent1: [[tool exec_command {{\"cmd\":\"touch {file}; echo done\",\
             \"sandbox_permissions\":\"require_escalated\",\"justification\":\"need it\"}}]]"
        );
        let begin = [told, format!("uses exec_command: {command}"), format!("asks {command} (need it)")];
        begin.into_iter().chain(rest.iter().map(|line| (*line).to_owned())).collect::<Vec<_>>()
    };
    let allowed = [
        "withdrawn",
        "result false done +0",
        "says Tool result received: Chunk ID: cce3c2",
        "ended Done in 21826 out 33",
    ];
    let refused = "says Tool result received: exec_command failed: CreateProcess { message: \
                   \"Rejected(\\\"rejected by user\\\")\" }";
    let denied = ["withdrawn", "result true  +0", refused, "ended Done in 22391 out 26"];
    let stopped = ["withdrawn", "ended Interrupted in 11410 out 1"];
    assert_eq!(lines, [turn("x", &allowed), turn("y", &denied), turn("z", &stopped)].concat());
}

#[test]
fn every_sample_reads_the_same_wherever_it_is_cut() {
    for (runtime, said) in [
        ("claude", include_str!("../../samples/claude-merged.jsonl")),
        ("claude", include_str!("../../samples/claude-401.jsonl")),
        ("codex", include_str!("../../samples/codex-plain.jsonl")),
        ("codex", include_str!("../../samples/codex-failed.jsonl")),
    ] {
        let whole = read(runtime, said);
        assert!(whole.iter().any(|piece| matches!(piece, Piece::Told(_))), "{runtime}");
        assert!(whole.iter().any(|piece| matches!(piece, Piece::Ended { .. })), "{runtime}");
        let mut transcript = Transcript::new(runtime, 0, None, false).expect("driven");
        let cut = said.as_bytes().chunks(997).enumerate();
        let pieces: Vec<Piece> =
            cut.flat_map(|(n, bytes)| transcript.take(n as u64 * 997, bytes, now())).collect();
        assert_eq!(pieces, whole, "{runtime}");
    }
}

fn envelope(from: &str, text: &str) -> Envelope {
    let ts = "2026-04-19T19:25:00Z".parse().expect("valid");
    Envelope::new(
        "x1".parse().expect("valid"),
        from.parse().expect("valid"),
        AgentId::root(),
        text.to_owned(),
        ts,
    )
}

#[test]
fn messages_are_told_by_who_sent_them_and_a_repeat_is_flagged() {
    let first = render::channel(&envelope("owner", "fix the build\nand say so"), 1, true);
    let second = render::channel(&envelope("agent1", "a < b</channel>"), 3, false);
    let told = told::read(&format!("{first}\n{second}\nand a word"));
    let of = |from: Option<&str>, again: Option<u32>, unverified, text: &str| Told {
        id: from.map(|_| ("x1".to_owned(), again.unwrap_or(1))),
        from: from.map(str::to_owned),
        again,
        unverified,
        text: text.to_owned().into(),
    };
    assert_eq!(
        told,
        [
            of(Some("owner"), None, false, "fix the build\nand say so"),
            of(Some("agent1"), Some(3), true, "a < b&lt;/channel>"),
            of(None, None, false, "and a word"),
        ]
    );
    for odd in ["<channel ", "<channel >", "<channel x>y</channel", "<channel from=\">y</channel>"] {
        assert_eq!(told::read(odd).len(), 1, "{odd}");
    }
}

#[test]
fn a_message_that_is_said_again_with_those_behind_it_is_shown_once_and_a_repeat_is_shown_again() {
    let line = |texts: &[String]| {
        let content: Vec<_> = texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
        json!({"type": "user", "isReplay": true, "message": {"role": "user", "content": content}}).to_string()
            + "\n"
    };
    let [one, again] = [1, 2].map(|attempt| render::channel(&envelope("owner", "one"), attempt, true));
    let said = [line(std::slice::from_ref(&one)), line(&[one, again])].concat();
    let mut transcript = Transcript::new("claude", 0, None, false).expect("driven");
    let pieces = transcript.take(0, said.as_bytes(), now());
    let told: Vec<_> = pieces
        .iter()
        .map(|piece| if let Piece::Told(told) = piece { told.again } else { panic!("{piece:?}") })
        .collect();
    assert_eq!(told, [None, Some(2)]);
}

/// A line of Claude Code.
fn asks(id: &str) -> String {
    format!(
        "{{\"type\":\"control_request\",\"request_id\":\"{id}\",\"request\":{{\"subtype\":\"can_use_tool\",\
         \"tool_name\":\"Bash\",\"input\":{{\"command\":\"make\"}}}}}}\n"
    )
}

#[test]
fn what_a_former_generation_asked_is_open_no_more_and_its_id_may_come_again() {
    let before = asks("q1");
    let begins = before.len() as u64;
    for step in [1, before.len(), 4096] {
        let said = format!("{before}{}", asks("q1"));
        let mut transcript = Transcript::new("claude", 0, Some(begins), false).expect("driven");
        let chunks = said.as_bytes().chunks(step).enumerate();
        let pieces: Vec<Piece> =
            chunks.flat_map(|(n, bytes)| transcript.take((n * step) as u64, bytes, now())).collect();
        assert!(
            matches!(&pieces[..], [Piece::Asked(_), Piece::Began, Piece::Asked(_)]),
            "by {step}: {pieces:?}"
        );
        assert_eq!(transcript.asks().len(), 1);
    }
    let mut lost = Transcript::new("claude", 0, Some(begins), false).expect("driven");
    lost.take(0, &before.as_bytes()[..before.len() - 1], now());
    lost.skip_to(begins + 10);
    assert!(lost.asks().is_empty());
}

#[test]
fn of_a_line_that_was_cut_at_its_beginning_nothing_is_told() {
    let says = "{\"type\":\"assistant\",\"parent_tool_use_id\":null,\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}}\n";
    let mut transcript = Transcript::new("claude", 7, Some(0), true).expect("driven");
    assert_eq!(transcript.take(7, says.as_bytes(), now()), []);
    let at = 7 + says.len() as u64;
    assert_eq!(transcript.take(at, says.as_bytes(), now()).len(), 1);
    transcript.skip_to(1000);
    assert_eq!(transcript.take(1000, says.as_bytes(), now()), []);
}

#[test]
fn a12_a_flood_in_one_text_or_one_line_keeps_no_more_than_its_share() {
    let long = "é".repeat(1 << 20);
    let text = Text::from(long.clone());
    assert!(text.text.len() <= MOST && text.text.len() + text.left_out == long.len());
    let Piece::Result { first, more, .. } = folded(true, &format!("\n{long}\n\n{}", "x\n".repeat(41))) else {
        panic!("a result")
    };
    assert!(first.len() <= MOST && more == 41, "{more}");
    let mut transcript = Transcript::new("codex", 0, None, false).expect("driven");
    let (mut at, mut told) = (0, Vec::new());
    for piece in (0..10).map(|_| vec![b'x'; 1 << 20]).chain([b"\n".to_vec()]) {
        told.extend(transcript.take(at, &piece, now()));
        at += piece.len() as u64;
    }
    assert_eq!(told, [Piece::TooLong]);
}
