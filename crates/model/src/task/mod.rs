//! A task: what is to be done, who has it, and what became of it; and the one function that moves it.
//!
//! Promise: a claim is of one generation of one agent, and no word of another generation moves the task; what changes nothing is no
//! change. Who may say what is [`may`], what it comes to is [`transition`], and what stands between tasks is in `order`.
//! Leaves to others: whether a generation has ended, and keeping all this (`work::task`).

mod event;
mod order;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{AgentId, BriefDigest, Generation, Label, Sender, TaskId};
use crate::render;

pub use event::{Actor, Change, Denied, Event, Illegal, Verdict, may, transition};
pub use order::{cycle, next, place, waits_for};

/// Longest title in characters.
pub const MAX_TITLE: usize = 200;
/// Longest reason, note or report that is kept with a task, in bytes; what is longer is cut.
pub const MAX_WORDS: usize = 4 * 1024;
/// Longest brief in bytes: as long as a message.
pub const MAX_BRIEF: usize = 256 * 1024;
/// Longest brief that stands in the task itself, in bytes of JSON; a longer one has a file.
pub const MAX_INLINE: usize = 8 * 1024;
/// Most labels of a task.
pub const MAX_LABELS: usize = 16;
/// Most tasks that one waits for.
pub const MAX_AFTER: usize = 64;
/// Longest name of a repository in bytes.
pub const MAX_REPO: usize = 1024;

/// What a task is called: one line that is to be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Title(String);

/// Why a text is nothing that a task may have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is refused: {why}")]
pub struct Unfit {
    /// Of what.
    pub what: &'static str,
    /// Why.
    pub why: String,
}

impl Unfit {
    fn of(what: &'static str, why: impl Into<String>) -> Unfit {
        Unfit { what, why: why.into() }
    }
}

impl TryFrom<String> for Title {
    type Error = Unfit;
    fn try_from(text: String) -> Result<Title, Unfit> {
        let text = text.trim();
        let is_bad = |c: char| c.is_control() || !render::is_visible(c);
        if text.is_empty() {
            return Err(Unfit::of("the title", "it is empty"));
        }
        if text.chars().any(is_bad) {
            return Err(Unfit::of("the title", "it has a control character, or one that is not to be seen"));
        }
        let long = text.chars().count();
        if long > MAX_TITLE {
            let why =
                format!("{long} characters are over the limit of {MAX_TITLE}; put the rest in the brief");
            return Err(Unfit::of("the title", why));
        }
        Ok(Title(text.to_owned()))
    }
}

impl From<Title> for String {
    fn from(title: Title) -> String {
        title.0
    }
}

impl fmt::Display for Title {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// How soon.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// Before all others.
    Urgent,
    /// Before most.
    High,
    /// In its turn.
    #[default]
    Normal,
    /// When there is nothing else.
    Low,
}

/// All of them, the first first.
pub const PRIORITIES: [Priority; 4] = [Priority::Urgent, Priority::High, Priority::Normal, Priority::Low];

impl Priority {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Priority::Urgent => "urgent",
            Priority::High => "high",
            Priority::Normal => "normal",
            Priority::Low => "low",
        }
    }
}

/// What an agent is told of a task at length. It is known by its digest, and has a file of its own where it is long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brief {
    /// blake3 of its text.
    pub digest: BriefDigest,
    /// How long it is.
    pub bytes: u64,
    /// The text; none where it lies in the home's `briefs/<digest>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Brief {
    /// A brief of that text, which is kept with it as long as it is short.
    ///
    /// # Errors
    /// It is empty, or over [`MAX_BRIEF`].
    pub fn of(text: &str) -> Result<Brief, Unfit> {
        if text.trim().is_empty() {
            return Err(Unfit::of("the brief", "it is empty"));
        }
        if text.len() > MAX_BRIEF {
            let why = format!("{} bytes are over the limit of {MAX_BRIEF}", text.len());
            return Err(Unfit::of("the brief", why));
        }
        let in_json = serde_json::to_string(text).map_or(usize::MAX, |json| json.len());
        let text_kept = (in_json <= MAX_INLINE).then(|| text.to_owned());
        Ok(Brief { digest: BriefDigest::of(text), bytes: text.len() as u64, text: text_kept })
    }
}

/// How a task came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "kebab-case")]
pub enum How {
    /// What was done is part of a branch.
    Landed {
        /// The commit there.
        sha: String,
        /// The branch.
        main: String,
    },
    /// It is done, and there was nothing to land.
    Done,
    /// It is not wanted any more.
    Dropped,
}

impl How {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            How::Landed { .. } => "landed",
            How::Done => "done",
            How::Dropped => "dropped",
        }
    }
}

/// Where a task stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum State {
    /// Nobody has it.
    Open,
    /// An agent is at it.
    Claimed {
        /// Who.
        by: AgentId,
        /// In which incarnation: with it the claim ends.
        generation: Generation,
    },
    /// Its agent cannot go on, or gave it up.
    Blocked {
        /// Who.
        by: AgentId,
        /// In which incarnation.
        generation: Generation,
        /// What is in the way.
        why: String,
    },
    /// Its agent says that it is done: it may be harvested.
    Ready {
        /// Who.
        by: AgentId,
        /// In which incarnation.
        generation: Generation,
        /// What was said of it.
        note: String,
    },
    /// It is over.
    Closed {
        /// How.
        #[serde(flatten)]
        how: How,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
}

impl State {
    /// The word used in the record and on screens.
    pub fn word(&self) -> &'static str {
        match self {
            State::Open => "open",
            State::Claimed { .. } => "claimed",
            State::Blocked { .. } => "blocked",
            State::Ready { .. } => "ready",
            State::Closed { .. } => "closed",
        }
    }

    /// Who has it, in which generation; nobody where it is open or closed.
    pub fn holder(&self) -> Option<(&AgentId, Generation)> {
        match self {
            State::Claimed { by, generation }
            | State::Blocked { by, generation, .. }
            | State::Ready { by, generation, .. } => Some((by, *generation)),
            State::Open | State::Closed { .. } => None,
        }
    }

    /// Whether it is over.
    pub fn is_closed(&self) -> bool {
        matches!(self, State::Closed { .. })
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its id: a number, or what its maker called it.
    pub id: TaskId,
    /// In a line.
    pub title: Title,
    /// Where its repository is: an absolute path or an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// The branch that it lands on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main: Option<String>,
    /// At length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief: Option<Brief>,
    /// How soon.
    #[serde(default)]
    pub priority: Priority,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<Label>,
    /// Tasks that are to be closed before it is begun.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub after: BTreeSet<TaskId>,
    /// Who is to do it; anybody where that is nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<AgentId>,
    /// Who made it.
    pub by: Sender,
    /// Where it stands.
    pub state: State,
    /// When it was made.
    pub created: Timestamp,
    /// When it was changed last.
    pub updated: Timestamp,
}

/// What is wanted of a new task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Its id; the next number where there is none.
    pub id: Option<TaskId>,
    /// In a line.
    pub title: Title,
    /// Where its repository is.
    pub repo: Option<String>,
    /// The branch that it lands on.
    pub main: Option<String>,
    /// At length.
    pub brief: Option<Brief>,
    /// How soon.
    pub priority: Priority,
    /// Words to find it by.
    pub labels: BTreeSet<Label>,
    /// Tasks that are to be closed before it is begun.
    pub after: BTreeSet<TaskId>,
    /// Who is to do it.
    pub assignee: Option<AgentId>,
}

impl Draft {
    /// A task of that title, and nothing more.
    pub fn new(title: Title) -> Draft {
        Draft {
            id: None,
            title,
            repo: None,
            main: None,
            brief: None,
            priority: Priority::default(),
            labels: BTreeSet::new(),
            after: BTreeSet::new(),
            assignee: None,
        }
    }

    /// The open task that it is.
    pub fn into_task(self, id: TaskId, by: Sender, at: Timestamp) -> Task {
        let Draft { id: _, title, repo, main, brief, priority, labels, after, assignee } = self;
        let state = State::Open;
        Task {
            id,
            title,
            repo,
            main,
            brief,
            priority,
            labels,
            after,
            assignee,
            by,
            state,
            created: at,
            updated: at,
        }
    }
}

impl Task {
    /// Why it is too much for the record.
    ///
    /// # Errors
    /// It has more labels, or waits for more tasks, than a row of the record holds; or a name in it is too long.
    pub fn fits(&self) -> Result<(), Unfit> {
        let names = [("the repository", &self.repo), ("the branch", &self.main)];
        for (what, name) in names {
            if name.as_ref().is_some_and(|name| name.len() > MAX_REPO) {
                return Err(Unfit::of(what, format!("its name is over {MAX_REPO} bytes")));
            }
        }
        let counts = [("labels", self.labels.len(), MAX_LABELS), ("--after", self.after.len(), MAX_AFTER)];
        match counts.into_iter().find(|(_, count, most)| count > most) {
            Some((what, count, most)) => {
                Err(Unfit::of(what, format!("{count} are over the limit of {most}")))
            }
            None => Ok(()),
        }
    }
}
