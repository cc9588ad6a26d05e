//! An owner who checks out another branch, or rebases `main`, while a harvest of it is under way: what he has out stays as it is.

use std::fs;
use std::path::Path;

use netsky_work::harvest::{Job, Outcome, Tree, harvest};

use crate::places::alias;
use crate::support::{Bench, command, commit, git, head, landed};

/// A bench with a task of one new file and one that is changed.
fn bench() -> Bench {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&clone, "d", "new\n", "first");
    commit(&clone, "a", "changed\n", "second");
    bench
}

/// The files and the index are those of the branch that is out; whether it has the work.
fn assert_clean(bench: &Bench, branch: &str, has_it: bool) {
    assert_eq!(git(&bench.repo, &["status", "--porcelain", "--branch"]), format!("## {branch}"));
    assert_eq!(bench.repo.join("d").exists(), has_it);
    assert_eq!(git(&bench.repo, &["show", "main:d"]), "new", "it has landed");
    bench.assert_whole();
}

#[test]
fn t19_a_branch_that_the_owner_makes_while_the_gate_runs_gets_nothing_of_what_lands() {
    // While the gate runs, between the last look and the lock, and under it: a branch that is made where one is needs no index.
    for point in ["work.harvest.gated", "work.land.noted", "work.land.held"] {
        let bench = bench();
        let said = bench.held_harvest("t1", point, || drop(git(&bench.repo, &["switch", "-q", "-c", "own"])));
        assert!(said.starts_with("Landed(") && said.contains("tree: None"), "{point}: {said}");
        assert_clean(&bench, "own", false);
    }
}

#[test]
fn t19_main_that_becomes_another_branchs_name_while_the_gate_runs_takes_no_files_along() {
    for point in ["work.harvest.gated", "work.land.noted", "work.land.held"] {
        let bench = bench();
        let said = bench.held_harvest("t1", point, || alias(&bench.repo, false));
        assert!(said.starts_with("Refused(") && said.contains("another name of"), "{point}: {said}");
        assert_eq!(git(&bench.repo, &["log", "--format=%s", "--all", "--", "d"]), "", "{point}");
        bench.assert_whole();
    }
}

#[test]
fn t19_main_that_goes_to_another_checkout_at_the_last_moment_gets_its_files_there() {
    let bench = bench();
    let linked = bench.temp.path().join("linked");
    let said = bench.held_harvest("t1", "work.land.noted", || {
        git(&bench.repo, &["switch", "-q", "-c", "dev"]);
        git(&bench.repo, &["worktree", "add", "-q", linked.to_str().expect("text"), "main"]);
    });
    assert!(said.starts_with("Landed(") && said.contains("tree: Moved"), "{said}");
    assert_eq!((git(&linked, &["status", "--porcelain"]), linked.join("d").exists()), (String::new(), true));
    assert_clean(&bench, "dev", false);
}

#[test]
fn t19_main_that_the_owner_checks_out_while_the_gate_runs_moves_with_its_files() {
    // While the gate runs, and between the last look and the swap.
    for point in ["work.harvest.gated", "work.land.held"] {
        let bench = bench();
        git(&bench.repo, &["switch", "-q", "-c", "dev"]);
        let said = bench.held_harvest("t1", point, || drop(git(&bench.repo, &["switch", "-q", "main"])));
        assert!(said.starts_with("Landed(") && said.contains("tree: Moved"), "{point}: {said}");
        assert_clean(&bench, "main", true);
    }
}

#[test]
fn t19_main_that_is_checked_out_under_a_dead_landing_gets_its_files() {
    let bench = bench();
    git(&bench.repo, &["switch", "-q", "-c", "dev"]);
    let linked = bench.temp.path().join("linked");
    let text = linked.to_str().expect("text");
    let old = bench.main();
    bench.helper_harvest("t1", &[("NETSKY_FAULT", "work.land.moved=kill")]);
    // As a checkout that was under way then: its index is of the old tip.
    git(&bench.repo, &["worktree", "add", "-q", "--detach", text, old.as_str()]);
    git(&linked, &["symbolic-ref", "HEAD", "refs/heads/main"]);
    assert!(!git(&linked, &["status", "--porcelain"]).is_empty());
    assert!(matches!(bench.harvest("t1"), Outcome::AlreadyLanded { .. }));
    assert_eq!((git(&linked, &["status", "--porcelain"]), linked.join("d").exists()), (String::new(), true));
}

/// A rebase of `main` that stops at a conflict.
fn rebase(at: &Path, onto: &str, how: &str) {
    let output = command(at).args(["rebase", "-q", how, onto]).output().expect("git runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn t19_main_does_not_move_under_a_rebase_of_it() {
    for (how, is_linked) in [("--merge", false), ("--apply", false), ("--merge", true)] {
        let bench = bench();
        git(&bench.repo, &["branch", "up"]);
        commit(&bench.repo, "b", "of the owner\n", "own");
        git(&bench.repo, &["switch", "-q", "up"]);
        commit(&bench.repo, "b", "of upstream\n", "up");
        let linked = bench.temp.path().join("linked");
        if is_linked {
            git(&bench.repo, &["worktree", "add", "-q", linked.to_str().expect("text"), "main"]);
        } else {
            git(&bench.repo, &["switch", "-q", "main"]);
        }
        let at = if is_linked { &linked } else { &bench.repo };
        rebase(at, "up", how);
        let main = bench.main();
        // Before a gate takes its time, too.
        for is_dry in [true, false] {
            let outcome = harvest(&Job { is_dry, ..bench.job("t1") }).expect("an outcome");
            let Outcome::DirtyMain { files } = &outcome else { panic!("{how}: {outcome:?}") };
            assert!(files[0].contains("a rebase of refs/heads/main is under way"), "{files:?}");
        }
        assert_eq!(bench.main(), main);
        fs::write(at.join("b"), "of both\n").expect("written");
        git(at, &["add", "b"]);
        git(at, &["-c", "core.editor=true", "rebase", "--continue"]);
        assert_eq!((head(at, "HEAD"), head(at, "main^")), (bench.main(), head(at, "up")));
        assert_eq!(landed(bench.harvest("t1")).tree, Tree::Moved);
    }
}

#[test]
fn t19_a_file_among_the_linked_checkouts_stops_no_harvest() {
    let bench = bench();
    let linked = bench.temp.path().join("linked");
    git(&bench.repo, &["worktree", "add", "-q", "--detach", linked.to_str().expect("text")]);
    fs::write(bench.repo.join(".git/worktrees/stray"), "").expect("written");
    assert_eq!(landed(bench.harvest("t1")).tree, Tree::Moved);
}

#[test]
fn t19_main_does_not_move_under_a_rebase_that_began_while_the_gate_ran() {
    let bench = bench();
    git(&bench.repo, &["branch", "up"]);
    commit(&bench.repo, "b", "of the owner\n", "own");
    git(&bench.repo, &["switch", "-q", "up"]);
    commit(&bench.repo, "b", "of upstream\n", "up");
    git(&bench.repo, &["switch", "-q", "main"]);
    let main = bench.main();
    let said = bench.held_harvest("t1", "work.harvest.gated", || rebase(&bench.repo, "up", "--merge"));
    assert!(said.starts_with("DirtyMain") && said.contains("is under way"), "{said}");
    assert_eq!(bench.main(), main);
}
