//! What is on `main` by its patch alone: where it was reverted since, it is work again.

use std::path::Path;

use netsky_work::harvest::{Mode, Outcome, harvest};

use crate::support::{Bench, commit, git, landed};

/// A task that has landed and was reverted, and whose agent has its commit anew, of the same change.
fn reverted() -> (Bench, std::path::PathBuf) {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&clone, "d", "new\n", "first");
    landed(bench.harvest("t1"));
    git(&bench.repo, &["revert", "--no-edit", "HEAD"]);
    git(&clone, &["commit", "-q", "--amend", "-m", "first, in other words"]);
    (bench, clone)
}

/// The owner has the branch's last commit without us.
fn picked_by_hand(bench: &Bench, clone: &Path) {
    let from = clone.to_str().expect("text");
    git(&bench.repo, &["-c", "protocol.file.allow=always", "fetch", "-q", from, "task/t1"]);
    git(&bench.repo, &["cherry-pick", "FETCH_HEAD"]);
    std::fs::remove_file(bench.repo.join(".git/FETCH_HEAD")).expect("gone");
}

#[test]
fn t19_what_landed_and_was_reverted_is_work_again() {
    for mode in [Mode::Pick, Mode::Squash, Mode::Merge] {
        let (bench, _) = reverted();
        let mut job = bench.job("t1");
        job.mode = mode;
        let came = landed(harvest(&job).expect("an outcome"));
        assert_eq!((came.commits.len(), came.sha), (1, bench.main()), "{mode:?}");
        assert_eq!(git(&bench.repo, &["show", "main:d"]), "new");
        bench.assert_whole();
        assert!(matches!(harvest(&job).expect("an outcome"), Outcome::AlreadyLanded { .. }));
    }
}

#[test]
fn t19_what_was_reverted_lands_with_what_came_after_it() {
    let (bench, clone) = reverted();
    commit(&clone, "d", "new\nand more\n", "second");
    assert_eq!(landed(bench.harvest("t1")).commits.len(), 2);
    assert_eq!(git(&bench.repo, &["show", "main:d"]), "new\nand more");
    bench.assert_whole();
    let (bench, clone) = reverted();
    commit(&clone, "e", "of its own\n", "second");
    assert_eq!(landed(bench.harvest("t1")).commits.len(), 2, "neither is left out");
    assert_eq!(git(&bench.repo, &["show", "main:d"]), "new");
    bench.assert_whole();
}

#[test]
fn t19_what_landed_without_us_and_was_changed_since_has_landed() {
    for mode in [Mode::Pick, Mode::Squash, Mode::Merge] {
        let bench = Bench::new();
        let clone = bench.workspace("t1");
        commit(&clone, "a", "a 1\nof the agent\na 3\n", "first");
        commit(&bench.repo, "c", "of the owner\n", "meanwhile");
        picked_by_hand(&bench, &clone);
        let picked = bench.main();
        commit(&bench.repo, "a", "a 1\nof the agent and the owner\na 3\n", "after");
        let mut job = bench.job("t1");
        job.mode = mode;
        assert_eq!(harvest(&job).expect("an outcome"), Outcome::AlreadyLanded { sha: picked }, "{mode:?}");
        if mode == Mode::Pick {
            commit(&clone, "e", "of its own\n", "second");
            assert_eq!(landed(bench.harvest("t1")).commits.len(), 1, "the one that is not there");
        }
        bench.assert_whole();
    }
}

#[test]
fn t19_a_change_and_its_end_that_landed_without_us_land_no_second_time() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&bench.repo, "c", "of the owner\n", "meanwhile");
    commit(&clone, "d", "new\n", "first");
    picked_by_hand(&bench, &clone);
    commit(&clone, "d", "newer\n", "second");
    picked_by_hand(&bench, &clone);
    git(&clone, &["rm", "-q", "d"]);
    git(&clone, &["commit", "-q", "-m", "third"]);
    picked_by_hand(&bench, &clone);
    assert!(matches!(bench.harvest("t1"), Outcome::AlreadyLanded { .. }));
    commit(&clone, "e", "of its own\n", "fourth");
    assert_eq!(landed(bench.harvest("t1")).commits.len(), 1);
    bench.assert_whole();
}

#[test]
fn t19_what_came_without_us_and_was_moved_or_taken_away_since_stays_so() {
    for away in [&["mv", "d", "moved"][..], &["rm", "-q", "d"]] {
        let bench = Bench::new();
        let clone = bench.workspace("t1");
        commit(&bench.repo, "c", "of the owner\n", "meanwhile");
        commit(&clone, "d", "new\n", "first");
        picked_by_hand(&bench, &clone);
        git(&bench.repo, away);
        git(&bench.repo, &["commit", "-q", "-m", "away"]);
        assert!(matches!(bench.harvest("t1"), Outcome::AlreadyLanded { .. }), "{away:?}");
        commit(&clone, "e", "of its own\n", "second");
        assert_eq!(landed(bench.harvest("t1")).commits.len(), 1, "{away:?}");
        assert!(!bench.repo.join("d").exists(), "{away:?}: the owner wants it so");
        bench.assert_whole();
    }
}

#[test]
fn t19_what_came_without_us_and_was_taken_away_stays_so_in_a_squash() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&bench.repo, "c", "of the owner\n", "meanwhile");
    commit(&clone, "d", "new\n", "first");
    picked_by_hand(&bench, &clone);
    git(&bench.repo, &["rm", "-q", "d"]);
    git(&bench.repo, &["commit", "-q", "-m", "away"]);
    commit(&clone, "e", "of its own\n", "second");
    commit(&clone, "e", "of its own\nand more\n", "third");
    let mut job = bench.job("t1");
    job.mode = Mode::Squash;
    assert_eq!(landed(harvest(&job).expect("an outcome")).commits.len(), 1);
    assert!(!bench.repo.join("d").exists(), "the owner wants it so");
    assert_eq!(git(&bench.repo, &["show", "main:e"]), "of its own\nand more");
    let words = git(&bench.repo, &["log", "-1", "--format=%B"]);
    assert!(words.starts_with("second\n\nthird\n\nHarvest-Task: t1\n"), "{words}");
    assert!(matches!(harvest(&job).expect("an outcome"), Outcome::AlreadyLanded { .. }));
    bench.assert_whole();
}

#[test]
fn a_squash_of_a_branch_that_the_owner_has_a_part_of_may_have_a_merge_in_it() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&bench.repo, "c", "of the owner\n", "meanwhile");
    commit(&clone, "e", "of its own\n", "first");
    git(&clone, &["pull", "-q", "--no-rebase", "--no-edit", "origin", "main"]);
    commit(&clone, "d", "new\n", "second");
    picked_by_hand(&bench, &clone);
    commit(&bench.repo, "c", "of the owner, and other\n", "after");
    let mut job = bench.job("t1");
    job.mode = Mode::Squash;
    assert_eq!(landed(harvest(&job).expect("an outcome")).commits.len(), 1);
    assert_eq!(git(&bench.repo, &["diff", "--name-only", "main^", "main"]), "e");
    bench.assert_whole();
}

#[test]
fn t19_what_the_owner_dropped_from_main_does_not_come_back_with_a_branch_that_begins_there() {
    let bench = Bench::new();
    let keep = bench.main();
    commit(&bench.repo, "leak", "of the owner\n", "a slip");
    let base = bench.main();
    let clone = bench.workspace("t1");
    commit(&clone, "d", "of the agent\n", "work");
    git(&bench.repo, &["reset", "-q", "--hard", keep.as_str()]);
    let mut job = bench.job("t1");
    job.base = Some(base.clone());
    match harvest(&job).expect("an outcome") {
        Outcome::Refused(why) => assert!(why.contains("has not") && why.contains("rebase --onto"), "{why}"),
        other => panic!("{other:?}"),
    }
    // As is said there.
    git(&clone, &["fetch", "-q"]);
    git(&clone, &["rebase", "-q", "--onto", "origin/main", base.as_str()]);
    landed(harvest(&job).expect("an outcome"));
    assert!(bench.repo.join("d").exists() && !bench.repo.join("leak").exists());
    bench.assert_whole();
}

#[test]
fn t19_a_trailer_of_the_owners_that_goes_on_in_a_second_line_stops_nothing() {
    let bench = Bench::new();
    commit(&bench.workspace("t1"), "d", "of the agent\n", "work");
    commit(
        &bench.repo,
        "c",
        "of the owner\n",
        "by hand\n\nHarvest-Task: t1\n and more\nHarvest-Source: none\n",
    );
    landed(bench.harvest("t1"));
    bench.assert_whole();
}

#[test]
fn t19_what_was_reverted_and_made_anew_and_fits_no_more_is_a_conflict_and_has_not_landed() {
    for (reverted, is_more) in [(2, false), (2, true), (1, false), (1, true)] {
        for mode in [Mode::Pick, Mode::Squash, Mode::Merge] {
            let bench = Bench::new();
            let clone = bench.workspace("t1");
            if reverted == 2 {
                commit(&clone, "d", "one\n", "first");
            }
            commit(&clone, "d", "one\ntwo\n", "second");
            landed(bench.harvest("t1"));
            git(&bench.repo, &["rm", "-q", "d"]);
            git(&bench.repo, &["commit", "-q", "-m", "taken back"]);
            if reverted == 1 {
                commit(&bench.repo, "d", "of the owner\n", "otherwise");
            }
            git(&clone, &["commit", "-q", "--amend", "-m", "again"]);
            if is_more {
                commit(&clone, "e", "more\n", "third");
            }
            let (mut job, main) = (bench.job("t1"), bench.main());
            job.mode = mode;
            let came = harvest(&job).expect("an outcome");
            if (reverted, mode) == (2, Mode::Merge) {
                // The whole of a branch fits where nothing is left of it.
                landed(came);
                assert_eq!(git(&bench.repo, &["show", "main:d"]), "one\ntwo");
                continue;
            }
            assert!(matches!(came, Outcome::Conflict { .. }), "{reverted} {is_more} {mode:?}: {came:?}");
            assert_eq!(bench.main(), main);
        }
    }
}
