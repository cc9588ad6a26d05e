//! A throwaway home, the owner's repository, and an agent's clone of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use netsky_disk::layout::Layout;
use netsky_disk::{clock, process};
use netsky_model::id::TaskId;
use netsky_work::gate::{self, Gate};
use netsky_work::git::{Git, RefName, Remote, Sha};
use netsky_work::harvest::{Job, Landed, Mode, Outcome, harvest};
use netsky_work::landing::Sweep;
use netsky_work::workspace::{Elsewhere, SHARE_FROM, Swept, Wish, create, gc};

/// The process of ours that a test starts.
pub(crate) const HELPER: &str = env!("CARGO_BIN_EXE_work-under-test");

/// A place for one test.
pub(crate) struct Bench {
    pub(crate) temp: tempfile::TempDir,
    pub(crate) layout: Layout,
    pub(crate) repo: PathBuf,
}

pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").expect("a PATH"));
    command.envs([
        ("HOME", "/nonexistent"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_AUTHOR_NAME", "Ann Agent"),
        ("GIT_AUTHOR_EMAIL", "ann@example.org"),
        ("GIT_AUTHOR_DATE", "1700000000 +0300"),
        ("GIT_COMMITTER_NAME", "Ann Agent"),
        ("GIT_COMMITTER_EMAIL", "ann@example.org"),
    ]);
    command
}

/// What git answers; for tests' own use of it.
pub(crate) fn git(folder: &Path, args: &[&str]) -> String {
    let output = command(folder).args(args).output().expect("git runs");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// Write a file and commit it.
pub(crate) fn commit(folder: &Path, file: &str, text: &str, words: &str) -> Sha {
    let at = folder.join(file);
    std::fs::create_dir_all(at.parent().expect("a folder")).expect("made");
    std::fs::write(at, text).expect("written");
    git(folder, &["add", "--", file]);
    git(folder, &["commit", "-q", "--allow-empty", "-m", words]);
    head(folder, "HEAD")
}

pub(crate) fn head(folder: &Path, name: &str) -> Sha {
    git(folder, &["rev-parse", name]).parse().expect("a sha")
}

pub(crate) fn task(id: &str) -> TaskId {
    id.parse().expect("a task's id")
}

pub(crate) fn main_branch() -> RefName {
    RefName::branch("main").expect("a name")
}

impl Bench {
    /// A repository with three files on `main`, checked out.
    pub(crate) fn new() -> Bench {
        let temp = tempfile::tempdir().expect("a folder");
        let layout = Layout::new(temp.path().join("netsky"));
        netsky_disk::fs::Dir::create(layout.state()).expect("a home");
        let repo = temp.path().join("repo");
        std::fs::create_dir(&repo).expect("made");
        git(&repo, &["init", "-q", "-b", "main", "--template="]);
        for name in ["a", "b", "c"] {
            commit(&repo, name, &format!("{name} 1\n{name} 2\n{name} 3\n"), &format!("add {name}"));
        }
        Bench { temp, layout, repo }
    }

    /// A task's workspace; its clone.
    pub(crate) fn workspace(&self, id: &str) -> PathBuf {
        let wish = Wish {
            task: task(id),
            repo: self.remote(),
            main: main_branch(),
            branch: None,
            author: None,
            share_from: SHARE_FROM,
        };
        let made = create(&self.layout, &Git::find().expect("git"), &wish).expect("a workspace");
        made.folder(&self.layout)
    }

    pub(crate) fn remote(&self) -> Remote {
        self.repo.to_str().expect("text").parse().expect("a path")
    }

    /// A harvest of a task from its workspace, without a gate.
    pub(crate) fn job(&self, id: &str) -> Job {
        Job {
            layout: self.layout.clone(),
            git: Git::find().expect("git"),
            repo: self.repo.clone(),
            main: main_branch(),
            workspace: self.layout.workspace(&task(id)).join("repo"),
            branch: RefName::of_task(&task(id)),
            task: task(id),
            base: None,
            seen: None,
            mode: Mode::Pick,
            gate: Gate {
                command: gate::Command::None,
                helper: vec![HELPER.to_owned(), "gate".to_owned()],
                ..Gate::default()
            },
            is_dry: false,
            retries: 20,
            patience: Duration::from_secs(120),
        }
    }

    pub(crate) fn harvest(&self, id: &str) -> Outcome {
        harvest(&self.job(id)).expect("an outcome")
    }

    pub(crate) fn main(&self) -> Sha {
        head(&self.repo, "refs/heads/main")
    }

    /// Starts the helper with arguments and variables, and waits for it.
    pub(crate) fn helper(&self, args: &[&str], set: &[(&str, &str)]) -> Output {
        Command::new(HELPER).args(args).envs(set.iter().copied()).output().expect("the helper runs")
    }

    /// The helper's harvest of a task.
    pub(crate) fn helper_harvest(&self, id: &str, set: &[(&str, &str)]) -> Output {
        let workspace = self.layout.workspace(&task(id)).join("repo");
        let text = |path: &Path| path.to_str().expect("text").to_owned();
        let args = [text(self.layout.home()), text(&self.repo), text(&workspace)];
        self.helper(&["harvest", &args[0], &args[1], &args[2], id], set)
    }

    /// The helper's harvest of a task, held at a point for as long as something is done.
    pub(crate) fn held_harvest(&self, id: &str, point: &str, act: impl FnOnce()) -> String {
        let workspace = self.layout.workspace(&task(id)).join("repo");
        let mut helper = Command::new(HELPER);
        helper.arg("harvest").args([self.layout.home(), &self.repo, &workspace]).arg(id);
        helper.env("NETSKY_FAULT", format!("{point}=stop")).stdout(Stdio::piped());
        String::from_utf8_lossy(&meanwhile(helper, act).stdout).into_owned()
    }

    /// The owner's repository is whole, its files are those of its tip, and nothing of ours is left in it.
    pub(crate) fn assert_whole(&self) {
        git(&self.repo, &["fsck", "--strict", "--full"]);
        assert_eq!(git(&self.repo, &["status", "--porcelain"]), "", "the files are those of the tip");
        assert_eq!(git(&self.repo, &["for-each-ref", "refs/netsky"]), "", "no ref of ours is left");
        let inside = std::fs::read_dir(self.repo.join(".git")).expect("listed");
        let names: Vec<String> =
            inside.map(|e| e.expect("one").file_name().to_string_lossy().into()).collect();
        assert!(!names.iter().any(|name| name.contains("netsky") || name.ends_with(".lock")), "{names:?}");
        assert!(!self.repo.join(".git/FETCH_HEAD").exists(), "A9");
    }

    /// How often commits say that they are of a task.
    pub(crate) fn times_landed(&self, id: &str) -> usize {
        let told = git(&self.repo, &["log", "--format=%(trailers:key=Harvest-Task,valueonly=true)", "main"]);
        told.lines().filter(|line| *line == id).count()
    }
}

/// Holds a process of ours at its point, does something, and lets it go on.
pub(crate) fn meanwhile(mut command: Command, act: impl FnOnce()) -> Output {
    let child = command.spawn().expect("it starts");
    let id = process::identify_child(child.id()).expect("ours");
    while !process::is_stopped(&id) {
        clock::pause(Duration::from_millis(5));
    }
    // Whoever stands still would do so for ever, with our pipe, where the test fails here.
    let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
    process::signal(&id, process::Signal::CONT).expect("ours");
    let output = child.wait_with_output().expect("it ends");
    acted.unwrap_or_else(|failed| std::panic::resume_unwind(failed));
    output
}

/// A bench that can be as it was again, in its place: what is in it names that place.
pub(crate) struct Kept {
    bench: Bench,
    as_it_was: tempfile::TempDir,
}

impl Kept {
    pub(crate) fn of(bench: Bench) -> Kept {
        let as_it_was = tempfile::tempdir().expect("a folder");
        copied(bench.temp.path(), &as_it_was.path().join("bench"));
        Kept { bench, as_it_was }
    }

    /// As it was, whatever it has come to.
    pub(crate) fn anew(&self) -> &Bench {
        std::fs::remove_dir_all(self.bench.temp.path()).expect("ours");
        copied(&self.as_it_was.path().join("bench"), self.bench.temp.path());
        &self.bench
    }
}

/// A folder with all that is in it, times and all: what git knows of its files holds of the copy.
fn copied(from: &Path, to: &Path) {
    let status = Command::new("cp").args(["-a", "--"]).args([from, to]).status().expect("cp runs");
    assert!(status.success());
}

#[track_caller]
pub(crate) fn landed(outcome: Outcome) -> Landed {
    match outcome {
        Outcome::Landed(landed) => landed,
        other => panic!("it did not land: {other:?}"),
    }
}

/// What a sweep of the desk does, in which nothing fails.
pub(crate) fn sweep(bench: &Bench) -> Sweep {
    let swept = crate::desk::desk(bench, |desk| desk.sweep_workspaces(false).expect("swept"));
    assert!(swept.failed.is_none(), "{swept:?}");
    swept
}

/// What a sweep of workspaces takes away.
pub(crate) fn swept(layout: &Layout) -> Swept {
    let mut swept = Swept::default();
    gc(layout, &|_| Ok(()), &mut swept).expect("swept");
    swept
}

/// These commits are kept, and nothing else is known of.
pub(crate) struct These(pub(crate) BTreeSet<Sha>);

impl Elsewhere for These {
    fn lacks(&self, mut all: BTreeSet<Sha>) -> netsky_work::Result<BTreeSet<Sha>> {
        all.retain(|sha| !self.0.contains(sha));
        Ok(all)
    }
}
