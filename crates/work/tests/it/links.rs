//! A branch that links to another repository: one that is nowhere else is said, and does not land.

use std::fs;

use netsky_work::harvest::{Job, Mode, Outcome, harvest};

use crate::support::{Bench, commit, git, landed};

#[test]
fn i9_a_repository_that_an_agent_made_within_the_branch_does_not_land_by_a_name_alone() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    let lib = clone.join("lib");
    fs::create_dir(&lib).expect("made");
    git(&lib, &["init", "-q", "--template="]);
    commit(&lib, "work", "inner\n", "inner");
    git(&clone, &["-c", "advice.addEmbeddedRepo=false", "add", "lib"]);
    git(&clone, &["commit", "-q", "-m", "add lib"]);
    let old = bench.main();
    for mode in [Mode::Pick, Mode::Squash, Mode::Merge] {
        match harvest(&Job { mode, ..bench.job("t1") }).expect("an outcome") {
            Outcome::Refused(why) => assert!(why.starts_with("lib is a repository of its own"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(bench.main(), old);
    // As it says.
    git(&clone, &["rm", "-q", "--cached", "lib"]);
    fs::remove_dir_all(lib.join(".git")).expect("there");
    git(&clone, &["add", "lib"]);
    git(&clone, &["commit", "-q", "--amend", "-m", "add lib"]);
    landed(bench.harvest("t1"));
    assert_eq!(git(&bench.repo, &["show", "main:lib/work"]), "inner");
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
}
