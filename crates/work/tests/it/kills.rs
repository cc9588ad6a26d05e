//! A harvest and a creation that die, or whose disk fails, at every step and around every run of git; then a second one (T19).

use std::path::Path;
use std::process::Output;

use netsky_disk::sweep;
use netsky_work::workspace;

use crate::support::{Bench, HELPER, Kept, commit, git, swept, task};

/// Every named step of a harvest.
const STEPS: &[&str] = &[
    "work.harvest.scratch",
    "work.harvest.fetched",
    "work.harvest.picked",
    "work.harvest.gated",
    "work.land.fetched",
    "work.land.noted",
    "work.land.locked",
    "work.land.held",
    "work.land.moved",
    "work.land.followed",
    "work.land.effective",
    "work.harvest.clear",
];
/// That which every run of git has: before one is after the one before it.
const RUN: &str = "work.git.before";
/// More runs of git than a harvest has.
const MOST_RUNS: usize = 80;

/// A bench with work of two commits, one of them a change, one a new file, one file gone, and of a last one that changes nothing;
/// `main` has moved since.
fn bench() -> Bench {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&clone, "a", "a 1\na 2\na 3\nmore\n", "first");
    git(&clone, &["rm", "-q", "b"]);
    commit(&clone, "d", "new\n", "second");
    commit(&clone, "d", "new\n", "nothing");
    commit(&bench.repo, "c", "of the owner\n", "meanwhile");
    bench
}

fn was_killed(output: &Output) -> bool {
    use std::os::unix::process::ExitStatusExt;
    output.status.signal() == Some(9)
}

/// `main` is its old or its new tip and whole; the second harvest lands it once, if it had not.
fn assert_redone(bench: &Bench, old: &str, at: &str) {
    let now = bench.main();
    git(&bench.repo, &["fsck", "--strict", "--full"]);
    let added = git(&bench.repo, &["rev-list", "--count", &format!("{old}..{now}")]);
    assert!(added == "0" || added == "2", "{at}: the old tip or the new one, not {added} commits");
    let again = bench.helper_harvest("t1", &[]);
    assert!(again.status.success(), "{at}: {}", String::from_utf8_lossy(&again.stderr));
    let said = String::from_utf8_lossy(&again.stdout).into_owned();
    let expected = if added == "0" { "Landed(" } else { "AlreadyLanded" };
    assert!(said.starts_with(expected), "{at}: {said}");
    assert_eq!(bench.times_landed("t1"), 2, "{at}: each commit once");
    assert_eq!(git(&bench.repo, &["rev-list", "--count", &format!("{old}..main")]), "2", "{at}");
    bench.assert_whole();
    assert!(!bench.repo.join("b").exists() && bench.repo.join("d").exists(), "{at}: the files followed");
    let kept = std::fs::read_dir(bench.layout.harvests()).expect("listed");
    assert!(
        !kept.flatten().any(|e| e.path().extension().is_some_and(|e| e == "json")),
        "{at}: no note is left"
    );
}

/// Lets a harvest meet its fate at the nth hit of a point, and harvests again; false if it did not get there.
fn meets(kept: &Kept, point: &str, action: &str, nth: usize) -> bool {
    let bench = kept.anew();
    let old = bench.main();
    let fault = format!("{point}={action}@{nth}");
    let log = bench.temp.path().join("hits");
    let set = [("NETSKY_FAULT", fault.as_str()), ("NETSKY_FAULT_LOG", log.to_str().expect("text"))];
    let output = bench.helper_harvest("t1", &set);
    let is_hit = log.exists();
    assert_eq!(is_hit && action == "kill", was_killed(&output), "{fault}");
    assert_redone(bench, old.as_str(), &fault);
    is_hit
}

#[test]
fn t19_fm_harvest_kill_at_every_step_main_is_whole_and_each_commit_lands_once() {
    let kept = Kept::of(bench());
    for step in STEPS {
        assert!(meets(&kept, step, "kill", 1), "{step} is a step");
    }
}

#[test]
fn t19_fm_harvest_eio_at_every_step_main_is_whole_and_each_commit_lands_once() {
    let kept = Kept::of(bench());
    for step in STEPS {
        assert!(meets(&kept, step, "error", 1), "{step} is a step");
    }
}

#[test]
fn t19_fm_harvest_kill_around_every_run_of_git_main_is_whole_and_each_commit_lands_once() {
    let kept = Kept::of(bench());
    let hits = (1..MOST_RUNS).take_while(|nth| meets(&kept, RUN, "kill", *nth)).count();
    assert!((15..MOST_RUNS - 1).contains(&hits), "{hits}");
}

/// Ends a harvest with all its gits at some moment: as a power cut does, but for what is not synced.
#[test]
fn t19_fm_harvest_kill_with_its_gits_at_any_moment_main_is_whole_and_each_commit_lands_once() {
    let rounds = std::env::var("NETSKY_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(12);
    let kept = Kept::of(bench());
    for round in 0..rounds {
        let bench = kept.anew();
        let old = bench.main();
        let paths = [
            bench.layout.home().to_owned(),
            bench.repo.clone(),
            bench.layout.workspace(&task("t1")).join("repo"),
        ];
        let [home, repo, clone] = paths.each_ref().map(|path| path.to_str().expect("text"));
        let mut child = std::process::Command::new(HELPER)
            .args(["harvest", home, repo, clone, "t1"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("it starts");
        netsky_disk::clock::pause(std::time::Duration::from_millis(15 + 37 * round % 450));
        // Held first, so that nothing is started meanwhile that lives on.
        if let Some(id) = netsky_disk::process::identify_child(child.id()) {
            let _ = netsky_disk::process::signal(&id, netsky_disk::process::Signal::STOP);
        }
        sweep::sweep_descendants(child.id(), std::time::Duration::from_secs(5)).expect("swept");
        child.kill().expect("ours");
        child.wait().expect("ours");
        assert_redone(bench, old.as_str(), &format!("round {round}"));
    }
}

#[test]
fn t19_a_change_that_the_owner_makes_while_a_landing_is_dead_is_not_overwritten() {
    for is_other in [false, true] {
        let bench = bench();
        let (old, set) = (bench.main(), [("NETSKY_FAULT", "work.land.moved=kill")]);
        assert!(was_killed(&bench.helper_harvest("t1", &set)));
        // The lock keeps the owner's git from taking back what landed.
        let committed =
            crate::support::command(&bench.repo).args(["commit", "-aqm", "x"]).output().expect("runs");
        assert!(!committed.status.success(), "the index is locked");
        let file = if is_other { "c" } else { "a" };
        std::fs::write(bench.repo.join(file), "of the owner\nnow\n").expect("written");
        let again = bench.helper_harvest("t1", &[]);
        let said = String::from_utf8_lossy(&again.stdout).into_owned();
        let is_said = if is_other { said.starts_with("DirtyMain") } else { said.starts_with("Behind") };
        assert!(is_said, "{said}");
        assert_eq!(std::fs::read_to_string(bench.repo.join(file)).expect("read"), "of the owner\nnow\n");
        assert!(!bench.repo.join(".git/index.lock").exists(), "the owner's git goes on");
        assert_eq!(bench.repo.join("d").exists(), is_other, "the rest followed where it could");
        git(&bench.repo, &["reset", "-q", "--hard"]);
        assert_eq!(bench.times_landed("t1"), 2);
        assert_redone(&bench, old.as_str(), "after a reset");
    }
}

#[test]
fn a9_t19_main_that_moves_at_the_last_moment_is_never_lost() {
    let bench = bench();
    git(&bench.repo, &["checkout", "-q", "-b", "other"]);
    let mut new = String::new();
    let said = bench.held_harvest("t1", "work.land.held", || {
        let tree = git(&bench.repo, &["rev-parse", "main^{tree}"]);
        new = git(&bench.repo, &["commit-tree", "-m", "of the owner", "-p", "main", &tree]);
        git(&bench.repo, &["update-ref", "refs/heads/main", &new]);
    });
    assert!(said.starts_with("Landed("), "{said}");
    assert_eq!(git(&bench.repo, &["merge-base", "main", &new]), new, "the owner's commit stays");
    assert_eq!(bench.times_landed("t1"), 2);
    bench.assert_whole();
}

#[test]
fn t19_a_file_that_a_dead_git_left_missing_or_empty_follows() {
    let bench = bench();
    let old = bench.main();
    let set = [("NETSKY_FAULT", "work.land.moved=kill")];
    assert!(was_killed(&bench.helper_harvest("t1", &set)));
    std::fs::remove_file(bench.repo.join("a")).expect("gone");
    std::fs::write(bench.repo.join("d"), "").expect("written");
    assert_redone(&bench, old.as_str(), "torn");
}

#[test]
fn t19_what_a_dead_harvest_was_landing_is_finished_by_one_into_another_branch() {
    let bench = bench();
    commit(&bench.workspace("t2"), "e", "of another\n", "other work");
    git(&bench.repo, &["branch", "other"]);
    let set = [("NETSKY_FAULT", "work.land.moved=kill")];
    assert!(was_killed(&bench.helper_harvest("t1", &set)));
    let mut job = bench.job("t2");
    job.main = netsky_work::git::RefName::branch("other").expect("a name");
    crate::support::landed(netsky_work::harvest::harvest(&job).expect("an outcome"));
    bench.assert_whole();
    assert!(bench.repo.join("d").exists(), "the files of main followed");
}

#[test]
fn t19_a_harvest_that_died_while_it_made_its_scratch_stops_no_other() {
    let bench = bench();
    let set = [("NETSKY_FAULT", "disk.write.written=kill@1")];
    assert!(was_killed(&bench.helper_harvest("t1", &set)));
    let scratch = netsky_disk::fs::Dir::open(bench.layout.scratch()).expect("there").names().expect("listed");
    assert!(!bench.layout.scratch().join(&scratch[0]).join(".throwaway").exists(), "it has no mark");
    let again = bench.helper_harvest("t1", &[]);
    assert!(again.status.success(), "{again:?}");
    bench.assert_whole();
}

#[test]
fn t19_what_a_dead_harvest_left_running_is_ended_before_the_next_begins() {
    let bench = bench();
    let set = [("NETSKY_FAULT", "work.harvest.fetched=kill")];
    assert!(was_killed(&bench.helper_harvest("t1", &set)));
    let scratch = netsky_disk::fs::Dir::open(bench.layout.scratch()).expect("there").names().expect("listed");
    let mut left = std::process::Command::new("/bin/sleep");
    let mut left = left.arg("1000").env("NETSKY_HARVEST", &scratch[0]).spawn().expect("it starts");
    assert!(bench.helper_harvest("t1", &[]).status.success());
    let is_ended = left.try_wait().expect("ours").is_some();
    let _ = left.kill();
    left.wait().expect("ours");
    assert!(is_ended, "it is ended");
    bench.assert_whole();
}

/// Makes a workspace with a fault, and again.
fn created(point: &str, nth: usize) -> bool {
    let bench = Bench::new();
    let fault = format!("{point}=kill@{nth}");
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let args = [text(bench.layout.home()), text(&bench.repo)];
    let output = bench.helper(&["create", &args[0], &args[1], "t1"], &[("NETSKY_FAULT", &fault)]);
    let there = workspace::find(&bench.layout, &task("t1")).expect("it reads");
    let folder = match there {
        Some(there) => there.folder(&bench.layout),
        None => bench.workspace("t1"),
    };
    assert_eq!(git(&folder, &["status", "--porcelain", "--branch"]), "## task/t1", "{fault}: whole");
    git(&folder, &["fsck", "--strict"]);
    swept(&bench.layout);
    let names =
        netsky_disk::fs::Dir::open(bench.layout.workspaces()).expect("there").names().expect("listed");
    assert_eq!(names, [".removals", "t1"], "{fault}: nothing else is left");
    was_killed(&output)
}

#[test]
fn fm_workspace_kill_at_every_step_one_that_is_there_is_whole_and_the_rest_is_swept() {
    for step in
        ["work.mirror.fetched", "work.workspace.begun", "work.workspace.filled", "work.workspace.named"]
    {
        assert!(created(step, 1), "{step} is a step");
    }
    let hits = (1..MOST_RUNS).take_while(|nth| created(RUN, *nth)).count();
    assert!((5..MOST_RUNS - 1).contains(&hits), "{hits}");
}
