//! Dispatches that end without a word of the clone's, and those that do not end though it dies.

use std::process::Stdio;

use netsky_disk::process::{self, Signal};

use super::{Yard, said};

#[test]
fn a_clone_that_is_stopped_has_its_task_no_more_and_stays_down_with_its_mail() {
    let yard = Yard::new();
    let task = yard.task("one");
    yard.stage.ok(&["clone", "brief", &task]);
    yard.stage.ok(&["channel", "send", "agent1", "also this", "--from", "owner", "--kind", "note"]);
    let told = yard.json(&["clone", "stop", "1", "--json"]);
    assert_eq!((&told["ended"], &told["tasks"]), (&true.into(), &serde_json::json!([task])));
    assert_eq!(yard.state(&task)["is"], "open");
    assert_eq!(yard.mail("agent1", "note")[0]["state"], "written", "its mail waits");
    assert_eq!(
        yard.mail("agent1", "brief")[0]["state"],
        "acked",
        "and what it had in hand it is not shown again"
    );
    let finished = yard.facts("clone.finished");
    assert_eq!((finished.len(), &finished[0].data["verdict"]), (1, &"stopped".into()));
    assert_eq!(yard.mail("agent0", "report")[0]["from"], "agentinfinity", "its dispatcher is told");
    for _ in 0..2 {
        yard.stage.ok(&["watchdog", "tick"]);
        yard.stage.ok(&["task", "tick"]);
    }
    let clone = yard.stage.agent("agent1");
    assert_eq!(
        (&clone["want"], &clone["pid"]),
        (&"stopped".into(), &serde_json::Value::Null),
        "no tick overrides that"
    );
    let (code, line) = yard.stage.refused(&["clone", "wait", &task]);
    assert!(code == 1 && line.contains("not done"), "{code} {line}");
    let (code, line) = yard.report("agent1", 1, &["--done", "late"]);
    assert!(code == 3, "{code} {line}");
    let told = yard.json(&["clone", "brief", &task, "--json"]);
    assert_eq!(told["agent"], "agent2", "whose mail waits would be given that first");
    assert_eq!(yard.stage.refused(&["clone", "stop", "5"]).0, 3);
}

#[test]
fn i7_a_clone_that_is_stopped_while_it_is_started_stays_down() {
    let yard = Yard::new();
    let task = yard.work("one");
    let mut brief = yard.stage.command(&["clone", "brief", &task, "--agent", "1"]);
    brief.env("NETSKY_FAULT", "work.workspace.made=stop");
    brief.stdout(Stdio::piped()).stderr(Stdio::piped());
    let brief = brief.spawn().expect("it starts");
    let id = process::identify_child(brief.id()).expect("ours");
    yard.stage.until("the workspace", |_| process::is_stopped(&id).then_some(()));
    let stopped = yard.stage.ok(&["clone", "stop", "1"]);
    process::signal(&id, Signal::CONT).expect("ours");
    let (code, line) = said(&brief.wait_with_output().expect("it ends"));
    assert!(stopped.contains("stays down") && code == 5, "{stopped}{code} {line}");
    assert_eq!(yard.stage.agent("agent1"), serde_json::Value::Null, "it never was");
    assert_eq!(yard.state(&task)["is"], "open");
    yard.stage.ok(&["clone", "brief", &task, "--agent", "1"]);
}

#[test]
fn fm_dispatch_kill_of_the_stop_a_tick_ends_what_the_clone_had_in_hand() {
    let yard = Yard::new();
    let task = yard.task("one");
    yard.stage.ok(&["clone", "brief", &task]);
    yard.killed("clone.stop.stopped", yard.stage.command(&["clone", "stop", "1"]));
    assert!(yard.is_in_hand(&task));
    yard.stage.ok(&["task", "tick"]);
    assert_eq!(yard.facts("clone.finished")[0].data["verdict"], "stopped");
    assert_eq!((&yard.state(&task)["is"], yard.is_in_hand(&task)), (&"open".into(), false));
}

#[test]
fn i7_a_clone_that_ended_for_good_has_its_task_no_more_and_one_that_comes_back_keeps_it() {
    let yard = Yard::new();
    let (task, other) = (yard.task("one"), yard.task("two"));
    yard.stage.ok(&["clone", "brief", &task]);
    dies(&yard);
    for _ in 0..2 {
        yard.stage.ok(&["task", "tick"]);
        assert_eq!(yard.state(&task)["by"], "agent1", "it is wanted, and comes back");
    }
    // Nor can anybody else have it meanwhile.
    let (code, line) =
        said(&yard.as_agent("agent2", 1, &["task", "claim", &task]).output().expect("it starts"));
    assert!(code == 5 && line.contains("claimed by agent1"), "{code} {line}");
    let (code, line) = yard.stage.refused(&["clone", "brief", &task]);
    assert!(code == 4 && line.contains("is with agent1"), "{code} {line}");
    // Whoever hands out more work has agent1 brought back, too, and that one has a task.
    assert_eq!(yard.json(&["clone", "brief", &other, "--json"])["agent"], "agent2");
    yard.stage.ok(&["task", "tick"]);
    assert_eq!(yard.state(&task)["generation"], 2);
    // Its wish is gone: nobody brings it back.
    std::fs::remove_file(yard.stage.home().join("state/desired/agent1.json")).expect("removed");
    dies(&yard);
    yard.stage.ok(&["task", "tick"]);
    let finished = yard.facts("clone.finished");
    assert_eq!((finished.len(), &finished[0].data["verdict"]), (1, &"died".into()));
    assert_eq!((&yard.state(&task)["is"], yard.is_in_hand(&task)), (&"open".into(), false));
    assert_eq!(yard.state(&other)["by"], "agent2");
}

/// agent1 is killed, and the kernel knows how it ended: of one that is still ending no tick says that it is over.
fn dies(yard: &Yard) {
    yard.stage.signal(&yard.stage.program("agent1"), Signal::KILL);
    yard.stage.until("the death of agent1", |stage| {
        let clone = stage.agent("agent1");
        (clone["state"] == "exited").then_some(())
    });
}

#[test]
fn what_is_in_hand_outlives_a_down() {
    let yard = Yard::new();
    let task = yard.task("one");
    yard.stage.ok(&["clone", "brief", &task]);
    yard.stage.ok(&["down"]);
    yard.stage.ok(&["task", "tick"]);
    assert!(yard.is_in_hand(&task), "nobody's end is for good while all are down");
    yard.stage.ok(&["up", "1", "--tick", "10m"]);
    yard.stage.ok(&["task", "tick"]);
    let state = yard.state(&task);
    assert_eq!((&state["by"], &state["generation"]), (&"agent1".into(), &2.into()));
    assert_eq!(yard.report("agent1", 2, &["--done", "after all"]).0, 0);
}

#[test]
fn a_task_that_is_over_is_in_nobodys_hands() {
    use netsky_model::task::{Event, How};
    let yard = Yard::new();
    for (how, verdict) in [(How::Dropped, "stopped"), (How::Done, "done")] {
        let task = yard.task("one");
        yard.stage.ok(&["clone", "brief", &task]);
        yard.board().act(&super::id(&task), Event::Closed { how, why: None }).expect("closed");
        yard.stage.ok(&["task", "tick"]);
        let last = yard.facts("clone.finished").pop().expect("told");
        assert_eq!((&last.data["task"], &last.data["verdict"]), (&task.as_str().into(), &verdict.into()));
        assert!(!yard.is_in_hand(&task));
        let agent = last.data["agent"].as_str().expect("a name");
        assert_eq!(yard.mail(agent, "brief")[0]["state"], "acked");
        let [note] = yard.mail(agent, "note").try_into().expect("one note");
        assert!(note["text"].as_str().is_some_and(|text| text.contains("is yours no more")), "{note}");
    }
}

#[test]
fn a_wait_is_over_in_time_and_knows_what_it_waits_for() {
    let yard = Yard::new();
    let task = yard.task("one");
    for target in [task.as_str(), "agent1", "agent9"] {
        assert_eq!(yard.stage.refused(&["clone", "wait", target]).0, 3, "{target}");
    }
    yard.stage.ok(&["clone", "brief", &task]);
    let output = yard.stage.run(&["clone", "wait", &task, "--timeout", "50ms"]);
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
    let mut waits = yard.stage.command(&["clone", "wait", "agent1", "--timeout", "80s"]);
    let waits = waits.stdout(std::process::Stdio::piped()).spawn().expect("started");
    assert_eq!(yard.report("agent1", 1, &["--done", "there"]).0, 0);
    let (code, line) = said(&waits.wait_with_output().expect("it ends"));
    assert!(code == 0 && line == "task 1, agent1: done: there\n", "{code} {line}");
}

#[test]
fn the_list_says_who_has_what_in_hand() {
    let yard = Yard::new();
    let task = yard.task("one");
    assert_eq!(yard.json(&["clone", "list", "--json"])["clones"], serde_json::json!([]));
    yard.stage.ok(&["clone", "brief", &task]);
    let list = yard.json(&["clone", "list", "--json"]);
    let clone = &list["clones"][0];
    assert_eq!(
        (&clone["agent"], &clone["task"], &clone["generation"], &clone["is"]),
        (&"agent1".into(), &"1".into(), &1.into(), &"working".into())
    );
    assert!(
        clone["since"].is_string() && clone["progress"].is_object() && clone["state"].is_string(),
        "{clone}"
    );
    yard.report("agent1", 1, &["--blocked", "which?"]);
    let told = yard.stage.ok(&["clone", "list"]);
    assert!(told.contains("agent1") && told.contains("blocked: which?"), "{told}");
    yard.report("agent1", 1, &["--done", "that"]);
    let clone = &yard.json(&["clone", "list", "--json"])["clones"][0];
    assert!(clone["task"].is_null() && clone["up"] == true, "{clone}");
}
