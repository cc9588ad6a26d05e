//! What comes of a harvest, one test for each outcome and mode.

use std::fs;
use std::path::Path;

use netsky_work::Error;
use netsky_work::harvest::{Mode, Outcome, Tree, harvest};

use crate::support::{Bench, commit, git, head, landed};

#[test]
fn t19_each_commit_lands_with_its_author_and_the_files_follow() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    let sources = [
        commit(&clone, "a", "a 1\na 2\na 3\nmore\n", "first"),
        commit(&clone, "d", "new\n", "second\n\nwhy"),
    ];
    commit(&bench.repo, "c", "of the owner\n", "meanwhile");
    let came = landed(bench.harvest("t1"));
    assert_eq!((came.commits.len(), came.tree, &came.sha), (2, Tree::Moved, &bench.main()));
    assert_eq!(came.tip, sources[1]);
    let told = git(&bench.repo, &["log", "-2", "--reverse", "--format=%an %ae %ad|%cn %ce|%B", "--date=raw"]);
    let by = "Ann Agent ann@example.org 1700000000 +0300|netsky netsky@localhost|";
    let trailers = |at: usize| format!("Harvest-Task: t1\nHarvest-Source: {}\n", sources[at]);
    assert_eq!(
        told.trim_end(),
        format!("{by}first\n\n{}\n{by}second\n\nwhy\n\n{}", trailers(0), trailers(1)).trim_end()
    );
    assert_eq!(fs::read_to_string(bench.repo.join("a")).expect("read"), "a 1\na 2\na 3\nmore\n");
    assert_eq!(fs::read_to_string(bench.repo.join("c")).expect("read"), "of the owner\n");
    bench.assert_whole();
    assert!(!bench.layout.scratch().read_dir().expect("listed").any(|_| true), "the scratch is gone");
    assert_eq!(bench.harvest("t1"), Outcome::AlreadyLanded { sha: came.sha.clone() });
    // What comes after it lands by itself.
    commit(&clone, "d", "newer\n", "third");
    assert_eq!(landed(bench.harvest("t1")).commits.len(), 1);
    bench.assert_whole();
}

#[test]
fn t19_files_that_were_only_touched_are_not_changed_and_follow() {
    let bench = Bench::new();
    commit(&bench.workspace("t1"), "a", "changed\n", "first");
    fs::File::options()
        .append(true)
        .open(bench.repo.join("a"))
        .expect("there")
        .set_modified(std::time::UNIX_EPOCH)
        .expect("ours");
    assert_eq!(landed(bench.harvest("t1")).tree, Tree::Moved);
    assert_eq!(fs::read_to_string(bench.repo.join("a")).expect("read"), "changed\n");
    bench.assert_whole();
}

#[test]
fn t19_what_landed_without_us_is_known_by_its_patch() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&clone, "a", "a 1\na 2\na 3\nmore\n", "first");
    commit(&bench.repo, "c", "of the owner\n", "meanwhile");
    git(
        &bench.repo,
        &["-c", "protocol.file.allow=always", "fetch", "-q", clone.to_str().expect("text"), "task/t1"],
    );
    git(&bench.repo, &["cherry-pick", "FETCH_HEAD"]);
    fs::remove_file(bench.repo.join(".git/FETCH_HEAD")).expect("gone");
    let picked = bench.main();
    commit(&bench.repo, "c", "and on\n", "after");
    assert_eq!(bench.harvest("t1"), Outcome::AlreadyLanded { sha: picked });
    bench.assert_whole();
}

#[test]
fn a_branch_that_adds_nothing_is_empty() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    assert_eq!(bench.harvest("t1"), Outcome::Empty);
    git(&clone, &["commit", "-q", "--allow-empty", "-m", "nothing"]);
    assert_eq!(bench.harvest("t1"), Outcome::Empty);
    // Nor does `main` have it by a commit of its own that changes nothing.
    git(&bench.repo, &["commit", "-q", "--allow-empty", "-m", "of the owner"]);
    assert_eq!(bench.harvest("t1"), Outcome::Empty);
    // What `main` has within another commit nobody knows to be of this.
    commit(&clone, "d", "new\n", "something");
    std::fs::write(bench.repo.join("d"), "new\n").expect("written");
    git(&bench.repo, &["add", "d"]);
    commit(&bench.repo, "e", "new\n", "something and more");
    assert_eq!(bench.harvest("t1"), Outcome::Empty);
    bench.assert_whole();
}

#[test]
fn a_conflict_names_the_commit_and_the_files_and_changes_nothing() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&clone, "d", "fits\n", "first");
    let second = commit(&clone, "a", "a 1\nof the agent\na 3\n", "second");
    let main = commit(&bench.repo, "a", "a 1\nof the owner\na 3\n", "meanwhile");
    assert_eq!(bench.harvest("t1"), Outcome::Conflict { commit: second, files: vec!["a".into()] });
    assert_eq!(bench.main(), main);
    bench.assert_whole();
}

#[test]
fn a_change_of_the_owners_that_is_not_committed_stops_it_before_anything() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&clone, "a", "other\n", "first");
    let main = bench.main();
    let is_dirty = |what: &str| {
        let outcome = bench.harvest("t1");
        let Outcome::DirtyMain { files } = &outcome else { panic!("{outcome:?}") };
        assert!(files[0].contains(what), "{files:?}");
        assert_eq!(bench.main(), main);
    };
    fs::write(bench.repo.join("b"), "of the owner\n").expect("written");
    is_dirty("b");
    git(&bench.repo, &["add", "b"]);
    is_dirty("b");
    git(&bench.repo, &["reset", "-q", "--hard"]);
    fs::write(bench.repo.join(".git/MERGE_HEAD"), format!("{main}\n")).expect("written");
    is_dirty("MERGE_HEAD");
    fs::remove_file(bench.repo.join(".git/MERGE_HEAD")).expect("gone");
    fs::write(bench.repo.join(".git/index.lock"), "").expect("written");
    is_dirty("index.lock");
    fs::remove_file(bench.repo.join(".git/index.lock")).expect("gone");
    landed(bench.harvest("t1"));
    bench.assert_whole();
}

#[test]
fn a_file_that_git_does_not_know_is_not_overwritten() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&clone, "d", "of the agent\n", "first");
    let main = bench.main();
    fs::write(bench.repo.join("d"), "of the owner\n").expect("written");
    assert!(matches!(bench.harvest("t1"), Outcome::DirtyMain { .. }));
    assert_eq!(fs::read_to_string(bench.repo.join("d")).expect("read"), "of the owner\n");
    assert_eq!(bench.main(), main);
    fs::write(bench.repo.join("e"), "in nobody's way\n").expect("written");
    fs::remove_file(bench.repo.join("d")).expect("gone");
    landed(bench.harvest("t1"));
    assert_eq!(fs::read_to_string(bench.repo.join("e")).expect("read"), "in nobody's way\n");
}

#[test]
fn a_bare_repository_and_one_whose_main_nobody_has_out_have_no_files_to_move() {
    let mut bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&clone, "d", "new\n", "first");
    git(&bench.repo, &["checkout", "-q", "-b", "other"]);
    assert_eq!(landed(bench.harvest("t1")).tree, Tree::None);
    assert!(!bench.repo.join("d").exists(), "the files of another branch stay");
    bench.assert_whole();
    // A linked folder has `main` out.
    let linked = bench.temp.path().join("linked");
    git(&bench.repo, &["worktree", "add", "-q", linked.to_str().expect("text"), "main"]);
    commit(&clone, "e", "new\n", "second");
    assert_eq!(landed(bench.harvest("t1")).tree, Tree::Moved);
    assert!(linked.join("e").exists() && git(&linked, &["status", "--porcelain"]).is_empty());
    let bare = bench.temp.path().join("bare.git");
    git(&bench.repo, &["clone", "-q", "--bare", ".", bare.to_str().expect("text")]);
    bench.repo = bare;
    commit(&clone, "f", "new\n", "third");
    assert_eq!(landed(bench.harvest("t1")).tree, Tree::None);
    assert_eq!(git(&bench.repo, &["show", "main:f"]), "new");
}

#[test]
fn a_squash_is_one_commit_and_a_merge_keeps_the_branch() {
    for (mode, commits) in [(Mode::Squash, 1), (Mode::Merge, 1)] {
        let bench = Bench::new();
        let clone = bench.workspace("t1");
        commit(&clone, "d", "one\n", "first");
        let tip = commit(&clone, "d", "two\n", "second");
        let main = commit(&bench.repo, "c", "of the owner\n", "meanwhile");
        let mut job = bench.job("t1");
        job.mode = mode;
        let came = landed(harvest(&job).expect("an outcome"));
        assert_eq!(came.commits.len(), commits);
        let parents = git(&bench.repo, &["log", "-1", "--format=%P"]);
        let words = git(&bench.repo, &["log", "-1", "--format=%B"]);
        if mode == Mode::Squash {
            assert_eq!(parents, main.as_str());
            assert!(words.starts_with("first\n\nsecond\n\nHarvest-Task: t1\n"), "{words}");
        } else {
            assert_eq!(parents, format!("{main} {tip}"));
        }
        assert_eq!(git(&bench.repo, &["show", "main:d"]), "two");
        assert_eq!(harvest(&job).expect("an outcome"), Outcome::AlreadyLanded { sha: came.sha });
        commit(&clone, "d", "three\n", "third");
        landed(harvest(&job).expect("an outcome"));
        assert_eq!(git(&bench.repo, &["show", "main:d"]), "three");
        bench.assert_whole();
    }
}

#[test]
fn t19_a_branch_cannot_say_of_anothers_work_that_it_landed() {
    for mode in [Mode::Pick, Mode::Squash, Mode::Merge] {
        let bench = Bench::new();
        let (one, other) = (bench.workspace("t1"), bench.workspace("t2"));
        let tip = commit(&other, "b", "of the other\n", "honest");
        commit(&one, "d", "new\n", &format!("first\n\nHarvest-Task: t2\nHarvest-Source: {tip}"));
        let mut job = bench.job("t1");
        job.mode = mode;
        match harvest(&job).expect("an outcome") {
            Outcome::Refused(why) if mode == Mode::Merge => assert!(why.contains("Harvest-Task"), "{why}"),
            came => drop(landed(came)),
        }
        assert_eq!(bench.times_landed("t2"), 0, "{mode:?}");
        landed(bench.harvest("t2"));
        bench.assert_whole();
    }
}

#[test]
fn t19_words_that_end_where_git_stops_to_read_land_once() {
    for end in ["# ------------------------ >8 ------------------------", "\u{c}\nChange-Id: x"] {
        let bench = Bench::new();
        let clone = bench.workspace("t1");
        let file = clone.join(".git/words");
        for (name, words) in [("d", "first"), ("e", "second")] {
            fs::write(clone.join(name), "new\n").expect("written");
            fs::write(&file, format!("{words}\n\nwhy\n{end}\n")).expect("written");
            git(&clone, &["add", name]);
            let words = file.to_str().expect("text");
            git(&clone, &["commit", "-q", "--cleanup=verbatim", "-F", words]);
        }
        commit(&bench.repo, "d", "of the owner\n", "in the way");
        git(&bench.repo, &["revert", "--no-edit", "HEAD"]);
        let came = landed(bench.harvest("t1"));
        assert_eq!(bench.times_landed("t1"), 2, "{end:?}");
        // By their patch they would not be known any more.
        git(&bench.repo, &["rm", "-q", "e"]);
        commit(&bench.repo, "d", "of the owner\n", "after");
        assert_eq!(bench.harvest("t1"), Outcome::AlreadyLanded { sha: came.sha }, "{end:?}");
        bench.assert_whole();
    }
}

/// A text in IBM1047, of which no letter is the one of ASCII.
fn ebcdic(text: &str) -> Vec<u8> {
    let letter = |nth: u8| [0x81, 0x88, 0x90][usize::from(nth / 9)] + nth;
    let of = |byte: u8| match byte {
        b'\n' => 0x25,
        b' ' => 0x40,
        b'(' => 0x4d,
        b')' => 0x5d,
        b'-' => 0x60,
        b':' => 0x7a,
        b'0'..=b'9' => byte - b'0' + 0xf0,
        b'A'..=b'Z' => letter(byte - b'A') + 0x40,
        _ => letter(byte - b'a'),
    };
    text.bytes().map(of).collect()
}

/// Gives the last commit words in a set of letters, byte for byte.
fn reworded(clone: &Path, letters: &str, words: &[u8]) {
    let file = clone.join(".git/words");
    fs::write(&file, words).expect("written");
    let (set, file) = (format!("i18n.commitEncoding={letters}"), file.to_str().expect("text"));
    let args = ["-c", &set, "commit-tree", "-p", "HEAD^", "-F", file, "HEAD^{tree}"];
    git(clone, &["reset", "-q", "--soft", &git(clone, &args)]);
}

#[test]
fn t19_a_branch_cannot_say_in_other_letters_of_anothers_work_that_it_landed() {
    for mode in [Mode::Pick, Mode::Squash, Mode::Merge] {
        let bench = Bench::new();
        let (one, other) = (bench.workspace("t1"), bench.workspace("t2"));
        let tip = commit(&other, "b", "of the other\n", "honest");
        commit(&one, "d", "new\n", "first");
        let claim = format!(
            "first\n\nSigned-off-by: a\nHarvest-Task: t2\nHarvest-Source: {tip}\n(cherry picked from commit a)\nx"
        );
        reworded(&one, "IBM1047", &ebcdic(&claim));
        let mut job = bench.job("t1");
        job.mode = mode;
        let outcome = harvest(&job).expect("an outcome");
        landed(bench.harvest("t2"));
        let Outcome::Refused(why) = &outcome else { panic!("{mode:?}: {outcome:?}") };
        let commit = head(&one, "HEAD");
        assert!(why.contains(commit.as_str()) && why.contains("IBM1047"), "{why}");
        // With its words in letters that git reads as they are written it lands.
        reworded(&one, "ISO-8859-1", b"gr\xfcn\n");
        landed(harvest(&job).expect("an outcome"));
        assert!(matches!(harvest(&job).expect("an outcome"), Outcome::AlreadyLanded { .. }));
        bench.assert_whole();
    }
}

#[test]
fn t19_a_merge_brings_no_claim_of_what_was_picked_of_the_branch_before() {
    let bench = Bench::new();
    let (one, other) = (bench.workspace("t1"), bench.workspace("t2"));
    let tip = commit(&other, "b", "of the other\n", "honest");
    commit(&one, "d", "new\n", &format!("first\n\nHarvest-Task: t2\nHarvest-Source: {tip}"));
    landed(bench.harvest("t1"));
    commit(&one, "e", "new\n", "second");
    let mut job = bench.job("t1");
    job.mode = Mode::Merge;
    let outcome = harvest(&job).expect("an outcome");
    assert!(matches!(&outcome, Outcome::Refused(why) if why.contains("Harvest-Task")), "{outcome:?}");
    landed(bench.harvest("t2"));
}

#[test]
fn what_must_not_land_is_refused_with_its_reason() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    let base = head(&clone, "HEAD");
    commit(&clone, "d", "new\n", "first");
    let refused = |words: &str, job| {
        let outcome = harvest(&job).expect("an outcome");
        let Outcome::Refused(why) = &outcome else { panic!("{outcome:?}") };
        assert!(why.contains(words), "{why}");
    };
    let mut job = bench.job("t1");
    job.branch = netsky_work::git::RefName::branch("no-such").expect("a name");
    refused("cannot be fetched", job);
    git(&clone, &["checkout", "-q", "-b", "side", base.as_str()]);
    commit(&clone, "e", "new\n", "aside");
    git(&clone, &["checkout", "-q", "task/t1"]);
    git(&clone, &["merge", "-q", "--no-ff", "-m", "merge", "side"]);
    refused("is a merge", bench.job("t1"));
    let mut job = bench.job("t1");
    job.mode = Mode::Squash;
    job.is_dry = true;
    assert_eq!(harvest(&job).expect("an outcome"), Outcome::WouldLand { commits: 1, gate: None });
    git(&clone, &["checkout", "-q", "--orphan", "alone"]);
    commit(&clone, "f", "new\n", "alone");
    git(&clone, &["branch", "-f", "task/t1", "alone"]);
    refused("nothing in common", bench.job("t1"));
    git(&clone, &["branch", "-f", "task/t1", &format!("{base}^")]);
    let mut job = bench.job("t1");
    job.base = Some(base);
    refused("does not begin at", job);
    bench.assert_whole();
    let mut job = bench.job("t1");
    job.repo = bench.temp.path().to_owned();
    let came = harvest(&job);
    assert!(matches!(came, Err(Error::Missing { .. })), "{came:?}");
}

#[test]
fn a_dry_harvest_changes_nothing() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&clone, "d", "new\n", "first");
    let main = bench.main();
    let mut job = bench.job("t1");
    job.is_dry = true;
    let before = git(&bench.repo, &["count-objects", "-v"]);
    assert_eq!(harvest(&job).expect("an outcome"), Outcome::WouldLand { commits: 1, gate: None });
    assert_eq!((bench.main(), git(&bench.repo, &["count-objects", "-v"])), (main, before));
    bench.assert_whole();
}
