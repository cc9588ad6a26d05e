//! Tasks in the hands of clones: handed out once, followed through deaths, reported once.

mod blocked;
mod brief;
mod ends;
mod own;
mod points;
mod report;

use std::path::PathBuf;
use std::process::{Command, Output};

use netsky_disk::layout::Layout;
use netsky_ledger::Fact;
use netsky_model::id::{Sender, TaskId};
use netsky_model::task::{Actor, Draft, Task, Title};
use netsky_work::task::Board;
use serde_json::Value;

use crate::stage::{QUIET, Stage};

/// A constellation in which only the test's own ticks act.
pub(crate) struct Yard {
    pub(crate) stage: Stage,
}

impl Yard {
    /// agent0 and nobody else; whoever is started for a task is up and then does nothing.
    pub(crate) fn new() -> Yard {
        Yard::with(QUIET, "")
    }

    /// The same, of slots with this script, and with more settings.
    pub(crate) fn with(script: &str, more: &str) -> Yard {
        let stage = Stage::new();
        stage.ok(&["init"]);
        let script = script.replace('"', "\\\"");
        let config = format!("[defaults]\nargv = [\"/bin/sh\", \"-c\", \"{script}\"]\n{more}");
        std::fs::write(stage.home().join("config.toml"), config).expect("written");
        stage.ok(&["up", "0", "--tick", "10m"]);
        stage.hold_triggers();
        Yard { stage }
    }

    fn layout(&self) -> Layout {
        Layout::new(self.stage.home())
    }

    pub(crate) fn board(&self) -> Board {
        Board::new(&self.layout(), Actor::Keeper(Sender::owner()))
    }

    /// A task without a repository.
    pub(crate) fn task(&self, title: &str) -> String {
        self.make(title, None)
    }

    /// A task of the repository.
    pub(crate) fn work(&self, title: &str) -> String {
        self.make(title, Some(self.repository().display().to_string()))
    }

    fn make(&self, title: &str, repo: Option<String>) -> String {
        let board = self.board();
        let brief = Some(board.keep_brief("Make it so.").expect("kept"));
        let title = Title::try_from(title.to_owned()).expect("a title");
        board.create(Draft { repo, brief, ..Draft::new(title) }).expect("made").id.to_string()
    }

    /// The owner's repository, made once.
    pub(crate) fn repository(&self) -> PathBuf {
        let repo = self.stage.outside("repo");
        if !repo.exists() {
            std::fs::create_dir(&repo).expect("made");
            std::fs::write(repo.join("a.txt"), "a\n").expect("written");
            for args in [
                &["init", "--quiet", "--initial-branch=main"][..],
                &["add", "a.txt"],
                &["-c", "user.name=O", "-c", "user.email=o@example.org", "commit", "--quiet", "-m", "a"],
            ] {
                let mut git = Command::new("git");
                git.args(args).current_dir(&repo).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", &repo);
                assert!(git.status().expect("git starts").success(), "{args:?}");
            }
        }
        repo
    }

    /// As it is now.
    pub(crate) fn state(&self, task: &str) -> Value {
        let task: Task = self.board().get(&id(task)).expect("it reads").expect("there");
        serde_json::to_value(task.state).expect("plain data")
    }

    /// The facts of a kind, oldest first.
    pub(crate) fn facts(&self, kind: &str) -> Vec<Fact> {
        let mut facts = netsky_ledger::facts(&self.layout()).expect("they read");
        facts.retain(|fact| fact.kind == kind);
        facts
    }

    /// The mail of an agent that is of a kind, wherever it is by now.
    pub(crate) fn mail(&self, agent: &str, kind: &str) -> Vec<Value> {
        let listed = self.json(&["channel", "list", agent, "--json"]);
        let all = listed["envelopes"].as_array().expect("a list");
        all.iter().filter(|one| one["kind"] == kind).cloned().collect()
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.stage.ok(args)).expect("one JSON object")
    }

    /// As whoever an incarnation of an agent says it is.
    pub(crate) fn as_agent(&self, agent: &str, generation: u64, args: &[&str]) -> Command {
        let mut command = self.stage.command(args);
        command.env("NETSKY_AGENT", agent).env("NETSKY_GENERATION", generation.to_string());
        command
    }

    /// A report by an incarnation of an agent.
    pub(crate) fn report(&self, agent: &str, generation: u64, args: &[&str]) -> (i32, String) {
        let args: Vec<&str> = ["report"].iter().chain(args).copied().collect();
        said(&self.as_agent(agent, generation, &args).output().expect("the program starts"))
    }

    /// Killed at a fault point; it must be hit.
    pub(crate) fn killed(&self, point: &str, mut command: Command) {
        let log = self.stage.outside(&format!("hit-{point}"));
        command.env("NETSKY_FAULT", format!("{point}=kill")).env("NETSKY_FAULT_LOG", &log);
        let output = command.output().expect("the program starts");
        assert!(log.exists(), "{point} was not hit: {:?}", said(&output));
        assert!(output.status.code().is_none(), "{point}: it was not killed");
    }

    pub(crate) fn is_in_hand(&self, task: &str) -> bool {
        self.stage.home().join(format!("state/dispatches/{task}.json")).exists()
    }
}

pub(crate) fn id(task: &str) -> TaskId {
    task.parse().expect("an id")
}

/// Exit code and what was said.
pub(crate) fn said(output: &Output) -> (i32, String) {
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (output.status.code().unwrap_or(-1), text.concat())
}
