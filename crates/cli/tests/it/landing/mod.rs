//! `netsky workspace` and `netsky task harvest` as people type them: from a task to `main`, and who is told.

mod harvests;
mod kills;
mod points;
mod power;
mod queue;
mod seed;
mod workspaces;

use std::path::{Path, PathBuf};
use std::process::Command;

use netsky_disk::layout::Layout;
use netsky_ledger::Fact;
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, Generation, Sender, TaskId};
use netsky_model::task::{Actor, Draft, Event, State, Task, Title, Verdict};
use netsky_work::task::Board;
use serde_json::Value;
use tempfile::TempDir;

use crate::bus_home::{FOLDERS, Home};
use crate::screen::{Said, program, said};

/// A home, and a repository of the owner's with three files on `main`, checked out.
pub(crate) struct Bench {
    pub(crate) home: Home,
    folder: TempDir,
}

/// A bench that can be as it was again, in its place: what is in it names that place.
pub(crate) struct Kept {
    bench: Bench,
    as_it_was: TempDir,
}

impl Kept {
    pub(crate) fn of(bench: Bench) -> Kept {
        let kept = Kept { as_it_was: TempDir::new().expect("a folder"), bench };
        kept.each(copied);
        kept
    }

    /// As it was, whatever it has come to.
    pub(crate) fn anew(&self) -> &Bench {
        self.each(|place, copy| {
            std::fs::remove_dir_all(place).expect("ours");
            copied(copy, place);
        });
        &self.bench
    }

    fn each(&self, done: impl Fn(&Path, &Path)) {
        done(&self.bench.home.path(), &self.as_it_was.path().join("home"));
        done(self.bench.folder.path(), &self.as_it_was.path().join("folder"));
    }
}

/// A folder with all that is in it, times and all: what git knows of its files holds of the copy.
fn copied(from: &Path, to: &Path) {
    let status = Command::new("cp").args(["-a", "--"]).args([from, to]).status().expect("cp runs");
    assert!(status.success());
}

/// Git for tests' own use, without any settings of whoever runs them.
pub(crate) fn git(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").expect("a PATH"));
    command.envs([
        ("HOME", "/nonexistent"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_AUTHOR_NAME", "Ann Agent"),
        ("GIT_AUTHOR_EMAIL", "ann@example.org"),
        ("GIT_COMMITTER_NAME", "Ann Agent"),
        ("GIT_COMMITTER_EMAIL", "ann@example.org"),
    ]);
    let output = command.args(args).output().expect("git runs");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// Writes a file and commits it; the commit.
pub(crate) fn commit(folder: &Path, file: &str, text: &str) -> String {
    std::fs::create_dir_all(folder.join(file).parent().expect("a folder")).expect("made");
    std::fs::write(folder.join(file), text).expect("written");
    git(folder, &["add", "--", file]);
    git(folder, &["commit", "-q", "-m", &format!("change {file}")]);
    git(folder, &["rev-parse", "HEAD"])
}

/// A repository of three files.
pub(crate) fn repository(folder: &Path) {
    std::fs::create_dir(folder).expect("made");
    git(folder, &["init", "-q", "-b", "main", "--template="]);
    for name in ["a", "b", "c"] {
        commit(folder, name, &format!("{name} 1\n{name} 2\n{name} 3\n"));
    }
}

pub(crate) fn id(text: &str) -> TaskId {
    text.parse().expect("an id")
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench::of(Home::init(), TempDir::new().expect("a folder"))
    }

    /// The same in a place of the caller's.
    pub(crate) fn new_in(place: &Path) -> Bench {
        let [home, folder] = [(); 2].map(|()| TempDir::new_in(place).expect("a folder"));
        Bench::of(Home::init_in(home), folder)
    }

    fn of(home: Home, folder: TempDir) -> Bench {
        let bench = Bench { home, folder };
        repository(&bench.repo());
        bench
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    /// Something beside the repository.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::new(self.home.path())
    }

    pub(crate) fn config(&self, text: &str) {
        std::fs::write(self.home.path().join("config.toml"), text).expect("written");
    }

    pub(crate) fn board(&self) -> Board {
        Board::new(&self.layout(), Actor::Keeper(Sender::owner()))
    }

    /// A task of that repository.
    pub(crate) fn task_of(&self, name: &str, repo: &Path) {
        let title = Title::try_from(format!("work on {name}")).expect("a title");
        let repo = Some(repo.to_str().expect("text").to_owned());
        self.board().create(Draft { id: Some(id(name)), repo, ..Draft::new(title) }).expect("a task");
    }

    /// A task of the owner's repository, with its workspace; the clone.
    pub(crate) fn workspace(&self, name: &str) -> PathBuf {
        self.task_of(name, &self.repo());
        self.run(&["workspace", "create", name]).works();
        self.clone_of(name)
    }

    pub(crate) fn clone_of(&self, name: &str) -> PathBuf {
        self.home.path().join("workspaces").join(name).join("repo")
    }

    /// An agent takes a task; it has a mailbox from then on.
    pub(crate) fn claimed(&self, name: &str, agent: &str) {
        let by: AgentId = agent.parse().expect("an agent");
        self.run(&["workspace", "create", name, "--agent", agent]).works();
        let generation = Generation(1);
        let board = Board::new(&self.layout(), Actor::Agent(by.clone(), generation));
        board.act(&id(name), Event::Claimed { by, generation }).expect("claimed");
    }

    /// It says that it is done.
    pub(crate) fn ready(&self, name: &str, agent: &str) {
        let (by, generation): (AgentId, _) = (agent.parse().expect("an agent"), Generation(1));
        let board = Board::new(&self.layout(), Actor::Agent(by.clone(), generation));
        let done = Event::Reported { verdict: Verdict::Done, text: "done".into(), by, generation };
        board.act(&id(name), done).expect("reported");
    }

    pub(crate) fn task(&self, name: &str) -> Task {
        self.board().get(&id(name)).expect("the record reads").expect("a task")
    }

    pub(crate) fn is_closed(&self, name: &str) -> bool {
        matches!(self.task(name).state, State::Closed { .. })
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = program(&self.home, args);
        command.env("PATH", std::env::var_os("PATH").expect("a PATH"));
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        said(&self.home, self.command(args).output().expect("the program starts"))
    }

    /// The same below a session of an agent.
    pub(crate) fn inside(&self, agent: &str, args: &[&str]) -> Said {
        let mut command = self.command(args);
        command.env("NETSKY_AGENT", agent).env("NETSKY_GENERATION", "1");
        command.env("OSTK_MARK", format!("{agent}-0a0b0c0d.g1"));
        said(&self.home, command.output().expect("the program starts"))
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let args = [args, &["--json"]].concat();
        serde_json::from_str(self.run(&args).works()).expect("one object")
    }

    /// The facts of a kind.
    pub(crate) fn facts(&self, kind: &str) -> Vec<Fact> {
        let mut facts = netsky_ledger::facts(&self.layout()).expect("the record reads");
        facts.retain(|fact| fact.kind == kind);
        facts
    }

    /// The messages of a kind that an agent ever was sent.
    pub(crate) fn told(&self, agent: &str, kind: &str) -> Vec<Envelope> {
        let mut told = Vec::new();
        for folder in FOLDERS {
            for file in self.home.files(agent, folder).expect("listed") {
                let bytes = std::fs::read(self.home.channel(agent, folder).join(file)).expect("read");
                told.extend(Envelope::parse(&bytes).ok().filter(|one| one.kind.as_deref() == Some(kind)));
            }
        }
        told
    }

    pub(crate) fn main(&self) -> String {
        git(&self.repo(), &["rev-parse", "main"])
    }

    /// How many commits of `main` say that they are of a task.
    pub(crate) fn times_landed(&self, name: &str) -> usize {
        let format = "--format=%(trailers:key=Harvest-Task,valueonly=true)";
        git(&self.repo(), &["log", format, "main"]).lines().filter(|line| *line == name).count()
    }

    /// The owner's repository is whole, and its files are those of its tip.
    pub(crate) fn assert_whole(&self) {
        git(&self.repo(), &["fsck", "--strict", "--full"]);
        assert_eq!(git(&self.repo(), &["status", "--porcelain"]), "");
    }
}
