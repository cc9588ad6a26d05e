//! A branch that links to another repository: one that is nowhere else is said, and does not land.

use std::fs;
use std::path::Path;

use netsky_work::harvest::{Job, Mode, Outcome, harvest};

use crate::support::{Bench, commit, git, landed};

#[test]
fn i9_a_repository_that_an_agent_made_within_the_branch_does_not_land_by_a_name_alone() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    let lib = clone.join("a lib");
    fs::create_dir(&lib).expect("made");
    git(&lib, &["init", "-q", "--template="]);
    commit(&lib, "work", "inner\n", "inner");
    git(&clone, &["-c", "advice.addEmbeddedRepo=false", "add", "a lib"]);
    git(&clone, &["commit", "-q", "-m", "add lib"]);
    let old = bench.main();
    for mode in [Mode::Pick, Mode::Squash, Mode::Merge] {
        match harvest(&Job { mode, ..bench.job("t1") }).expect("an outcome") {
            Outcome::Refused(why) => assert!(
                why.starts_with("a lib is a repository of its own") && why.contains("-- 'a lib'`"),
                "{why}"
            ),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(bench.main(), old);
    // As it says.
    git(&clone, &["rm", "-q", "--cached", "--", "a lib"]);
    fs::remove_dir_all(lib.join(".git")).expect("there");
    git(&clone, &["add", "--", "a lib"]);
    git(&clone, &["commit", "-q", "--amend", "-m", "add lib"]);
    landed(bench.harvest("t1"));
    assert_eq!(git(&bench.repo, &["show", "main:a lib/work"]), "inner");
    bench.assert_whole();
}

#[test]
fn a_submodule_that_says_where_it_is_from_lands() {
    let bench = Bench::new();
    let (of, clone) = (bench.temp.path().join("lib"), bench.workspace("t1"));
    fs::create_dir(&of).expect("made");
    git(&of, &["init", "-q", "-b", "main", "--template="]);
    commit(&of, "work", "inner\n", "inner");
    let of = of.to_str().expect("text");
    git(&clone, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", of, "a place/lib"]);
    git(&clone, &["commit", "-q", "-m", "add lib"]);
    landed(bench.harvest("t1"));
    assert!(git(&bench.repo, &["ls-tree", "-r", "main"]).contains("160000 commit"));
    // What git would end on does not come to `main`; and what is there by its owner's hand stops nobody who mends it.
    let list = |at: &Path, more: &str| {
        let text = fs::read_to_string(at.join(".gitmodules")).expect("there");
        commit(at, ".gitmodules", &format!("{text}{more}"), "a list");
    };
    let other = bench.workspace("t2");
    list(&other, "<<<<<<< HEAD\n");
    match bench.harvest("t2") {
        Outcome::Refused(why) => assert!(why.starts_with("its .gitmodules does not read"), "{why}"),
        other => panic!("{other:?}"),
    }
    list(&bench.repo, "<<<<<<< HEAD\n");
    let mend = bench.workspace("t3");
    git(&mend, &["rm", "-q", "--cached", "a place/lib", ".gitmodules"]);
    git(&mend, &["commit", "-q", "-m", "none"]);
    landed(bench.harvest("t3"));
    assert!(!git(&bench.repo, &["ls-tree", "-r", "main"]).contains("160000 commit"));
}
