//! What a clone is told of its task, and a dispatcher of what became of it.

use std::path::PathBuf;

use netsky_model::dispatch::{Dispatch, End};
use netsky_model::task::Task;

use super::Result;
use crate::task::Board;
use crate::workspace::Workspace;

/// A brief: what is to be done, where, and how to report.
pub(super) fn brief(task: &Task, board: &Board, place: Option<(&Workspace, PathBuf)>) -> Result<String> {
    let id = &task.id;
    let mut text = format!("Task {id}: {}\n", task.title);
    if let Some(brief) = board.brief(task)? {
        text.push_str(&format!("\n{}\n", brief.trim_end()));
    }
    text.push('\n');
    match place {
        Some((place, folder)) => text.push_str(&format!(
            "Work in {folder} and commit there, on its branch {branch}. It began at {base} of {main}; what you commit lands there once \
             it was looked at.\n",
            folder = folder.display(),
            branch = place.branch.short(),
            base = place.base,
            main = place.main.short(),
        )),
        None => text.push_str("It has no repository.\n"),
    }
    text.push_str(&format!(
        "When it is done: netsky report --task {id} --done \"WHAT IS THERE, AND WHAT YOU SAW RUN\". \
         When you cannot go on without somebody's word: --blocked \"WHAT YOU NEED\". When it cannot be done: --failed \"WHY\".\n"
    ));
    Ok(text)
}

/// What became of a task.
pub(super) fn report(had: &Dispatch, end: &End) -> String {
    format!("task {}, {}, {}: {}", had.task, had.agent, end.verdict, end.text)
}
