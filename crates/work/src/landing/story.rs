//! What is said of a harvest: the data of its facts, and the one line for whoever asked.

use std::path::PathBuf;

use netsky_disk::state;
use netsky_model::id::{AgentId, Sender};
use netsky_model::render;
use netsky_model::task::Task;
use serde_json::{Value, json};

use super::{Harvested, Wish};
use crate::git::{RefName, plain_line};
use crate::harvest::{Job, Landing, Mode, Outcome};

/// Most files that a fact and a message name.
const MOST_FILES: usize = 50;
/// Longest name of a file in them, in characters.
const LONGEST: usize = 200;
/// Lines of the end of a gate's log that are told, and most bytes of them.
const TAIL: (usize, usize) = (20, 4 * 1024);

/// What is the same in all that is said of one harvest.
pub(super) struct Story {
    /// Who did the work, if anybody is known to have.
    pub(super) agent: Option<AgentId>,
    /// Who wanted it.
    pub(super) by: Sender,
    title: String,
    repo: PathBuf,
    branch: RefName,
    base: String,
    data: Value,
}

impl Story {
    pub(super) fn of(task: &Task, agent: Option<AgentId>, by: Sender, job: &Job, wish: &Wish) -> Story {
        let mode = match wish.mode {
            Mode::Pick => "pick",
            Mode::Squash => "squash",
            Mode::Merge => "merge",
        };
        let title = render::line(&task.title.to_string());
        let data = json!({
            "task": task.id, "title": title, "agent": agent, "by": by, "repo": job.repo, "main": job.main.short(),
            "branch": job.branch.short(), "base": job.base, "mode": mode,
        });
        let base = job.base.as_ref().map(ToString::to_string).unwrap_or_default();
        Story { agent, by, title, repo: job.repo.clone(), branch: job.branch.clone(), base, data }
    }

    /// What every fact of it says, and these.
    pub(super) fn with(&self, more: Value) -> Value {
        let mut data = self.data.clone();
        if let (Some(data), Value::Object(more)) = (data.as_object_mut(), more) {
            data.extend(more);
        }
        data
    }

    /// What the fact of a landing says.
    pub(super) fn landed(&self, landing: &Landing, files: &[String]) -> Value {
        self.with(json!({
            "sha": landing.sha, "from": landing.old, "tip": landing.tip, "commits": landing.commits,
            "files": short(files), "more_files": files.len().saturating_sub(MOST_FILES), "gate": gate_of(landing.gate),
        }))
    }

    pub(super) fn branch(&self) -> &str {
        self.branch.short()
    }

    /// The commit that the branch began at.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// How a message about it begins.
    pub(super) fn head(&self, task: &str, what: &str) -> String {
        format!(
            "Task {task} {what}: {}\nrepository: {}\n",
            self.title,
            plain_line(&self.repo.to_string_lossy())
        )
    }
}

/// The first names of files, none longer than anybody reads.
pub(super) fn short(files: &[String]) -> Vec<String> {
    files.iter().take(MOST_FILES).map(|name| name.chars().take(LONGEST).collect()).collect()
}

/// The same in a line, and how many more there are.
pub(super) fn listed(files: &[String]) -> String {
    let more = files.len().saturating_sub(MOST_FILES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", short(files).join(", "))
}

/// What a gate was shut in by; `none` where there was no gate.
pub(super) fn gate_of(gate: Option<crate::gate::Shut>) -> String {
    gate.map_or_else(|| "none".to_owned(), |shut| shut.to_string())
}

/// The last lines of a gate's log, as plain text.
pub(super) fn tail_of(log: &std::path::Path) -> String {
    let bytes = state::read(log).ok().flatten().unwrap_or_default();
    let (lines, most) = TAIL;
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(most)..]).into_owned();
    let text = render::plain(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

impl Harvested {
    /// What came of it, in a line.
    pub fn line(&self) -> String {
        let (task, main) = (&self.task, self.main.short());
        match &self.outcome {
            Outcome::Landed(landed) => {
                format!("harvested task {task} sha={} into {main} gate={}", landed.sha, gate_of(landed.gate))
            }
            Outcome::AlreadyLanded { sha } => {
                let way =
                    format!("; its branch has more since: `netsky task reopen {task}` takes it up again");
                let more = if self.has_more { way } else { String::new() };
                format!("task {task} has landed before: sha={sha} into {main}{more}")
            }
            Outcome::WouldLand { commits, gate } => {
                let gate = gate_of(*gate);
                let what = if *commits == 1 { "commit" } else { "commits" };
                format!(
                    "task {task} would land: {commits} {what} into {main} gate={gate}; nothing was changed"
                )
            }
            Outcome::Empty => {
                format!("task {task} adds nothing to {main} by its branch {}", self.branch.short())
            }
            Outcome::Conflict { .. } => format!("task {task} conflicts with {main}: {}", self.why()),
            Outcome::GateFailed { .. } => format!("the gate of task {task} {}", self.why()),
            Outcome::DirtyMain { .. } | Outcome::Behind { .. } | Outcome::Moved { .. } => self.why(),
            Outcome::Refused(_) => format!("task {task} is refused: {}", self.why()),
        }
    }

    /// Why it did not land; empty where it did.
    pub(super) fn why(&self) -> String {
        let main = self.main.short();
        match &self.outcome {
            Outcome::Landed(_) | Outcome::AlreadyLanded { .. } | Outcome::WouldLand { .. } => String::new(),
            Outcome::Empty => format!("its branch adds nothing to {main}"),
            Outcome::Conflict { commit, files } => format!("commit {commit} and {}", listed(files)),
            Outcome::GateFailed { status, log, .. } => {
                let ended = "was ended at its limit or by a signal".to_owned();
                let how = status.map_or(ended, |status| format!("ended with {status}"));
                format!("{how}: {}", plain_line(&log.to_string_lossy()))
            }
            Outcome::DirtyMain { files } => {
                format!("{main} is checked out with changes that are not committed: {}", files.join(", "))
            }
            Outcome::Behind { sha, why } => {
                format!("the files of {main} are behind {sha}, which has landed before: {why}")
            }
            Outcome::Refused(why) => why.clone(),
            Outcome::Moved { tries } => format!("{main} moved each of {tries} times that it was tried"),
        }
    }
}
