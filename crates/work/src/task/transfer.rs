//! Tasks as lines of JSON: out of one home, into another.
//!
//! Promise: every line is read and judged before any is told, and a task that is there already is passed by, however it stands by
//! now: an import that was cut goes on when it is repeated. A claim is of a session, and a session of its home: what was claimed
//! there is open here.

use std::collections::BTreeSet;

use jiff::Timestamp;
use netsky_disk::clock;
use netsky_model::id::{AgentId, Label, Sender, TaskId};
use netsky_model::task::{Brief, Draft, Priority, State, Task, Title, cycle};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::decide::{Decision, fit, read};
use super::{Board, Error, FAMILY, Result, Tasks};

/// Most lines of one import.
pub const MAX_LINES: usize = 10_000;
/// Longest import in bytes: its facts are told together.
pub const MAX_IMPORT: usize = 8 * 1024 * 1024;
/// Newest version of a line.
const VERSION: u64 = 1;

/// One task as a line: itself, with the text of its brief. Its id and its title have to be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    #[serde(default = "newest")]
    v: u64,
    id: TaskId,
    title: Title,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repo: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    main: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    brief: Option<String>,
    #[serde(default)]
    priority: Priority,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    labels: BTreeSet<Label>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    after: BTreeSet<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    assignee: Option<AgentId>,
    by: Option<Sender>,
    state: Option<State>,
    created: Option<Timestamp>,
    updated: Option<Timestamp>,
}

fn newest() -> u64 {
    VERSION
}

/// What came of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Tasks that are there now and were not.
    pub imported: Vec<TaskId>,
    /// Tasks that were there already.
    pub known: Vec<TaskId>,
}

impl Board {
    /// Every task as a line.
    ///
    /// # Errors
    /// The record does not read, or the brief of a task does not.
    pub fn export(&self) -> Result<Vec<Line>> {
        self.list()?.into_iter().map(|task| Ok(Line::of(self.brief(&task)?, task))).collect()
    }

    /// Tells the tasks of an export that are not there yet. All of them fit, or none is told.
    ///
    /// # Errors
    /// [`Error::Line`]: a line is no task, is another task than the one of that id, or waits for what is in neither.
    pub fn import(&self, text: &str) -> Result<Imported> {
        let lines = parse(text)?;
        // A look at all of it, before the first brief is written.
        self.judge(&lines, &self.tasks()?)?;
        for (_, line) in &lines {
            line.brief.as_deref().map(|text| self.keep_brief(text)).transpose()?;
        }
        self.facts.decide(|deciding| {
            let (new, known) = self.judge(&lines, &read(deciding.latest(FAMILY)?)?)?;
            let mut decision = Decision::by(&self.actor);
            for task in &new {
                decision.tell("imported", json!({}), task)?;
            }
            decision.record(deciding)?;
            Ok(Imported { imported: new.into_iter().map(|task| task.id).collect(), known })
        })
    }

    /// The tasks that are new, and those that are there.
    fn judge(&self, lines: &[(usize, Line)], there: &Tasks) -> Result<(Vec<Task>, Vec<TaskId>)> {
        let (mut tasks, mut new, mut known) = (there.clone(), Vec::new(), Vec::new());
        for (at, line) in lines {
            let wrong = |why: String| Error::Line { line: *at, why };
            match tasks.get(&line.id) {
                Some(task) if !there.contains_key(&task.id) => {
                    return Err(wrong(format!("task {} is in two lines", line.id)));
                }
                Some(task) if line.is_of(task) => known.push(task.id.clone()),
                Some(_) => return Err(wrong(format!("another task {} is there already", line.id))),
                None => {
                    let task = line.clone().into_task(self.actor.name()).map_err(|e| wrong(e.to_string()))?;
                    fit(&task).map_err(|error| wrong(error.to_string()))?;
                    tasks.insert(task.id.clone(), task.clone());
                    new.push(task);
                }
            }
        }
        for (at, line) in lines {
            if let Some(unknown) = line.after.iter().find(|id| !tasks.contains_key(id)) {
                let why = format!("it waits for {unknown}, which is neither here nor there");
                return Err(Error::Line { line: *at, why });
            }
        }
        if let Some(ids) = cycle(&tasks) {
            let at = lines.iter().find(|(_, line)| ids.contains(&line.id)).map_or(1, |(at, _)| *at);
            return Err(Error::Line { line: at, why: Error::Cycle(ids).to_string() });
        }
        Ok((new, known))
    }
}

/// The lines that are not empty, each with its number.
fn parse(text: &str) -> Result<Vec<(usize, Line)>> {
    let wrong = |line: usize, why: String| Error::Line { line, why };
    if text.len() > MAX_IMPORT {
        return Err(wrong(1, format!("{} bytes are over the limit of {MAX_IMPORT}", text.len())));
    }
    let mut lines = Vec::new();
    for (at, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let line: Line = serde_json::from_str(text).map_err(|error| wrong(at + 1, error.to_string()))?;
        if line.v > VERSION {
            return Err(wrong(at + 1, format!("its version {} is newer than this program", line.v)));
        }
        if lines.len() == MAX_LINES {
            return Err(wrong(at + 1, format!("an import has at most {MAX_LINES} tasks")));
        }
        lines.push((at + 1, line));
    }
    Ok(lines)
}

impl Line {
    fn of(brief: Option<String>, task: Task) -> Line {
        let Task { id, title, repo, main, priority, labels, after, assignee, .. } = task;
        let (by, state) = (Some(task.by), Some(task.state));
        let (created, updated) = (Some(task.created), Some(task.updated));
        let v = VERSION;
        Line {
            v,
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
            created,
            updated,
        }
    }

    /// Whether a task is the one of the line: made at that instant, and of that title where the line does not say when.
    fn is_of(&self, task: &Task) -> bool {
        self.created.map_or(self.title == task.title, |created| created == task.created)
    }

    fn into_task(self, importer: Sender) -> Result<Task> {
        let brief = self.brief.as_deref().map(Brief::of).transpose()?;
        let Line { id, title, repo, main, priority, labels, after, assignee, by, state, .. } = self;
        let draft = Draft { id: None, title, repo, main, brief, priority, labels, after, assignee };
        let created = self.created.unwrap_or_else(clock::wall);
        let mut task = draft.into_task(id, by.unwrap_or(importer), created);
        task.updated = self.updated.unwrap_or(created);
        task.state = match state {
            None | Some(State::Claimed { .. }) => State::Open,
            Some(state) => state,
        };
        Ok(task)
    }
}
