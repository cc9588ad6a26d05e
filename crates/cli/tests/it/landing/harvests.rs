//! One harvest: what is printed, recorded and told, and how it ends when it cannot land.

use std::os::unix::fs::MetadataExt;

use netsky_model::envelope::Envelope;
use netsky_model::id::AgentId;
use netsky_model::task::{Actor, Draft, Event, How, State, Title};
use netsky_work::task::Board;

use super::{Bench, commit, git, id};

fn texts(told: &[Envelope]) -> String {
    told.iter().map(|one| one.text.as_str()).collect::<Vec<_>>().join("\n---\n")
}

/// A task of two commits by agent7, ready.
fn worked() -> Bench {
    let bench = Bench::new();
    bench.task_of("3", &bench.repo());
    bench.claimed("3", "agent7");
    let clone = bench.clone_of("3");
    commit(&clone, "d", "new\n");
    commit(&clone, "a", "a 1\nchanged\n");
    bench.ready("3", "agent7");
    bench
}

#[test]
fn t19_from_a_task_to_main_and_the_record_says_it() {
    let bench = worked();
    let base = bench.main();
    let out = bench.run(&["task", "harvest", "3"]).works().to_owned();
    let sha = bench.main();
    assert_eq!(out, format!("harvested task 3 sha={sha} into main gate=none\n"));
    assert_eq!(bench.times_landed("3"), 2);
    bench.assert_whole();
    let landed = State::Closed { how: How::Landed { sha: sha.clone(), main: "main".into() }, why: None };
    assert_eq!(bench.task("3").state, landed);
    let started = bench.facts("harvest.started");
    let [fact] = &bench.facts("harvest.landed")[..] else { panic!("one landing") };
    assert!(started.len() == 1 && started[0].seq < fact.seq);
    assert_eq!(fact.key, format!("3/{sha}"));
    for (key, value) in [
        ("task", "3"),
        ("title", "work on 3"),
        ("agent", "agent7"),
        ("by", "owner"),
        ("branch", "task/3"),
        ("main", "main"),
        ("sha", &sha),
        ("base", &base),
        ("from", &base),
        ("gate", "none"),
    ] {
        assert_eq!(fact.data[key].as_str(), Some(value), "{key}");
    }
    assert_eq!(fact.data["files"], serde_json::json!(["a", "d"]));
    let asked = bench.json(&["query", "SELECT event, task, sha, gate FROM harvest_events ORDER BY seq"]);
    let rows = serde_json::json!([
        { "event": "harvest.started", "task": "3", "sha": null, "gate": null },
        { "event": "harvest.landed", "task": "3", "sha": sha, "gate": "none" },
    ]);
    assert_eq!(asked["rows"], rows);
    let asked =
        bench.json(&["query", "SELECT branch, agent, base, removed_at FROM workspaces WHERE task = '3'"]);
    assert_eq!(
        asked["rows"],
        serde_json::json!([{ "branch": "task/3", "agent": "agent7", "base": base, "removed_at": null }])
    );
}

#[test]
fn t19_whom_it_concerns_is_told_once_and_what_of_it_is_its_own() {
    let bench = worked();
    let base = bench.main();
    for task in ["4", "5"] {
        bench.workspace(task);
        bench.claimed(task, "agent8");
    }
    commit(&bench.clone_of("4"), "a", "a 1\nchanged otherwise\n");
    // Nobody has claimed it, but this one was said to work there.
    bench.task_of("6", &bench.repo());
    bench.run(&["workspace", "create", "6", "--agent", "agent9"]).works();
    // Of another repository, and of nobody.
    let other = bench.beside("other");
    super::repository(&other);
    bench.task_of("8", &other);
    bench.claimed("8", "agent10");
    bench.workspace("7");
    bench.run(&["task", "harvest", "3"]).works();
    let sha = bench.main();
    let own = bench.told("agent7", "harvest-landed");
    assert_eq!(own.len(), 1);
    assert_eq!((own[0].from.as_str(), own[0].thread.as_deref()), ("agent0", Some("3")));
    let lines = [
        "Task 3 has landed: work on 3".to_owned(),
        "branch: task/3".to_owned(),
        format!("sha: {sha} into main"),
        format!("base: {base}"),
        "files: a, d".to_owned(),
    ];
    for line in lines {
        assert!(own[0].text.lines().any(|told| told == line), "{line}: {}", own[0].text);
    }
    let beside = bench.told("agent8", "harvest-landed");
    assert_eq!(beside.len(), 1, "once, for both tasks: {}", texts(&beside));
    assert!(beside[0].text.contains("files: a, d\nYou work on the same repository.\n"), "{}", beside[0].text);
    assert!(beside[0].text.contains("task/4 (task 4): changed there too, so it may need a rebase: a\n"));
    assert!(beside[0].text.ends_with("task/5 (task 5): none of these files is changed there"));
    assert_eq!(bench.told("agent9", "harvest-landed").len(), 1);
    assert_eq!(bench.told("agent10", "harvest-landed").len(), 0);
    // A repeat changes nothing and tells nobody twice.
    let again = bench.run(&["task", "harvest", "3"]).works().to_owned();
    assert_eq!(again, format!("task 3 has landed before: sha={sha} into main\n"));
    assert_eq!((bench.main(), bench.facts("harvest.landed").len()), (sha, 1));
    assert_eq!((bench.told("agent7", "harvest-landed").len(), bench.facts("harvest.started").len()), (1, 1));
    assert_eq!(bench.told("agent8", "harvest-landed").len(), 1);
}

#[test]
fn agent0_harvests_and_who_wanted_it_is_told() {
    let bench = Bench::new();
    let clone = bench.workspace("3");
    bench.claimed("3", "agent7");
    commit(&clone, "d", "new\n");
    bench.inside("agent0", &["task", "harvest", "3"]).works();
    assert_eq!(bench.told("agent0", "harvest-landed").len(), 0, "it sees what it does");
    assert_eq!(bench.told("agent7", "harvest-landed").len(), 1);
    bench
        .inside("agent0", &["task", "harvest", "3", "--allow-gate-change"])
        .fails_with(4, &["a change of what judges work is for the owner"]);
}

#[test]
fn a3_agent0_is_told_of_what_it_asked_for_and_not_by_the_owner() {
    let bench = Bench::new();
    let board = Board::new(&bench.layout(), Actor::Keeper(AgentId::root().into()));
    let title = Title::try_from("what agent0 wants".to_owned()).expect("a title");
    let repo = Some(bench.repo().to_str().expect("text").to_owned());
    board.create(Draft { id: Some(id("3")), repo, ..Draft::new(title) }).expect("a task");
    bench.run(&["workspace", "create", "3"]).works();
    commit(&bench.clone_of("3"), "d", "new\n");
    bench.run(&["task", "harvest", "3"]).works();
    let told = bench.told("agent0", "harvest-landed");
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].from.as_str(), told[0].trust), ("agentinfinity", None));
    assert!(told[0].text.ends_with("You asked for it."), "{}", told[0].text);
}

#[test]
fn a_dry_run_changes_records_and_tells_nothing() {
    let bench = Bench::new();
    let clone = bench.workspace("3");
    bench.claimed("3", "agent7");
    commit(&clone, "a", "of the agent\n");
    let main = bench.main();
    let facts = netsky_ledger::facts(&bench.layout()).expect("the record reads").len();
    let out = bench.run(&["task", "harvest", "3", "--dry-run"]).works().to_owned();
    assert_eq!(out, "task 3 would land: 1 commit into main gate=none; nothing was changed\n");
    assert_eq!(bench.main(), main);
    commit(&bench.repo(), "a", "of the owner\n");
    bench.run(&["task", "harvest", "3", "--dry-run"]).fails_with(1, &["task 3 conflicts with main"]);
    assert_eq!(netsky_ledger::facts(&bench.layout()).expect("the record reads").len(), facts);
    assert_eq!(bench.told("agent7", "harvest-conflict").len(), 0);
}

#[test]
fn t19_a_conflict_stops_says_where_keeps_everything_and_tells_the_clone() {
    let bench = Bench::new();
    let clone = bench.workspace("3");
    bench.claimed("3", "agent7");
    let bad = commit(&clone, "a", "of the agent\n");
    commit(&bench.repo(), "a", "of the owner\n");
    let main = bench.main();
    bench.run(&["task", "harvest", "3"]).fails(
        1,
        &format!(
            "task 3 conflicts with main: commit {bad} and a; nothing was changed, and all is kept; agent7 is told"
        ),
    );
    assert_eq!((bench.main(), git(&clone, &["rev-parse", "HEAD"])), (main, bad.clone()));
    let told = bench.told("agent7", "harvest-conflict");
    assert!(
        told.len() == 1 && told[0].text.contains(&format!("commit: {bad}\nfiles: a\n")),
        "{}",
        texts(&told)
    );
    let [fact] = &bench.facts("harvest.conflict")[..] else { panic!("one") };
    assert_eq!((fact.data["commit"].as_str(), &fact.data["files"]), (Some(&*bad), &serde_json::json!(["a"])));
    assert!(!bench.is_closed("3"));
    // The clone brings its branch up to date, and it lands.
    git(&clone, &["fetch", "-q", "origin", "main"]);
    git(&clone, &["rebase", "-q", "-X", "theirs", "FETCH_HEAD"]);
    bench.run(&["task", "harvest", "3"]).works();
    assert!(bench.is_closed("3"));
    bench.assert_whole();
}

#[test]
fn a22_a_gate_that_fails_is_recorded_and_the_clone_gets_its_last_lines() {
    let bench = Bench::new();
    std::fs::create_dir(bench.repo().join("bin")).expect("made");
    let gate = "#!/bin/sh\ni=0; while [ $i -lt 50 ]; do i=$((i+1)); echo line $i; done\ntest ! -e bad\n";
    std::fs::write(bench.repo().join("bin/check"), gate).expect("written");
    git(&bench.repo(), &["add", "bin"]);
    git(&bench.repo(), &["update-index", "--chmod=+x", "bin/check"]);
    git(&bench.repo(), &["commit", "-qm", "gate"]);
    git(&bench.repo(), &["reset", "-q", "--hard"]);
    let clone = bench.workspace("3");
    bench.claimed("3", "agent7");
    commit(&clone, "bad", "x\n");
    let main = bench.main();
    let said = bench.run(&["task", "harvest", "3"]);
    said.fails_with(
        1,
        &["the gate of task 3 ended with 1: $HOME/state/harvest/3.gate.log", "agent7 is told"],
    );
    assert_eq!(bench.main(), main);
    let told = bench.told("agent7", "gate-failed");
    assert!(
        told.len() == 1 && told[0].text.contains("line 50\n") || told[0].text.ends_with("line 50"),
        "{}",
        texts(&told)
    );
    assert!(told[0].text.contains("line 31\n") && !told[0].text.contains("line 30\n"), "{}", texts(&told));
    let [fact] = &bench.facts("gate.failed")[..] else { panic!("one") };
    assert_eq!((fact.data["status"].as_i64(), fact.data["agent"].as_str()), (Some(1), Some("agent7")));
    git(&clone, &["rm", "-q", "bad"]);
    git(&clone, &["commit", "-qm", "mended"]);
    commit(&clone, "good", "x\n");
    let dry = bench.run(&["task", "harvest", "3", "--dry-run"]).works().to_owned();
    assert!(dry.starts_with("task 3 would land: 3 commits into main gate=") && bench.main() == main, "{dry}");
    assert!(!dry.contains("gate=none"), "{dry}");
    let out = bench.run(&["task", "harvest", "3", "--squash"]).works().to_owned();
    assert!(out.contains(" into main gate=") && !out.contains("gate=none"), "{out}");
    assert_eq!(bench.times_landed("3"), 1);
    bench.assert_whole();
}

#[test]
fn a22_a_branch_that_changes_the_gate_needs_the_owner() {
    let bench = Bench::new();
    bench.config("[gate]\ncommand = [\"/bin/true\"]\nguards = [\"a\"]\n");
    let clone = bench.workspace("3");
    commit(&clone, "a", "changed\n");
    bench.run(&["task", "harvest", "3"]).fails_with(
        4,
        &["task 3 is refused: the branch touches a, which judges it: the owner has to allow it (`netsky task harvest 3 --allow-gate-change`)"],
    );
    assert_eq!(bench.facts("harvest.refused").len(), 1);
    bench.run(&["task", "harvest", "3", "--allow-gate-change"]).works();
    // A gate that is not understood is not left out.
    let clone = bench.workspace("4");
    commit(&clone, "b", "changed\n");
    bench.config("[gate]\ncommand = \"true\"\n");
    let main = bench.main();
    bench.run(&["task", "harvest", "4"]).fails_with(2, &["config.toml", "line 2"]);
    assert_eq!(bench.main(), main);
    bench.config("[gate]\ncommand = []\n");
    assert!(bench.run(&["task", "harvest", "4"]).works().ends_with("gate=none\n"));
}

#[test]
fn what_cannot_land_is_said_in_one_line_with_its_code() {
    let bench = Bench::new();
    bench.run(&["task", "harvest", "9"]).fails_with(3, &["there is no task 9"]);
    bench.task_of("1", &bench.repo());
    bench.run(&["task", "harvest", "1"]).fails_with(3, &["task 1 has no workspace", "workspace create 1"]);
    bench.run(&["task", "create", "words", "--id", "w"]).works();
    bench.run(&["task", "harvest", "w"]).fails_with(2, &["task w names no repository", "task close w"]);
    bench.workspace("2");
    bench
        .run(&["task", "harvest", "2"])
        .fails(1, "task 2 adds nothing to main by its branch task/2; nothing was changed");
    let clone = bench.workspace("3");
    commit(&clone, "d", "new\n");
    std::fs::write(bench.repo().join("a"), "in the middle of it\n").expect("written");
    bench.run(&["task", "harvest", "3"]).fails(
        1,
        "main is checked out with changes that are not committed: a; nothing was changed; commit or stash that (what git does not know: move it away; what is under way: end it), and repeat",
    );
    git(&bench.repo(), &["checkout", "-q", "--", "a"]);
    bench.board().act(&id("3"), Event::Closed { how: How::Dropped, why: None }).expect("closed");
    bench.run(&["task", "harvest", "3"]).fails_with(4, &["task 3 is closed", "task reopen 3"]);
    bench.board().act(&id("3"), Event::Reopened { why: "again".into() }).expect("reopened");
    // What was landed by hand is seen to have landed: by its patch, and as it is.
    commit(&bench.repo(), "b", "of the owner\n");
    git(&bench.repo(), &["fetch", "-q", clone.to_str().expect("text"), "task/3"]);
    git(&bench.repo(), &["cherry-pick", "FETCH_HEAD"]);
    let out = bench.run(&["task", "harvest", "3"]).works().to_owned();
    assert_eq!(out, format!("task 3 has landed before: sha={} into main\n", bench.main()));
    assert!(bench.is_closed("3"));
    commit(&bench.workspace("6"), "f", "new\n");
    git(&bench.repo(), &["fetch", "-q", bench.clone_of("6").to_str().expect("text"), "task/6"]);
    git(&bench.repo(), &["merge", "-q", "--no-ff", "-m", "by hand", "FETCH_HEAD"]);
    assert!(bench.run(&["task", "harvest", "6"]).works().starts_with("task 6 has landed before: sha="));
    let clone = bench.workspace("4");
    commit(&clone, "e", "new\n");
    std::fs::remove_dir_all(&clone).expect("removed by hand");
    bench.run(&["task", "harvest", "4"]).fails_with(4, &["task 4 is refused", "is no folder of its own"]);
    let clone = bench.workspace("5");
    commit(&clone, "e", "new\n");
    std::fs::rename(bench.repo(), bench.beside("moved")).expect("moved");
    bench.run(&["task", "harvest", "5"]).fails_with(3, &["there is no git repository in"]);
    assert_eq!(bench.facts("harvest.refused").len(), 4, "each is recorded that began");
}

#[test]
fn what_is_committed_after_it_has_landed_is_said_and_lands_once_the_task_is_taken_up_again() {
    let bench = Bench::new();
    let clone = bench.workspace("3");
    commit(&clone, "d", "new\n");
    bench.run(&["task", "harvest", "3"]).works();
    let main = bench.main();
    commit(&clone, "e", "more\n");
    let out = bench.run(&["task", "harvest", "3"]).works().to_owned();
    let more = "its branch has more since: `netsky task reopen 3` takes it up again";
    assert_eq!(out, format!("task 3 has landed before: sha={main} into main; {more}\n"));
    assert_eq!(bench.main(), main);
    bench.run(&["task", "reopen", "3", "more"]).works();
    assert!(bench.run(&["task", "harvest", "3"]).works().starts_with("harvested task 3 sha="));
    assert_eq!((bench.times_landed("3"), bench.facts("harvest.landed").len()), (2, 2));
    bench.assert_whole();
}

#[test]
fn work_that_was_cloned_from_an_address_lands_in_the_repository_that_is_named_for_it() {
    let bench = Bench::new();
    let clone = bench.workspace("3");
    commit(&clone, "d", "new\n");
    // Nothing is fetched from an address here.
    let known = bench.home.path().join("workspaces/3/workspace.json");
    let text = std::fs::read_to_string(&known).expect("read");
    let repo = bench.repo().to_str().expect("text").to_owned();
    std::fs::write(&known, text.replace(&repo, "https://example.org/app")).expect("written");
    bench
        .run(&["task", "harvest", "3"])
        .fails_with(1, &["https://example.org/app: ", "[repositories.<name>]"]);
    bench.config(&format!("[repositories.app]\npath = \"{repo}\"\nurl = \"https://example.org/app\"\n"));
    bench.run(&["task", "harvest", "3"]).works();
    assert_eq!(bench.times_landed("3"), 1);
}

#[test]
fn main_is_pushed_where_that_is_configured_and_a_failed_push_undoes_nothing() {
    let bench = Bench::new();
    let remote = bench.beside("remote.git");
    git(bench.beside("").as_path(), &["init", "-q", "--bare", "--template=", "remote.git"]);
    let text = |path: &std::path::Path| path.to_str().expect("text").to_owned();
    git(&bench.repo(), &["remote", "add", "upstream", &text(&bench.beside("nowhere.git"))]);
    bench.config(&format!("[repositories.own]\npath = \"{}\"\npush = \"upstream\"\n", text(&bench.repo())));
    let clone = bench.workspace("3");
    commit(&clone, "d", "new\n");
    let said = bench.run(&["task", "harvest", "3"]);
    let sha = bench.main();
    assert_eq!(
        (said.code, said.out.as_str()),
        (6, &*format!("harvested task 3 sha={sha} into main gate=none\n"))
    );
    assert!(said.err.contains("main is not pushed to upstream: git push ended with"), "{}", said.err);
    assert!(said.err.contains("`netsky task harvest 3` does what is missing"), "{}", said.err);
    assert!(bench.is_closed("3"));
    git(&bench.repo(), &["remote", "set-url", "upstream", &text(&remote)]);
    bench.run(&["task", "harvest", "3"]).works();
    assert_eq!(git(&remote, &["rev-parse", "main"]), sha);
    assert_eq!(bench.facts("harvest.pushed").len(), 1);
    bench.run(&["task", "harvest", "3"]).works();
    assert_eq!(bench.facts("harvest.pushed").len(), 1);
}

#[test]
fn files_that_land_in_a_checkout_have_the_modes_that_their_owner_gives_files() {
    let bench = Bench::new();
    let clone = bench.workspace("3");
    commit(&clone, "d", "new\n");
    bench.run(&["task", "harvest", "3"]).works();
    let mode = |name: &str| std::fs::metadata(bench.repo().join(name)).expect("there").mode() & 0o777;
    std::fs::write(bench.repo().join("own"), "").expect("written");
    assert_eq!((mode("d"), mode(".git/index")), (mode("own"), mode("own")));
}
