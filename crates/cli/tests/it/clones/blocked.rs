//! Clones that wait for somebody's word, and go on with it.

use netsky_disk::process::Signal;
use serde_json::Value;

use super::{Yard, said};

impl Yard {
    fn blocked(&self, generation: u64, on: &str) {
        let (code, line) = self.report("agent1", generation, &["--blocked", on]);
        assert!(code == 0 && line.starts_with("task 1 is reported blocked"), "{code} {line}");
    }

    /// What somebody says to the clone.
    fn says(&self, from: &str, text: &str, more: &[&str]) {
        let args = [&["channel", "send", "agent1", text, "--from", from], more].concat();
        let (code, line) = match from {
            "owner" => said(&self.stage.command(&args).output().expect("it starts")),
            from => said(&self.as_agent(from, 1, &args).output().expect("it starts")),
        };
        assert_eq!(code, 0, "{line}");
    }

    /// What a wait of no time says of the task.
    fn looked(&self) -> (i32, Value) {
        let output = self.stage.command(&["clone", "wait", "1", "--timeout", "1ms", "--json"]).output();
        let output = output.expect("the program starts");
        let found: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        (output.status.code().unwrap_or(-1), found["dispatches"][0].clone())
    }

    /// It is blocked, on this.
    fn waits(&self, on: &str) {
        let (code, found) = self.looked();
        assert_eq!((code, &found["verdict"], &found["text"]), (1, &"blocked".into(), &on.into()));
        assert_eq!(self.json(&["clone", "list", "--json"])["clones"][0]["is"], "blocked");
    }

    /// It is at work.
    fn goes_on(&self) {
        let (code, found) = self.looked();
        assert_eq!((code, &found["verdict"]), (5, &Value::Null), "{found}");
        assert_eq!(self.json(&["clone", "list", "--json"])["clones"][0]["is"], "working");
    }

    /// The newest report that agent0 got.
    fn newest(&self) -> String {
        let mut reports = self.mail("agent0", "report");
        reports.sort_by_key(|one| one["file"].as_str().map(str::to_owned));
        reports.last().expect("one")["id"].as_str().expect("an id").to_owned()
    }
}

/// The clone has its task.
fn briefed() -> (Yard, String) {
    let yard = Yard::new();
    let task = yard.task("one");
    yard.stage.ok(&["clone", "brief", &task]);
    (yard, task)
}

#[test]
fn who_is_blocked_goes_on_once_its_answer_has_come() {
    let (yard, task) = briefed();
    let told = || (yard.facts("clone.blocked").len(), yard.mail("agent0", "report").len());
    yard.says("owner", "not about that", &[]);
    for (at, by) in ["reply", "thread", "owner", "itself"].into_iter().enumerate() {
        // In the same words each time: an answer came between.
        yard.blocked(1, "which one?");
        yard.blocked(1, "which one?");
        assert_eq!(told(), (at + 1, at + 1), "{by}");
        yard.waits("which one?");
        yard.says("agent0", "something else", &["--thread", "another"]);
        yard.stage.ok(&["task", "tick"]);
        yard.waits("which one?");
        assert_eq!(yard.state(&task)["is"], "blocked");
        match by {
            "reply" => yard.says("agent0", "that one", &["--reply-to", &yard.newest()]),
            "thread" => yard.says("agent0", "that one", &["--thread", &task]),
            "owner" => yard.says("owner", "that one", &[]),
            _ => {
                let claim = ["task", "claim", &task];
                let (code, line) = said(&yard.as_agent("agent1", 1, &claim).output().expect("it starts"));
                assert_eq!(code, 0, "{line}");
            }
        }
        yard.goes_on();
        // Killed in the middle, or not looked at by any tick: it goes on all the same.
        if at % 2 == 0 {
            yard.killed("work.dispatch.answered", yard.stage.command(&["task", "tick"]));
            std::fs::remove_file(yard.stage.outside("hit-work.dispatch.answered")).expect("it was hit");
            yard.goes_on();
            yard.stage.ok(&["task", "tick"]);
            yard.goes_on();
            assert_eq!(
                (&yard.state(&task)["is"], &yard.state(&task)["by"]),
                (&"claimed".into(), &"agent1".into())
            );
        }
    }
    assert_eq!(yard.report("agent1", 1, &["--done", "that one"]).0, 0);
    assert_eq!(yard.looked().0, 0);
}

#[test]
fn what_is_said_once_more_after_other_words_is_told_once_more() {
    let (yard, task) = briefed();
    for (at, on) in ["this?", "that?", "this?", "that?"].into_iter().enumerate() {
        for _ in 0..2 {
            yard.blocked(1, on);
            assert_eq!(
                (yard.facts("clone.blocked").len(), yard.mail("agent0", "report").len()),
                (at + 1, at + 1)
            );
        }
        yard.waits(on);
        assert_eq!((&yard.state(&task)["is"], &yard.state(&task)["why"]), (&"blocked".into(), &on.into()));
    }
}

#[test]
fn i7_what_a_clone_waits_for_outlives_it() {
    let (yard, task) = briefed();
    yard.blocked(1, "which one?");
    yard.stage.signal(&yard.stage.program("agent1"), Signal::KILL);
    yard.stage.until("the next one", |stage| {
        let _ = stage.run(&["watchdog", "tick"]);
        (stage.agent("agent1")["generation"] == 2).then_some(())
    });
    yard.killed("work.dispatch.followed", yard.stage.command(&["task", "tick"]));
    for _ in 0..2 {
        yard.stage.ok(&["task", "tick"]);
        let state = yard.state(&task);
        assert_eq!((&state["is"], &state["why"]), (&"blocked".into(), &"which one?".into()));
        assert_eq!(state["generation"], 2);
        yard.waits("which one?");
    }
    yard.says("agent0", "that one", &["--reply-to", &yard.newest()]);
    yard.stage.ok(&["task", "tick"]);
    yard.goes_on();
    assert_eq!((&yard.state(&task)["is"], &yard.state(&task)["generation"]), (&"claimed".into(), &2.into()));
    assert_eq!(yard.mail("agent0", "report").len(), 1);
    assert_eq!(yard.report("agent1", 2, &["--done", "that one"]).0, 0);
}
