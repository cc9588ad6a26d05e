//! What `ostk prompt` and its like put before a program.

use serde_json::json;

use crate::ostk::Folder;

/// Shows the bytes it reads, a line at a time, with nothing done to them by its terminal.
const SHOWS: &str = "stty raw -echo; printf '\\033[?2004h'; exec cat -v";

impl Folder {
    fn has_printed(&self, name: &str, text: &str) {
        self.until(text, |folder| folder.ok(&["logs", name]).contains(text));
    }

    /// Waits until a program has said that it wants pastes in brackets.
    fn wants_brackets(&self, name: &str) {
        let log = self.dir.path().join(format!(".ostk/agents/{name}.out"));
        let said = |bytes: &[u8]| bytes.windows(8).any(|part| part == b"\x1b[?2004h");
        self.until("its mode", |_| std::fs::read(&log).is_ok_and(|bytes| said(&bytes)));
    }
}

#[test]
fn a10_a_prompt_is_one_paste_that_nothing_in_it_ends() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent1", "--", "sh", "-c", SHOWS]);
    folder.wants_brackets("agent1");
    folder.ok(&["prompt", "agent1", "one\ntwo\u{1b}[201~\u{3}/quit\u{9b}"]);
    folder.has_printed("agent1", "^[[200~one^Mtwo[201~/quit^[[201~^M");
    assert_eq!(folder.ok(&["kernel", "input", "agent1", "\u{1b}[A"]), "agent1 has it\n");
    folder.has_printed("agent1", "^M^[[A");
}

#[test]
fn what_an_earlier_program_of_the_name_asked_for_is_not_what_this_one_wants() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent1", "--", "sh", "-c", SHOWS]);
    folder.wants_brackets("agent1");
    folder.ok(&["kernel", "kill", "agent1"]);
    folder.ok(&["kernel", "spawn", "agent1", "--", "sh", "-c", "stty raw -echo; echo up; exec cat -v"]);
    folder.has_printed("agent1", "up");
    folder.ok(&["prompt", "agent1", "hello"]);
    folder.has_printed("agent1", "hello^M");
    assert!(!folder.ok(&["logs", "agent1"]).contains("^[[200~"));
}

#[test]
fn a_program_that_did_not_ask_for_it_and_one_of_pipes_get_the_text_and_enter() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent1", "--", "sh", "-c", "stty raw -echo; echo up; exec cat -v"]);
    folder.has_printed("agent1", "up");
    folder.ok(&["prompt", "agent1", "hello"]);
    folder.has_printed("agent1", "hello^M");
    folder.ok(&["kernel", "spawn", "agent2", "--pipes", "--", "cat", "-v"]);
    folder.ok(&["prompt", "agent2", "hello\u{1b}"]);
    folder.has_printed("agent2", "hello\n");
}

#[test]
fn a_terminal_gets_another_size_and_its_program_is_told() {
    let folder = Folder::new();
    let line = "trap 'stty size' WINCH; echo up; while :; do sleep 0.1; done";
    folder.ok(&["kernel", "spawn", "agent1", "--", "sh", "-c", line]);
    folder.has_printed("agent1", "up");
    assert_eq!(folder.ok(&["kernel", "resize", "agent1", "33x101"]), "agent1 has 33 lines of 101 columns\n");
    folder.has_printed("agent1", "33 101");
    for size in ["33", "0x10", "10x0", "70000x1", "x"] {
        assert_eq!(folder.refused(&["kernel", "resize", "agent1", size]).0, 2, "{size}");
    }
}

#[test]
fn a_prompt_is_let_in_as_the_context_of_its_generation_says() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent1", "--no-revive", "--pipes", "--", "cat"]);
    let finalization = ["prompt", "agent1", "--finalization", "write your handoff"];
    assert_eq!(folder.refused(&finalization).0, 4, "it is healthy");
    folder.ok(&["report", "--session", "agent1", "context", "92"]);
    let (code, line) = folder.refused(&["prompt", "agent1", "work"]);
    assert!(code == 4 && line.contains("agent1 is dying"), "{line}");
    folder.ok(&finalization);
    folder.has_printed("agent1", "write your handoff");
    assert_eq!(folder.json(&["kernel", "show", "agent1"])["lifecycle"], "draining");
    assert_eq!(folder.refused(&finalization).0, 4, "one, and no other");
    folder.ok(&["report", "--session", "agent1", "turn"]);
    assert_eq!(folder.json(&["kernel", "show", "agent1"])["lifecycle"], "dead");
    assert_eq!(folder.refused(&["prompt", "agent1", "work"]).0, 4);
    let told = folder.ok(&["recall", "@lifecycle"]);
    for (line, to) in told.lines().zip(["dying", "draining", "dead"]) {
        assert!(line.contains(&format!("\"to\":\"{to}\"")), "{told}");
    }
    assert_eq!(folder.ok(&["logs", "agent1"]), "write your handoff\n", "and nothing else came through");
}

#[test]
fn the_turn_that_a_finalization_finds_under_way_is_not_the_last() {
    let folder = Folder::new();
    // Where the anchor keeps it, a successor may be there before anybody looks.
    folder.ok(&["kernel", "spawn", "agent1", "--pipes", "--no-revive", "--", "cat"]);
    folder.ok(&["report", "--session", "agent1", "context", "92"]);
    folder.ok(&["report", "--session", "agent1", "begun"]);
    folder.ok(&["prompt", "agent1", "--finalization", "write your handoff"]);
    for lifecycle in ["draining", "dead"] {
        folder.ok(&["report", "--session", "agent1", "turn"]);
        assert_eq!(folder.json(&["kernel", "show", "agent1"])["lifecycle"], lifecycle);
    }
}

#[test]
fn a_program_that_does_not_read_is_busy_and_nothing_is_typed_twice() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent1", "--pipes", "--", "sleep", "1000"]);
    let text = "x".repeat(120 * 1024);
    let full = (0..20).map(|_| folder.run(&["prompt", "agent1", &text]).status.code());
    let codes: Vec<Option<i32>> = full.collect();
    assert!(codes.contains(&Some(5)) && codes.iter().all(|code| matches!(code, Some(0 | 5))), "{codes:?}");
    assert_eq!(folder.refused(&["prompt", "agent1", "x", "--if-generation", "2"]).0, 1);
    assert_eq!(folder.refused(&["prompt", "agent9", "x"]).0, 3);
    assert_eq!(folder.refused(&["kernel", "resize", "agent1", "10x10"]).0, 4, "it has no terminal");

    folder.ok(&["kernel", "spawn", "agent2", "--pipes", "--", "cat"]);
    for _ in 0..2 {
        folder.ok(&["prompt", "agent2", "once", "--request-id", "r1"]);
    }
    folder.ok(&["prompt", "agent2", "twice"]);
    folder.has_printed("agent2", "twice");
    assert_eq!(folder.ok(&["logs", "agent2"]), "once\ntwice\n");
    folder.ok(&["kernel", "kill", "agent2"]);
    let (code, line) = folder.refused(&["prompt", "agent2", "late"]);
    assert_eq!((code, line.as_str()), (4, "ostk: agent2 does not run; nothing was typed"));
    assert_eq!(folder.json(&["kernel", "show", "agent2"])["lifecycle"], json!("healthy"));
}
