//! How Claude Code is started for a wish, and where its conversations are found.

use netsky_model::desired::Desired;
use serde_json::json;

use super::super::super::{Conversation, Driver, StartFrom};
use super::super::{Claude, start};

fn wish(model: Option<&str>) -> Desired {
    let wish = json!({
        "v": 1, "agent": "agent1", "want": "up", "by": "up", "since": "2026-11-26T18:00:00Z", "runtime": "claude",
        "model": model, "argv": ["claude", "--max-turns", "9"], "cwd": "/home/someone/work", "env": {}, "receipts": "ack",
    });
    serde_json::from_value(wish).expect("a wish")
}

fn argv(model: Option<&str>, conversation: Option<&str>) -> String {
    let conversation = conversation.map(|id| Conversation { id: id.to_owned(), begun: true });
    let desired = wish(model);
    let started = start(&StartFrom {
        desired: &desired,
        conversation: conversation.as_ref(),
        fresh: "f-1",
        prompt: "You are agent1, it says",
    });
    assert_eq!(started.env.get("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS").map(String::as_str), Some("1"));
    assert_eq!(started.io, netsky_kernel::session::Io::Pipes);
    let at = started.argv.iter().position(|word| word == "--append-system-prompt").expect("a prompt");
    assert_eq!(started.argv[at + 1], "You are agent1, it says");
    [&started.argv[..at], &started.argv[at + 2..]].concat().join(" ")
}

#[test]
fn it_is_started_with_the_words_of_the_wish_first_and_in_its_conversation() {
    let stream = "claude --max-turns 9 -p --input-format stream-json --output-format stream-json --verbose \
                  --include-partial-messages --replay-user-messages --permission-prompt-tool stdio";
    assert_eq!(argv(None, None), format!("{stream} --session-id f-1"));
    assert_eq!(argv(Some("haiku"), None), format!("{stream} --model haiku --session-id f-1"));
    assert_eq!(argv(Some("haiku"), Some("c-1")), format!("{stream} --model haiku --resume c-1"));
}

#[test]
fn a5_a_conversation_is_found_wherever_it_began_and_an_odd_name_leads_nowhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let id = "177fb51c-afdd-4b12-8bfe-bd00483171ba";
    let own = |path: &std::path::Path, key: &str| [(key.to_owned(), path.display().to_string())].into();
    let home = own(folder.path(), "HOME");
    assert!(!start::has_conversation(&home, id).expect("looked"), "nothing is there yet");
    let project = folder.path().join(".claude/projects/-home-user-elsewhere");
    netsky_disk::fs::Dir::create(&project).expect("a project");
    netsky_disk::fs::Dir::create(folder.path().join(".claude/projects/-home-user-work")).expect("another");
    assert!(!start::has_conversation(&home, id).expect("looked"));
    let path = project.join(format!("{id}.jsonl"));
    netsky_disk::state::write(&path, b"{}\n").expect("a transcript");
    netsky_disk::state::write(folder.path().join(".claude/secret.jsonl"), b"{}\n").expect("something else");
    assert_eq!(start::transcript(&home, id).expect("looked"), Some(path.clone()));
    assert_eq!(
        start::transcript(&own(&folder.path().join(".claude"), "CLAUDE_CONFIG_DIR"), id).expect("looked"),
        Some(path)
    );
    for odd in
        ["", ".", "..", "../../secret", "/etc/passwd", "a/b", "a.b", "a\0b", "a b", "é", "*", "177fb51c"]
    {
        assert_eq!(start::transcript(&home, odd).expect("looked"), None, "{odd:?}");
    }
    let mut claude = Claude::default();
    assert_eq!(claude.transcript(&home).expect("looked"), None);
    claude.begin(Some(&Conversation { id: id.to_owned(), begun: true }));
    assert!(claude.transcript(&home).expect("looked").is_some());
    assert_eq!(claude.transcript(&[].into()).expect("looked"), None, "it has no home");
    let nowhere = own(&folder.path().join("x".repeat(5000)), "CLAUDE_CONFIG_DIR");
    assert!(start::has_conversation(&nowhere, id).is_err(), "what cannot be looked into is not nothing");
}
