//! Harvests that race for one repository (A9).

use std::thread;

use netsky_work::harvest::{Outcome, harvest};

use crate::support::{Bench, commit, git, landed};

/// Rounds of each test; the campaign asks for more.
fn rounds() -> usize {
    std::env::var("NETSKY_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(2)
}

/// So many tasks at once, each with a file of its own; each lands its own, once.
fn race(tasks: usize) {
    for _ in 0..rounds() {
        let bench = Bench::new();
        let ids: Vec<String> = (0..tasks).map(|n| format!("t{n}")).collect();
        for id in &ids {
            let clone = bench.workspace(id);
            commit(&clone, &format!("of-{id}"), &format!("{id}\n"), &format!("work of {id}"));
        }
        thread::scope(|scope| {
            for id in &ids {
                let bench = &bench;
                scope.spawn(move || {
                    let came = landed(harvest(&bench.job(id)).expect("an outcome"));
                    let own = format!("{}:of-{id}", came.sha);
                    assert_eq!(git(&bench.repo, &["show", &own]), *id, "each lands its own");
                });
            }
        });
        for id in &ids {
            assert_eq!(bench.times_landed(id), 1, "once");
            assert_eq!(git(&bench.repo, &["show", &format!("main:of-{id}")]), *id);
        }
        bench.assert_whole();
    }
}

#[test]
fn a9_two_harvests_that_race_land_their_own_each_once() {
    race(2);
}

#[test]
fn a9_eight_harvests_that_race_land_their_own_each_once() {
    race(8);
}

#[test]
fn a9_the_owner_who_commits_meanwhile_loses_nothing() {
    let bench = Bench::new();
    let ids: Vec<String> = (0..3 * rounds()).map(|n| format!("t{n}")).collect();
    for id in &ids {
        commit(&bench.workspace(id), &format!("of-{id}"), "x\n", id);
    }
    git(&bench.repo, &["checkout", "-q", "-b", "other"]);
    thread::scope(|scope| {
        let harvests = scope.spawn(|| {
            for id in &ids {
                match harvest(&bench.job(id)).expect("an outcome") {
                    Outcome::Landed(_) | Outcome::Moved { tries: 21 } => {}
                    other => panic!("{other:?}"),
                }
            }
        });
        let mut own = 0;
        // As often as not in the middle of a try; a few, so that not every try is in vain.
        for _ in 0..15 * rounds() {
            let tree = git(&bench.repo, &["rev-parse", "main^{tree}"]);
            let old = git(&bench.repo, &["rev-parse", "main"]);
            let new = git(&bench.repo, &["commit-tree", "-m", "of the owner", "-p", &old, &tree]);
            let mut moves = crate::support::command(&bench.repo);
            let moved = moves.args(["update-ref", "refs/heads/main", &new, &old]).output().expect("git runs");
            own += usize::from(moved.status.success());
        }
        harvests.join().expect("it ends");
        let told = git(&bench.repo, &["log", "--format=%s", "main"]);
        assert_eq!(told.lines().filter(|line| *line == "of the owner").count(), own);
    });
    for id in &ids {
        let _ = bench.harvest(id);
        assert_eq!(bench.times_landed(id), 1);
    }
    bench.assert_whole();
}
