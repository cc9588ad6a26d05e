//! Files of a checkout that could not follow when `main` moved: nothing else lands on them, and they follow once they can.

use std::fs;
use std::path::PathBuf;

use netsky_work::harvest::Outcome;

use crate::support::{Bench, Kept, commit, git};

/// A bench where `main` has the work of t1 and its files have not, for a file that git does not know is in the way: that file.
fn behind() -> (Bench, PathBuf) {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&clone, "d", "new\n", "first");
    commit(&clone, "a", "changed\n", "second");
    commit(&bench.workspace("t2"), "e", "of another\n", "other work");
    let in_the_way = bench.repo.join("d");
    let said = bench.held_harvest("t1", "work.land.moved", || {
        fs::write(&in_the_way, "of the owner\n").expect("written");
    });
    assert!(said.starts_with("Landed(") && said.contains("tree: Behind("), "{said}");
    assert!(!bench.repo.join(".git/index.lock").exists(), "the owner's git goes on");
    (bench, in_the_way)
}

/// What a harvest of a task says.
fn harvested(bench: &Bench, id: &str) -> String {
    String::from_utf8_lossy(&bench.helper_harvest(id, &[]).stdout).into_owned()
}

/// The files are there, and nothing says any more that they are not.
fn assert_followed(bench: &Bench, at: &str) {
    bench.assert_whole();
    assert_eq!(fs::read_to_string(bench.repo.join("d")).expect("read"), "new\n", "{at}");
    assert_eq!(fs::read_to_string(bench.repo.join("a")).expect("read"), "changed\n", "{at}");
    let kept = fs::read_dir(bench.layout.harvests()).expect("listed");
    let is_note = |name: &str| name.ends_with(".json");
    assert!(!kept.flatten().any(|e| is_note(&e.file_name().to_string_lossy())), "{at}: no note is left");
}

#[test]
fn t19_nothing_lands_on_files_that_are_behind_and_they_follow_once_they_can() {
    for id in ["t1", "t2"] {
        let (bench, in_the_way) = behind();
        let main = bench.main();
        for other in ["t2", "t1"] {
            let said = harvested(&bench, other);
            assert!(said.starts_with("Behind") && said.contains(main.as_str()), "{other}: {said}");
            assert_eq!(bench.main(), main);
            assert_eq!(fs::read_to_string(&in_the_way).expect("read"), "of the owner\n");
        }
        fs::remove_file(&in_the_way).expect("gone");
        let said = harvested(&bench, id);
        let expected = if id == "t1" { "AlreadyLanded" } else { "Landed(" };
        assert!(said.starts_with(expected), "{said}");
        assert_followed(&bench, id);
    }
}

#[test]
fn t19_files_that_were_behind_and_the_owner_made_new_are_left_alone() {
    let (bench, _) = behind();
    git(&bench.repo, &["reset", "-q", "--hard"]);
    commit(&bench.repo, "own", "of the owner\n", "own");
    assert!(matches!(bench.harvest("t1"), Outcome::AlreadyLanded { .. }));
    assert_followed(&bench, "made new");
    let (bench, in_the_way) = behind();
    fs::remove_file(&in_the_way).expect("gone");
    // Of a file that lands, which is as it was by itself.
    let was = fs::read(bench.repo.join("a")).expect("read");
    fs::write(bench.repo.join("a"), "staged\n").expect("written");
    git(&bench.repo, &["add", "a"]);
    fs::write(bench.repo.join("a"), was).expect("written");
    assert!(harvested(&bench, "t2").starts_with("Behind"));
    assert_eq!(git(&bench.repo, &["show", ":a"]), "staged", "what he staged stays");
    git(&bench.repo, &["switch", "-q", "-c", "own"]);
    assert!(harvested(&bench, "t2").starts_with("Landed("), "nobody has main out");
    assert_eq!(git(&bench.repo, &["show", ":a"]), "staged");
}

#[test]
fn t19_what_fails_while_files_that_were_behind_follow_leaves_the_owners_git_unlocked() {
    let (bench, in_the_way) = behind();
    fs::remove_file(&in_the_way).expect("gone");
    let failed = bench.helper_harvest("t1", &[("NETSKY_FAULT", "work.land.laid=error@1")]);
    assert!(!failed.status.success(), "{failed:?}");
    assert!(!bench.repo.join(".git/index.lock").exists(), "the owner's git goes on");
    assert!(harvested(&bench, "t1").starts_with("AlreadyLanded"));
    assert_followed(&bench, "after an error");
}

#[test]
fn t19_fm_harvest_kill_while_files_that_were_behind_follow() {
    let (bench, in_the_way) = behind();
    fs::remove_file(&in_the_way).expect("gone");
    let kept = Kept::of(bench);
    let steps = ["work.land.caught", "work.land.laid", "work.land.followed", "work.land.effective"];
    let runs = (1..20).map(|nth| format!("work.git.before=kill@{nth}"));
    for fault in steps.map(|step| format!("{step}=kill")).into_iter().chain(runs) {
        let bench = kept.anew();
        let killed = bench.helper_harvest("t1", &[("NETSKY_FAULT", &fault)]);
        assert!(!killed.status.success() || fault.contains('@'), "{fault} is a step");
        assert!(harvested(bench, "t1").starts_with("AlreadyLanded"), "{fault}");
        assert_followed(bench, &fault);
    }
}

#[test]
fn t19_fm_harvest_kill_enospc_a_file_that_was_cut_off_follows_and_one_that_only_begins_otherwise_stays() {
    let text = "a line that lands\n".repeat(100);
    for (found, expected) in [(&text[..700], "AlreadyLanded"), ("of the owner\n", "Behind")] {
        let bench = Bench::new();
        commit(&bench.workspace("t1"), "d", &text, "first");
        bench.helper_harvest("t1", &[("NETSKY_FAULT", "work.land.moved=kill")]);
        fs::write(bench.repo.join("d"), found).expect("written");
        let said = harvested(&bench, "t1");
        assert!(said.starts_with(expected), "{expected}: {said}");
        let now = fs::read_to_string(bench.repo.join("d")).expect("read");
        assert_eq!(now, if expected == "Behind" { found } else { &text });
    }
}
