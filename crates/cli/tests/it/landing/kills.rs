//! The verb dies at every one of its steps, and around every run of git, every sync and every rename; then it is said again.
//!
//! After that the commits stand once, the task is closed, the record, the trailers and `main` agree, and nobody was told twice.

use std::os::unix::process::ExitStatusExt;

use netsky_model::task::{How, State};

use super::{Bench, commit, git};

/// Every named step of the verb beside those of the harvest itself.
const STEPS: &[&str] = &[
    "work.landing.started",
    "work.land.noted",
    "work.land.moved",
    "work.landing.harvested",
    "work.landing.recorded",
    "work.landing.closed",
    "work.landing.told",
    "work.landing.pushed",
];

/// A task of two commits, ready, and one beside it of another agent; `main` is pushed.
fn bench() -> Bench {
    let bench = Bench::new();
    git(bench.beside("").as_path(), &["init", "-q", "--bare", "--template=", "remote.git"]);
    let text = |path: &std::path::Path| path.to_str().expect("text").to_owned();
    bench.config(&format!(
        "[repositories.own]\npath = \"{}\"\npush = \"{}\"\n",
        text(&bench.repo()),
        text(&bench.beside("remote.git"))
    ));
    let clone = bench.workspace("3");
    bench.claimed("3", "agent7");
    commit(&clone, "d", "new\n");
    commit(&clone, "a", "changed\n");
    bench.ready("3", "agent7");
    bench.workspace("4");
    bench.claimed("4", "agent8");
    bench
}

/// Lets the verb meet its fate at the nth hit of a point, says it again, and holds what there is against what there must be; false
/// if it did not get there.
fn meets(point: &str, action: &str, nth: usize) -> bool {
    let bench = bench();
    let old = bench.main();
    let fault = format!("{point}={action}@{nth}");
    let mut command = bench.command(&["task", "harvest", "3"]);
    let output = command.env("NETSKY_FAULT", &fault).env("NETSKY_FAULT_LOG", bench.beside("hits")).output();
    let output = output.expect("it starts");
    let is_hit = bench.beside("hits").exists();
    assert_eq!(is_hit && action == "kill", output.status.signal() == Some(9), "{fault}: {output:?}");
    let again = bench.run(&["task", "harvest", "3"]);
    let sha = bench.main();
    let is_said = again.out.ends_with(&format!("sha={sha} into main\n"))
        || again.out == format!("harvested task 3 sha={sha} into main gate=none\n");
    assert!(again.code == 0 && is_said, "{fault}: {again:?}");
    assert_eq!(git(&bench.repo(), &["rev-list", "--count", &format!("{old}..main")]), "2", "{fault}");
    assert_eq!(bench.times_landed("3"), 2, "{fault}: each commit once");
    let landed = State::Closed { how: How::Landed { sha: sha.clone(), main: "main".into() }, why: None };
    assert_eq!(bench.task("3").state, landed, "{fault}");
    let facts = bench.facts("harvest.landed");
    let [fact] = &facts[..] else { panic!("{fault}: {facts:?}") };
    assert_eq!(
        (fact.key.as_str(), fact.data["agent"].as_str()),
        (&*format!("3/{sha}"), Some("agent7")),
        "{fault}"
    );
    assert_eq!(
        (&fact.data["files"], fact.data["commits"].as_u64()),
        (&serde_json::json!(["a", "d"]), Some(2))
    );
    assert_eq!(bench.facts("task.landed").len(), 1, "{fault}");
    for agent in ["agent7", "agent8"] {
        assert_eq!(bench.told(agent, "harvest-landed").len(), 1, "{fault}: {agent} is told once");
    }
    assert_eq!(git(&bench.beside("remote.git"), &["rev-parse", "main"]), sha, "{fault}");
    assert_eq!(bench.facts("harvest.pushed").len(), 1, "{fault}");
    bench.assert_whole();
    bench.run(&["check"]).works();
    is_hit
}

#[test]
fn t19_i9_fm_harvest_kill_at_every_step_of_the_verb_a_repeat_does_what_is_missing_once() {
    for step in STEPS {
        assert!(meets(step, "kill", 1), "{step} is a step");
    }
}

#[test]
fn t19_i9_fm_harvest_eio_at_every_step_of_the_verb_a_repeat_does_what_is_missing_once() {
    for step in STEPS {
        assert!(meets(step, "error", 1), "{step} is a step");
    }
}

#[test]
fn t19_i9_fm_harvest_kill_around_every_durable_write_of_the_verb_a_repeat_does_what_is_missing_once() {
    for point in ["disk.write.written", "disk.write.renamed", "ledger.facts.sync"] {
        let hits = (1..120).take_while(|nth| meets(point, "kill", *nth)).count();
        assert!((3..119).contains(&hits), "{point}: {hits}");
    }
}

#[test]
fn fm_workspace_kill_before_it_is_recorded_a_repeat_records_it_once() {
    let bench = Bench::new();
    bench.task_of("3", &bench.repo());
    let mut command = bench.command(&["workspace", "create", "3", "--agent", "agent7"]);
    let output = command.env("NETSKY_FAULT", "work.workspace.made=kill").output().expect("it starts");
    assert!(output.status.signal() == Some(9) && bench.facts("workspace.created").is_empty());
    bench.run(&["workspace", "create", "3", "--agent", "agent7"]).works();
    bench.run(&["workspace", "create", "3", "--agent", "agent7"]).works();
    assert_eq!(bench.facts("workspace.created").len(), 1);
    assert!(bench.home.path().join("channels/agent/agent7").is_dir());
}
