//! A tool call of a program that tells of it, killed at each of its steps: what nobody knows is said, and nobody repeats it.

use netsky_disk::process::{Signal, signal};
use serde_json::json;

use crate::ostk::Folder;

const OSTK: &str = env!("CARGO_BIN_EXE_ostk");

/// Tells of a call before and after it, and stops at `STEP` in its first generation. A later one looks first: what it is told
/// that nobody knows it leaves alone, what its own notes say is done; otherwise it decides anew.
const PROGRAM: &str = r#"
at() { [ "$OSTK_GENERATION.$STEP" != "1.$1" ] || { echo "at $1"; sleep 1000; }; }
tool() { at called && echo effect >>effects && at effect; }
call() {
    at before
    "$OSTK" report intent t1 --tool append >/dev/null && at intent || exit 1
    (tool) && "$OSTK" report result t1 >/dev/null && echo done >notes && at result
}
case $("$OSTK" kernel show agent1 --json) in
    *'"unknown":1'*) echo "unknown" ;;
    *) [ -s notes ] || call; echo "known" ;;
esac
exec sleep 1000
"#;

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Whom {
    Everybody,
    Program,
}

/// One call, killed at that step; how many outcomes nobody knows then, and how often its effect came.
fn killed_at(step: &str, whom: Whom) -> (u64, usize) {
    let folder = Folder::new();
    let spawn = ["kernel", "spawn", "agent1", "--pipes", "--env"];
    let (step_is, ostk_is) = (format!("STEP={step}"), format!("OSTK={OSTK}"));
    folder.ok(&[&spawn[..], &[&step_is, "--env", &ostk_is, "--", "sh", "-c", PROGRAM]].concat());
    folder.says_within("agent1", &format!("at {step}"));
    let open = || folder.json(&["lineage", "show", "agent1"])["intents"].get("t1").is_some();
    assert_eq!(open(), !matches!(step, "before" | "result"), "{step}: while its generation lives");
    assert_eq!(folder.session("agent1").get("unknown"), None, "{step}: it may still come back");
    match whom {
        Whom::Everybody => folder.take_away(&["agent1"]),
        Whom::Program => {
            assert!(signal(&folder.process("agent1", "program"), Signal::KILL).expect("ours"), "it lived");
        }
    }
    folder.until("it is back", |folder| {
        let session = folder.session("agent1");
        (&session["state"], &session["generation"]) == (&json!("active"), &json!(2))
    });
    let unknown = folder.session("agent1")["unknown"].as_u64().unwrap_or(0);
    folder.says_within("agent1", if unknown > 0 { "unknown" } else { "known" });
    assert_eq!(open(), unknown > 0, "{step}: nobody closes it by itself");
    let effects = std::fs::read_to_string(folder.dir.path().join("effects")).unwrap_or_default();
    // Whoever finishes a turn has been shown it.
    folder.report("agent1", &["turn"]);
    assert_eq!(folder.session("agent1").get("unknown"), None, "{step}");
    (unknown, effects.lines().count())
}

fn each_step(whom: Whom) {
    for (step, unknown, effects) in
        [("before", 0, 1), ("intent", 1, 0), ("called", 1, 0), ("effect", 1, 1), ("result", 0, 1)]
    {
        assert_eq!(killed_at(step, whom), (unknown, effects), "{step}, {whom:?}");
    }
}

#[test]
fn t2_a_call_killed_with_everybody_at_each_of_its_steps_is_unknown_and_not_repeated() {
    each_step(Whom::Everybody);
}

#[test]
fn t2_a_call_killed_with_its_program_at_each_of_its_steps_is_unknown_and_not_repeated() {
    each_step(Whom::Program);
}
