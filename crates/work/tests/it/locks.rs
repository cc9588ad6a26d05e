//! The owner's git beside a harvest: its locks on `main`, of which one that lives keeps its own and what a dead harvest's left goes;
//! its log; and its repacking.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, SystemTime};

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_work::Error;
use netsky_work::harvest::{Outcome, Tree, harvest};

use crate::support::{Bench, command, commit, git, landed};

/// A bench with a task of one new file.
fn bench() -> Bench {
    let bench = Bench::new();
    commit(&bench.workspace("t1"), "d", "new\n", "first");
    bench
}

/// A git of the owner's that has `main` locked and goes on when it is told to.
struct Holder {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Holder {
    /// One that is about to do something with `main`.
    fn of(bench: &Bench, what: &str) -> Holder {
        let mut git = command(&bench.repo);
        git.args(["update-ref", "--stdin"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = git.spawn().expect("git runs");
        let says = BufReader::new(child.stdout.take().expect("piped"));
        let mut holder = Holder { child, says };
        holder.tell("start", "start: ok");
        holder.tell(&format!("{what}\nprepare"), "prepare: ok");
        assert!(bench.repo.join(".git/refs/heads/main.lock").exists());
        holder
    }

    #[track_caller]
    fn tell(&mut self, words: &str, answer: &str) {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{words}").expect("it reads");
        let mut line = String::new();
        self.says.read_line(&mut line).expect("it answers");
        assert_eq!(line.trim_end(), answer);
    }

    /// It does what it was about to do.
    #[track_caller]
    fn commits(mut self) {
        self.tell("commit", "commit: ok");
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("ours").success());
    }
}

/// What the owner is about to do: move `main` to a commit of his, and only look that it stays. The first has that commit in its lock.
fn about(bench: &Bench) -> [String; 2] {
    let tree = git(&bench.repo, &["rev-parse", "main^{tree}"]);
    let own = git(&bench.repo, &["commit-tree", "-m", "own", "-p", "main", &tree]);
    let main = bench.main();
    [format!("update refs/heads/main {own} {main}"), format!("verify refs/heads/main {main}")]
}

/// Has the lock on `main` written at another time.
fn written(bench: &Bench, at: SystemTime) {
    let lock = fs::File::options().append(true).open(bench.repo.join(".git/refs/heads/main.lock"));
    lock.expect("there").set_modified(at).expect("ours");
}

/// A harvest cannot get the lock, says so and leaves nothing of its own; then the holder goes on, and it lands.
fn assert_left(bench: &Bench, holder: Holder, at: &str) {
    let output = bench.helper_harvest("t1", &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("main.lock"), "{at}: {said}");
    assert!(!bench.repo.join(".git/index.lock").exists(), "{at}: the owner's git goes on");
    assert!(bench.repo.join(".git/refs/heads/main.lock").exists(), "{at}: its lock stays");
    holder.commits();
    assert_eq!(landed(bench.harvest("t1")).tree, Tree::Moved, "{at}");
    bench.assert_whole();
}

#[test]
fn a9_t19_a_lock_of_a_living_git_on_main_stays_and_a_harvest_says_so() {
    for nth in 0..2 {
        let bench = bench();
        let about = about(&bench);
        let holder = Holder::of(&bench, &about[nth]);
        // As if it had come to it once the landing was noted: neither its words nor its age tell it from one of a dead harvest's.
        written(&bench, SystemTime::now() + Duration::from_secs(60));
        assert_left(&bench, holder, &about[nth]);
    }
}

#[test]
fn a9_t19_a_lock_that_no_dead_harvest_can_have_left_stays() {
    for nth in 0..2 {
        let bench = bench();
        bench.helper_harvest("t1", &[("NETSKY_FAULT", "work.land.held=kill")]);
        let about = about(&bench);
        let holder = Holder::of(&bench, &about[nth]);
        if nth == 1 {
            // One that says nothing is known by its age: it was there before that landing began.
            written(&bench, SystemTime::now() - Duration::from_secs(60));
        }
        assert_left(&bench, holder, &about[nth]);
    }
}

/// What a dead harvest was about to bring to `main`.
fn noted(bench: &Bench) -> String {
    let kept = fs::read_dir(bench.layout.harvests()).expect("listed").flatten();
    let note = kept.map(|e| e.path()).find(|path| path.extension().is_some_and(|e| e == "json"));
    let note = fs::read_to_string(note.expect("a note")).expect("read");
    let note: serde_json::Value = serde_json::from_str(&note).expect("it reads");
    note["new"].as_str().expect("a commit").to_owned()
}

#[test]
fn t19_a_lock_that_a_dead_harvests_git_left_on_main_goes() {
    for is_whole in [false, true] {
        let bench = bench();
        bench.helper_harvest("t1", &[("NETSKY_FAULT", "work.land.held=kill")]);
        let text = format!("{}\n", noted(&bench));
        let text = if is_whole { &text } else { &text[..10] };
        fs::write(bench.repo.join(".git/refs/heads/main.lock"), text).expect("written");
        fs::write(bench.repo.join(".git/HEAD.lock"), "").expect("written");
        assert_eq!(landed(bench.harvest("t1")).tree, Tree::Moved);
        bench.assert_whole();
    }
}

#[test]
fn t19_main_that_moved_though_git_could_not_say_so_in_its_log_has_landed() {
    let bench = bench();
    let log = bench.repo.join(".git/logs/HEAD");
    fs::remove_file(&log).expect("there");
    fs::create_dir(&log).expect("made");
    fs::write(log.join("in the way"), "").expect("written");
    assert_eq!(landed(bench.harvest("t1")).tree, Tree::Moved);
    assert!(bench.repo.join("d").exists());
    fs::remove_dir_all(&log).expect("ours");
    bench.assert_whole();
}

#[test]
fn t19_what_is_about_to_land_outlives_a_repack_and_is_gits_again_behind_it() {
    let bench = bench();
    let kept = || {
        let packs = fs::read_dir(bench.repo.join(".git/objects/pack")).expect("listed").flatten();
        packs.filter(|pack| pack.path().extension().is_some_and(|end| end == "keep")).count()
    };
    // Another's stays, whatever it says.
    fs::write(bench.repo.join(".git/objects/pack/pack-own.keep"), "own\n").expect("written");
    // It is kept before a git that repacks can see it.
    bench.helper_harvest("t1", &[("NETSKY_FAULT", "work.take.kept=kill")]);
    let packs = fs::read_dir(bench.repo.join(".git/objects/pack")).expect("listed").flatten();
    assert_eq!((kept(), packs.count()), (2, 2));
    bench.helper_harvest("t1", &[("NETSKY_FAULT", "work.land.noted=kill")]);
    assert_eq!(kept(), 2);
    git(&bench.repo, &["repack", "-a", "-d", "-q"]);
    git(&bench.repo, &["prune", "--expire=now"]);
    git(&bench.repo, &["cat-file", "-e", &format!("{}^{{commit}}", noted(&bench))]);
    landed(bench.harvest("t1"));
    assert_eq!(kept(), 1);
    assert!(!bench.repo.join(".git/objects/netsky").exists());
    bench.assert_whole();
}

#[test]
fn a_repository_that_was_copied_without_its_empty_folders_is_one() {
    let bench = bench();
    commit(&bench.workspace("t2"), "a", "of the agent\n", "does not fit");
    commit(&bench.repo, "a", "of the owner\n", "own");
    fs::remove_dir(bench.repo.join(".git/objects/pack")).expect("empty");
    assert!(matches!(bench.harvest("t2"), Outcome::Conflict { .. }));
    assert_eq!(landed(bench.harvest("t1")).tree, Tree::Moved);
    bench.assert_whole();
}

#[test]
fn i9_two_homes_that_land_in_one_repository_wait_for_each_other() {
    let bench = bench();
    let said = bench.held_harvest("t1", "work.land.held", || {
        let other = Layout::new(bench.temp.path().join("other"));
        Dir::create(other.state()).expect("a home");
        let mut job = bench.job("t1");
        job.layout = other;
        job.patience = Duration::from_millis(200);
        let came = harvest(&job);
        assert!(matches!(came, Err(Error::Busy { .. })), "{came:?}");
    });
    assert!(said.starts_with("Landed(") && said.contains("tree: Moved"), "{said}");
    bench.assert_whole();
}
