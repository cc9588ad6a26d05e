//! Files of the owner's that git does not know because he has it ignore them: what lands never takes their place.

use std::fs;
use std::path::Path;

use netsky_work::harvest::{Outcome, Tree};

use crate::support::{Bench, Kept, command, commit, git, landed};

/// A bench whose owner ignores `.env`, `build` and `log`.
fn bench() -> Bench {
    let bench = Bench::new();
    commit(&bench.repo, ".gitignore", ".env\nbuild\nlog\n", "ignored");
    bench
}

/// Writes a file, with the folders above it.
fn write(at: &Path, text: &str) {
    fs::create_dir_all(at.parent().expect("a folder")).expect("made");
    fs::write(at, text).expect("written");
}

/// Commits a file that is ignored.
fn forced(clone: &Path, file: &str) {
    write(&clone.join(file), "of the agent\n");
    git(clone, &["add", "-f", "--", file]);
    git(clone, &["commit", "-q", "-m", "forced"]);
}

/// Files that an agent forces, each where one of the owner's is that git ignores, and what is named as in the way.
const IN_THE_WAY: &[(&str, &str, &str)] = &[
    (".env", ".env", ".env"),
    ("build", "build/deep/x", "build/deep/x"),
    ("log/x", "log", "log"),
    ("src/build", "src/build/y", "src/build/y"),
];

#[test]
fn t19_what_the_owner_ignores_is_neither_overwritten_nor_removed() {
    for (lands, owners, told) in IN_THE_WAY {
        let bench = bench();
        forced(&bench.workspace("t1"), lands);
        let (main, secret) = (bench.main(), bench.repo.join(owners));
        write(&secret, "secret\n");
        let outcome = bench.harvest("t1");
        let Outcome::DirtyMain { files } = &outcome else { panic!("{lands}: {outcome:?}") };
        assert!(files[0].starts_with(&format!("{told} ")), "{lands}: {files:?}");
        assert_eq!(
            (bench.main(), fs::read_to_string(&secret).expect("it is there")),
            (main, "secret\n".into())
        );
        bench.assert_whole();
        // Elsewhere it is in nobody's way.
        let at = bench.repo.join(owners.split('/').next().expect("one"));
        fs::rename(&at, bench.repo.join("log.d")).expect("moved");
        write(&bench.repo.join(".git/info/exclude"), "log.d\n");
        assert_eq!(landed(bench.harvest("t1")).tree, Tree::Moved, "{lands}");
        assert!(bench.repo.join("log.d").exists());
        bench.assert_whole();
    }
}

#[test]
fn t19_what_the_owner_ignores_at_the_last_moment_stays_and_the_files_are_behind() {
    // When `main` has moved, and when who moved it is dead.
    for is_dead in [false, true] {
        for (lands, owners, _) in IN_THE_WAY {
            let bench = bench();
            forced(&bench.workspace("t1"), lands);
            let secret = bench.repo.join(owners);
            let said = if is_dead {
                bench.helper_harvest("t1", &[("NETSKY_FAULT", "work.land.moved=kill")]);
                write(&secret, "secret\n");
                format!("{:?}", bench.harvest("t1"))
            } else {
                bench.held_harvest("t1", "work.land.moved", || write(&secret, "secret\n"))
            };
            assert!(said.contains("Behind"), "{lands}: {said}");
            assert_eq!(fs::read_to_string(&secret).expect("it is there"), "secret\n", "{lands}");
        }
    }
}

#[test]
fn t19_a_repository_within_the_owners_is_not_removed_for_a_file() {
    let bench = Bench::new();
    let inner = bench.repo.join("sub");
    git(&bench.repo, &["init", "-q", "sub"]);
    commit(&inner, "own", "secret\n", "own");
    git(&bench.repo, &["-c", "advice.addEmbeddedRepo=false", "add", "sub"]);
    git(&bench.repo, &["commit", "-q", "-m", "a repository within"]);
    let clone = bench.workspace("t1");
    git(&clone, &["rm", "-q", "--cached", "sub"]);
    fs::remove_dir(clone.join("sub")).expect("it is empty");
    commit(&clone, "sub", "of the agent\n", "a file");
    let outcome = bench.harvest("t1");
    assert_eq!(fs::read_to_string(inner.join("own")).expect("it is there"), "secret\n");
    assert!(matches!(outcome, Outcome::DirtyMain { .. }), "{outcome:?}");
}

/// The owner's repository has a file, a folder and a link, and work that makes each another of them.
fn turned() -> Bench {
    let bench = bench();
    for file in ["d", "e/x", "e/y/z", "f", "g/x", "i/x"] {
        commit(&bench.repo, file, "of the owner\n", "before");
    }
    std::os::unix::fs::symlink("e", bench.repo.join("h")).expect("made");
    git(&bench.repo, &["add", "h"]);
    git(&bench.repo, &["commit", "-q", "-m", "a link"]);
    let clone = bench.workspace("t1");
    git(&clone, &["rm", "-q", "-r", "d", "e", "f", "h", "i"]);
    for file in ["d/x/y", "e", "h/x"] {
        write(&clone.join(file), "of the agent\n");
    }
    for link in ["f", "i"] {
        std::os::unix::fs::symlink("g", clone.join(link)).expect("made");
    }
    git(&clone, &["add", "."]);
    git(&clone, &["commit", "-q", "-m", "turned"]);
    // What is ignored beside what goes, and folders in which nothing is.
    write(&bench.repo.join(".env"), "secret\n");
    write(&bench.repo.join("g/log"), "secret\n");
    fs::create_dir_all(bench.repo.join("e/build/deep")).expect("made");
    bench
}

/// The files are turned, and what is ignored is there.
fn assert_turned(bench: &Bench, at: &str) {
    bench.assert_whole();
    for file in ["d/x/y", "e", "h/x"] {
        assert_eq!(fs::read_to_string(bench.repo.join(file)).expect("it followed"), "of the agent\n", "{at}");
    }
    for file in [".env", "g/log"] {
        assert_eq!(fs::read_to_string(bench.repo.join(file)).expect("it stays"), "secret\n", "{at}");
    }
}

#[test]
fn t19_a_file_that_becomes_a_folder_and_a_folder_that_becomes_a_file_follow() {
    let bench = turned();
    assert_eq!(landed(bench.harvest("t1")).tree, Tree::Moved);
    assert_turned(&bench, "at once");
}

#[test]
fn t19_fm_harvest_kill_a_file_that_becomes_a_folder_and_back_follow_at_the_next_harvest() {
    let kept = Kept::of(turned());
    for step in ["work.land.moved", "work.land.laid", "work.land.followed"] {
        let bench = kept.anew();
        bench.helper_harvest("t1", &[("NETSKY_FAULT", &format!("{step}=kill"))]);
        let outcome = bench.harvest("t1");
        assert!(matches!(outcome, Outcome::AlreadyLanded { .. }), "{step}: {outcome:?}");
        assert_turned(bench, step);
    }
}

#[test]
fn t19_a_file_that_the_owner_changed_and_told_git_not_to_look_at_stops_a_harvest() {
    let bench = Bench::new();
    commit(&bench.workspace("t1"), "b", "of the agent\n", "first");
    let main = bench.main();
    git(&bench.repo, &["update-index", "--assume-unchanged", "b"]);
    fs::write(bench.repo.join("b"), "of the owner, and longer\n").expect("written");
    let outcome = bench.harvest("t1");
    assert!(matches!(outcome, Outcome::DirtyMain { .. }), "{outcome:?}");
    let text = fs::read_to_string(bench.repo.join("b")).expect("read");
    assert_eq!((bench.main(), text.as_str()), (main, "of the owner, and longer\n"));
    assert!(command(&bench.repo).arg("status").output().expect("runs").status.success());
}
