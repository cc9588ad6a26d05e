//! Workspaces made, shown, removed.

use netsky_model::task::{Event, How};

use super::{Bench, commit, git, id, repository};
use crate::screen::netsky;

#[test]
fn a_workspace_is_a_fresh_clone_on_its_own_branch_and_its_agent_is_known() {
    let bench = Bench::new();
    bench.task_of("3", &bench.repo());
    let base = bench.main();
    let out = bench.run(&["workspace", "create", "3", "--agent", "agent7"]).works().to_owned();
    let repo = bench.repo().canonicalize().expect("there");
    assert_eq!(
        out,
        format!(
            "the workspace of task 3 is made: $HOME/workspaces/3/repo on task/3 from {base} of {}\n",
            repo.display()
        )
    );
    let clone = bench.clone_of("3");
    assert_eq!(git(&clone, &["status", "--porcelain", "--branch"]), "## task/3");
    assert_eq!(git(&clone, &["config", "user.name"]), "agent7");
    std::fs::write(clone.join(".git/info/exclude"), "build/\n").expect("its folder is there");
    bench.run(&["channel", "send", "agent7", "x", "--from", "owner"]).works();
    let facts = bench.facts("workspace.created");
    assert_eq!((facts.len(), facts[0].key.as_str(), facts[0].data["base"].as_str()), (1, "3", Some(&*base)));
    // A repeat finds it, and tells nothing twice.
    let again = bench.run(&["workspace", "create", "3"]).works().to_owned();
    assert!(again.contains("has been there already"), "{again}");
    assert_eq!(bench.facts("workspace.created").len(), 1);
    let listed = bench.json(&["workspace", "list"]);
    let one = &listed["workspaces"][0];
    assert_eq!(
        (one["id"].as_str(), one["branch"].as_str(), one["landed"].as_bool()),
        (Some("3"), Some("task/3"), Some(false))
    );
    assert!(one["bytes"].as_u64().expect("a size") > 10_000);
    assert!(bench.run(&["workspace", "list"]).works().contains("KiB"));
    // Deeper than any path that there is: half of it is moved into the other.
    let half = |begin: &str| {
        let deep: std::path::PathBuf =
            [clone.join(begin)].into_iter().chain(vec!["x".repeat(200).into(); 15]).collect();
        std::fs::create_dir_all(&deep).expect("made");
        deep
    };
    let (above, _below) = (half("above"), half("below"));
    std::fs::rename(clone.join("below"), above.join("below")).expect("moved");
    assert!(bench.run(&["workspace", "list"]).works().contains("not to be counted"));
    let shown = bench.json(&["workspace", "show", "3"]);
    assert!(shown["bytes"].is_null());
    assert_eq!((shown["base"].as_str(), shown["tip"].as_str()), (Some(&*base), Some(&*base)));
}

#[test]
fn i9_a_workspace_goes_when_it_has_landed_or_by_force() {
    let bench = Bench::new();
    let clone = bench.workspace("3");
    bench.run(&["workspace", "remove", "3"]).fails(
        4,
        "the workspace of task 3 has what has not landed: its branch; what is on its branch lands by `netsky task harvest 3` (of a closed task behind `netsky task reopen 3`); `git fetch FOLDER SHA:refs/kept/NAME` in the owner's repository keeps a commit there (FOLDER: `netsky workspace show 3`, or the repository that is named); `netsky workspace remove 3 --force` drops all of it",
    );
    commit(&clone, "d", "new\n");
    bench.run(&["task", "harvest", "3"]).works();
    let more = commit(&clone, "e", "more\n");
    bench.run(&["workspace", "remove", "3"]).fails_with(4, &["has what has not landed"]);
    assert_eq!(bench.json(&["workspace", "gc"])["removed"].as_array().map(Vec::len), Some(0));
    git(&clone, &["reset", "-q", "--hard", "HEAD^"]);
    assert_ne!(git(&clone, &["rev-parse", "HEAD"]), more);
    assert_eq!(bench.json(&["workspace", "list"])["workspaces"][0]["landed"], true);
    bench.run(&["workspace", "remove", "3"]).works();
    assert!(!bench.home.path().join("workspaces/3").exists());
    assert_eq!(bench.facts("workspace.removed").len(), 1);
    bench.run(&["workspace", "remove", "3"]).fails_with(3, &["task 3 has no workspace"]);
    bench.workspace("4");
    bench.run(&["workspace", "remove", "4", "--force"]).works();
    let clone = bench.workspace("5");
    commit(&clone, "f", "new\n");
    bench.run(&["task", "harvest", "5"]).works();
    let swept = bench.json(&["workspace", "gc"]);
    assert_eq!((swept["removed"][0].as_str(), swept["mirrors"].as_u64()), (Some("5"), Some(1)));
}

#[test]
fn what_no_workspace_can_be_made_of_is_refused_in_a_line() {
    let bench = Bench::new();
    bench.run(&["workspace", "create", "9"]).fails_with(3, &["there is no task 9"]);
    bench.run(&["workspace", "show", "9"]).fails_with(3, &["task 9 has no workspace"]);
    bench.run(&["workspace", "create", "../x"]).fails_with(2, &["task id"]);
    bench.task_of("1", &bench.beside("nowhere"));
    bench.run(&["workspace", "create", "1"]).fails_with(3, &["there is no git repository in"]);
    let title = netsky_model::task::Title::try_from("homeless".to_owned()).expect("a title");
    let draft = netsky_model::task::Draft { id: Some(id("2")), ..netsky_model::task::Draft::new(title) };
    bench.board().create(draft).expect("a task");
    bench.run(&["workspace", "create", "2"]).fails_with(2, &["task 2 names no repository", "--repo PATH"]);
    bench.task_of("3", &bench.repo());
    bench.board().act(&id("3"), Event::Closed { how: How::Dropped, why: None }).expect("closed");
    bench.run(&["workspace", "create", "3"]).fails_with(4, &["task 3 is closed", "reopen"]);
    bench.config("[gates]\n");
    bench.run(&["workspace", "create", "1"]).fails_with(2, &["unknown field `gates`"]);
    bench.config("[repositories.x]\npath = \"x\"\n");
    bench.run(&["workspace", "list"]).fails_with(2, &["[repositories.x] path is not absolute"]);
}

#[test]
fn a16_only_the_owner_and_agent0_make_and_remove_workspaces() {
    let bench = Bench::new();
    bench.task_of("3", &bench.repo());
    for args in [
        &["workspace", "create", "3"][..],
        &["workspace", "remove", "3", "--force"],
        &["workspace", "gc"],
        &["task", "harvest", "3"],
    ] {
        bench.inside("agent7", args).fails_with(4, &["is for the owner and agent0: this session is agent7"]);
    }
    bench.inside("agent0", &["workspace", "create", "3"]).works();
    bench.inside("agent7", &["workspace", "list"]).works();
}

#[test]
fn a_repository_without_a_main_lands_on_the_branch_that_its_head_names() {
    let bench = Bench::new();
    git(&bench.repo(), &["branch", "-m", "main", "master"]);
    commit(&bench.workspace("3"), "d", "new\n");
    let out = bench.run(&["task", "harvest", "3"]).works().to_owned();
    let tip = git(&bench.repo(), &["rev-parse", "master"]);
    assert!(out.starts_with(&format!("harvested task 3 sha={tip} into master")), "{out}");
    // Where there is one, it is main, whatever is checked out.
    git(&bench.repo(), &["branch", "main"]);
    bench.workspace("4");
    assert_eq!(bench.json(&["workspace", "show", "4"])["main"], "main");
    git(&bench.repo(), &["checkout", "-q", "--detach"]);
    git(&bench.repo(), &["branch", "-D", "main"]);
    bench.task_of("5", &bench.repo());
    bench
        .run(&["workspace", "create", "5"])
        .fails_with(1, &["it has no refs/heads/main", "netsky task update 5 --main"]);
}

#[test]
fn several_repositories_each_with_its_own_branch_and_gate() {
    let bench = Bench::new();
    let other = bench.beside("other");
    repository(&other);
    git(&other, &["branch", "-m", "main", "trunk"]);
    let text = |path: &std::path::Path| path.to_str().expect("text").to_owned();
    bench.config(&format!(
        "[gate]\ncommand = [\"/bin/false\"]\n[repositories.other]\npath = \"{}\"\nmain = \"trunk\"\ngate.command = [\"/bin/true\"]\n",
        text(&other)
    ));
    bench.task_of("1", &bench.repo());
    bench.task_of("2", &other);
    for task in ["1", "2"] {
        bench.run(&["workspace", "create", task]).works();
        commit(&bench.clone_of(task), "d", "new\n");
    }
    bench.run(&["task", "harvest", "1"]).fails_with(1, &["the gate of task 1 ended with 1"]);
    let out = bench.run(&["task", "harvest", "2"]).works().to_owned();
    let trunk = git(&other, &["rev-parse", "trunk"]);
    assert!(out.starts_with(&format!("harvested task 2 sha={trunk} into trunk gate=")), "{out}");
    assert!(!out.contains("gate=none"), "{out}");
}

#[test]
fn a25_i9_a_home_that_was_moved_knows_what_has_landed_and_what_keeps_a_workspace() {
    let bench = Bench::new();
    let clone = bench.workspace("3");
    commit(&clone, "d", "new\n");
    bench.run(&["task", "harvest", "3"]).works();
    let store = clone.with_file_name("store");
    let dir = format!("--separate-git-dir={}", store.display());
    git(&clone, &["init", "-q", "--template=", &dir, "inner"]);
    commit(&clone.join("inner"), "own", "own\n");
    let moved = bench.home.copy();
    std::fs::remove_dir_all(bench.home.path()).expect("ours");
    netsky(&moved, &["home", "adopt"]).works();
    let told = netsky(&moved, &["workspace", "gc"]).works().to_owned();
    assert!(told.contains("/store is a repository of its own: refs/heads/"), "{told}");
    assert!(told.contains("`netsky workspace remove TASK --force` drops one"), "{told}");
    std::fs::remove_dir_all(moved.path().join("workspaces/3/store")).expect("there");
    let told = netsky(&moved, &["workspace", "gc"]).works().to_owned();
    assert!(told.starts_with("removed 1 workspaces that have landed"), "{told}");
}

#[test]
fn i9_repositories_within_a_workspace_go_by_a_word_of_their_own() {
    let bench = Bench::new();
    for id in ["3", "4"] {
        let clone = bench.workspace(id);
        commit(&clone, id, "new\n");
        git(&clone, &["init", "-q", "--template=", "dep"]);
        commit(&clone.join("dep"), "own", "own\n");
        bench.run(&["task", "harvest", id]).works();
    }
    let what = "repo/dep/.git is a repository of its own: refs/heads/";
    bench.run(&["workspace", "remove", "3"]).fails_with(4, &[what, "`--nested` lets such repositories go"]);
    bench.run(&["workspace", "remove", "3", "--nested"]).works();
    let told = bench.run(&["workspace", "gc"]).works().to_owned();
    assert!(told.contains("the workspace of task 4 stays: ") && told.contains(what), "{told}");
    let told = bench.run(&["workspace", "gc", "--nested"]).works().to_owned();
    assert!(told.starts_with("removed 1 workspaces that have landed"), "{told}");
    assert!(!bench.clone_of("3").exists() && !bench.clone_of("4").exists());
    let removed = bench.facts("workspace.removed");
    assert!(
        removed.iter().all(|fact| fact.data["nested"] == true && fact.data["forced"] == false),
        "{removed:?}"
    );
}

#[test]
fn i9_a_sweep_says_what_it_did_also_where_something_failed() {
    let bench = Bench::new();
    for id in ["3", "4"] {
        commit(&bench.workspace(id), id, "new\n");
        bench.run(&["task", "harvest", id]).works();
    }
    // Nobody deletes a folder that does not say whose it is.
    std::fs::remove_file(bench.home.path().join("workspaces/3/.throwaway")).expect("there");
    let said = bench.run(&["workspace", "gc"]);
    assert!(said.code == 1 && said.err.contains("it was not made to be thrown away"), "{said:?}");
    assert!(said.out.starts_with("removed 1 workspaces that have landed"), "{said:?}");
    assert!(!bench.home.path().join("workspaces/4").exists());
}
