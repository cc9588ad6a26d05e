//! What a clone says of its task, and whose words count.

use super::{Yard, said};
use netsky_disk::process::Signal;

#[test]
fn a_report_is_of_one_task_and_the_same_words_are_the_same_report() {
    let yard = Yard::new();
    let task = yard.task("one");
    let (code, line) = yard.report("agent1", 1, &["--done", "x"]);
    assert!(code == 3 && line.contains("agent1 has no task in hand"), "{code} {line}");
    yard.stage.ok(&["clone", "brief", &task]);
    for _ in 0..2 {
        let (code, line) = yard.report("agent1", 1, &["--blocked", "which one?"]);
        assert!(code == 0, "{code} {line}");
    }
    assert_eq!((yard.facts("clone.blocked").len(), yard.mail("agent0", "report").len()), (1, 1));
    assert_eq!((&yard.state(&task)["is"], yard.is_in_hand(&task)), (&"blocked".into(), true), "no end");
    let (code, line) = yard.stage.refused(&["clone", "wait", &task]);
    assert!(code == 1 && line.contains("not done: task 1"), "{code} {line}");
    for (again, said) in [(false, "is reported done\n"), (true, "is reported done before\n")] {
        let (code, line) = yard.report("agent1", 1, &["--done", "that one", "--task", &task]);
        assert!(code == 0 && line.ends_with(said), "{again}: {code} {line}");
    }
    assert_eq!((yard.facts("clone.finished").len(), yard.mail("agent0", "report").len()), (1, 2));
    let (code, line) = yard.report("agent1", 1, &["--failed", "no"]);
    assert!(code == 3 && line.contains("no task in hand"), "other words are no repeat: {code} {line}");
    assert_eq!(yard.state(&task)["is"], "ready");
    assert_eq!(yard.stage.ok(&["clone", "wait", "agent1"]), "task 1, agent1: done: that one\n");
}

#[test]
fn a1_outside_every_session_a_report_says_for_whom_it_is() {
    let yard = Yard::new();
    let task = yard.task("one");
    yard.stage.ok(&["clone", "brief", &task]);
    let (code, line) = yard.stage.refused(&["report", "--done", "x"]);
    assert!(code == 4 && line.contains("--agent N"), "{code} {line}");
    let (code, line) = said(
        &yard.as_agent("agent2", 1, &["report", "--done", "x", "--agent", "1"]).output().expect("it starts"),
    );
    assert!(code == 4 && line.contains("this session is agent2"), "{code} {line}");
    let (code, line) = yard.report("agent2", 1, &["--done", "x", "--task", &task]);
    assert!(code == 3 && line.contains("agent2 has no task 1 in hand"), "{code} {line}");
    for text in ["", "  \n", &"x".repeat(9000)] {
        assert_eq!(yard.report("agent1", 1, &["--done", text]).0, 2);
    }
    assert_eq!(
        yard.stage.ok(&["report", "--failed", "it cannot be", "--agent", "1"]),
        "task 1 is reported failed\n"
    );
    assert_eq!(yard.facts("clone.finished")[0].data["verdict"], "failed");
    assert_eq!(yard.state(&task)["is"], "blocked", "somebody has to look at it");
    yard.stage.ok(&["clone", "brief", &task, "--agent", "2"]);
    let state = yard.state(&task);
    assert_eq!((&state["is"], &state["by"]), (&"claimed".into(), &"agent2".into()), "it is handed out anew");
}

#[test]
fn i7_a_brief_outlives_its_reader_and_the_claim_follows_it() {
    let script = "netsky session up; [ $NETSKY_AGENT = agent0 ] || netsky channel wait $NETSKY_AGENT; \
        netsky channel drain $NETSKY_AGENT; touch \"$NETSKY_HOME/../took-$NETSKY_AGENT-$NETSKY_GENERATION\"; exec sleep 100000";
    for is_ticked in [true, false] {
        let yard = Yard::with(script, "");
        let task = yard.task("one");
        let told = yard.json(&["clone", "brief", &task, "--json"]);
        let took = |generation: u64| yard.stage.outside(&format!("took-agent1-{generation}"));
        yard.stage.until("the first reading", |_| took(1).exists().then_some(()));
        yard.stage.signal(&yard.stage.program("agent1"), Signal::KILL);
        yard.stage.until("the second reading", |stage| {
            let _ = stage.run(&["watchdog", "tick"]);
            took(2).exists().then_some(())
        });
        let brief = &yard.mail("agent1", "brief")[0];
        assert_eq!((&brief["id"], &brief["attempt"]), (&told["envelope"], &2.into()), "the same brief again");
        if is_ticked {
            yard.stage.ok(&["task", "tick"]);
            assert_eq!(yard.state(&task)["generation"], 2, "the claim is the successor's");
        }
        let (code, line) = yard.report("agent1", 1, &["--done", "late words"]);
        assert!(code == 4 && line.contains("generation 1 has no say in it any more"), "{code} {line}");
        assert!(yard.is_in_hand(&task) && yard.facts("clone.finished").is_empty());
        let (code, line) = yard.report("agent1", 2, &["--done", "here it is"]);
        assert_eq!(code, 0, "{line}");
        let finished = &yard.facts("clone.finished")[0];
        assert_eq!((&finished.data["generation"], &finished.data["dispatch"]), (&2.into(), &told["id"]));
        assert_eq!(
            (&yard.state(&task)["is"], &yard.state(&task)["generation"]),
            (&"ready".into(), &2.into())
        );
        assert_eq!(yard.facts("clone.briefed").len(), 1, "one dispatch");
    }
}
