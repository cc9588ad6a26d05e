//! An owner who checks out another branch while a harvest is under way: what he has out stays as it is.

use netsky_work::harvest::Outcome;

use crate::support::{Bench, commit, git};

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
    // While the gate runs, and between the last look and the lock.
    for point in ["work.harvest.gated", "work.land.noted"] {
        let bench = bench();
        let said = bench.held_harvest("t1", point, || drop(git(&bench.repo, &["switch", "-q", "-c", "own"])));
        assert!(said.starts_with("Landed(") && said.contains("tree: None"), "{point}: {said}");
        assert_clean(&bench, "own", false);
    }
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
