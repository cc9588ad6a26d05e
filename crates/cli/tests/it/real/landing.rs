//! A task from its making to its place on `main`, done by a real program: it reads, edits, commits and reports by its own tools,
//! mends what its gate sent back, and hears that it has landed.

use serde_json::json;

use super::{Kind, Real};
use crate::landing::{git, repository};

/// One call of a tool, as the provider reads it.
fn call(word: &str, tool: &str, input: serde_json::Value) -> String {
    format!("[[{word} {tool} {input}]]")
}

/// What commits the work in the clone and says so.
fn handed_in(word: &str, message: &str) -> String {
    let commit =
        json!({ "command": format!("git commit -q -a -m '{message}' && git log -1 --format='%an: %s'") });
    let report = json!({ "command": format!("netsky report --task 1 --done '{message}, seen in git log'") });
    call(word, "Bash", commit) + &call("next", "Bash", report)
}

impl Real {
    /// Answers what the clone asks until this comes about.
    fn allowing<T>(&self, what: &str, mut look: impl FnMut(&Real) -> Option<T>) -> T {
        self.stage.until(what, |stage| {
            let asks = stage.agent("agent1")["driven"]["asks"].clone();
            for ask in asks.as_array().into_iter().flatten() {
                // One that is over by now needs no answer.
                stage.run(&["agent", "allow", "agent1", "--ask", ask["id"].as_str().expect("an id")]);
            }
            look(self)
        })
    }

    fn facts(&self, kind: &str) -> usize {
        let layout = netsky_disk::layout::Layout::new(self.stage.home());
        netsky_ledger::facts(&layout).expect("they read").iter().filter(|fact| fact.kind == kind).count()
    }

    /// Whether the model was shown that.
    fn was_shown(&self, text: &str) -> bool {
        self.provider.asked().iter().any(|asked| asked.last.contains(text))
    }
}

#[test]
fn must_show_8_claude_does_a_task_mends_what_its_gate_sent_back_and_hears_that_it_has_landed() {
    let mend = handed_in("next", "mended once more");
    let edit = |old: &str, new: &str, file: &std::path::Path| json!({ "file_path": file, "old_string": old, "new_string": new });
    let settings = |stage: &crate::stage::Stage| {
        let again =
            call("tool", "Edit", edit("half", "whole", &stage.home().join("workspaces/1/repo/a"))) + &mend;
        // What it says is shown to the clone.
        let gate = format!("grep -q whole a && exit\ncat <<'SAID'\n{again}\nSAID\nexit 1\n");
        format!("[gate]\ncommand = {}\n", json!(["/bin/sh", "-c", gate]))
    };
    let Some(real) = Real::made(Kind::Claude, 0, |stage, _| settings(stage)) else { return };
    let (repo, clone) = (real.stage.outside("repo"), real.stage.home().join("workspaces/1/repo"));
    repository(&repo);
    let brief = format!(
        "Do as you are told. {}{}{}",
        call("tool", "Read", json!({ "file_path": clone.join("a") })),
        call("next", "Edit", edit("a 2", "half of it", &clone.join("a"))),
        handed_in("next", "mended"),
    );
    let repo_name = repo.to_str().expect("text");
    real.stage.ok(&["task", "create", "mend a", "--repo", repo_name, "--brief", &brief]);
    let told = real.stage.ok(&["clone", "brief", "1", "--runtime", "claude"]);
    assert!(told.contains("task 1 is with agent1, generation 1, which was started for it, in "), "{told}");
    real.allowing("its report", |real| (real.facts("clone.finished") == 1).then_some(()));
    let said = real.stage.ok(&["clone", "wait", "1", "--timeout", "60s"]);
    assert_eq!(said, "task 1, agent1: done: mended, seen in git log\n");
    assert_eq!(git(&clone, &["log", "-1", "--format=%an: %s"]), "agent1: mended");
    let (code, line) = real.stage.refused(&["task", "harvest", "1"]);
    assert!(code == 1 && line.contains("the gate of task 1 ended with 1"), "{code} {line}");
    // The gate's own words, which the message quotes, have it mended; its report is a second one.
    real.allowing("its second report", |real| (real.facts("clone.finished") == 2).then_some(()));
    assert!(real.was_shown("did not pass the gate"));
    let said = real.stage.ok(&["task", "harvest", "--ready"]);
    println!("{said}");
    assert!(said.starts_with("harvested task 1 sha=") && !said.contains("gate=none"), "{said}");
    assert_eq!(git(&repo, &["show", "main:a"]), "a 1\nwhole of it\na 3");
    assert_eq!(git(&repo, &["log", "-2", "--format=%an: %s"]), "agent1: mended once more\nagent1: mended");
    real.allowing("the notice", |real| real.was_shown("Task 1 has landed: mend a").then_some(()));
    let listed: serde_json::Value =
        serde_json::from_str(&real.stage.ok(&["channel", "list", "agent1", "--json"]))
            .expect("one JSON object");
    for kind in ["brief", "gate-failed", "harvest-landed"] {
        let of = |one: &&serde_json::Value| one["kind"] == kind;
        let found: Vec<_> = listed["envelopes"].as_array().expect("a list").iter().filter(of).collect();
        assert_eq!(found.len(), 1, "{kind}: {listed}");
        real.until_acked_of("agent1", found[0]["id"].as_str().expect("an id"));
    }
    real.stage.ok(&["check"]);
}
