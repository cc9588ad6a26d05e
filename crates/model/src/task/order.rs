//! What stands between tasks: which waits for which, and which comes next.

use std::collections::{BTreeMap, BTreeSet};

use super::{State, Task};
use crate::id::{AgentId, TaskId};

/// Where an id stands in a list: numbers by their size, then names.
pub fn place(id: &TaskId) -> (u64, &str) {
    let text = id.as_str();
    // `07` is a name of its own, not another spelling of 7.
    let number = text.parse::<u64>().ok().filter(|number| number.to_string() == text);
    (number.unwrap_or(u64::MAX), text)
}

/// What a task still waits for: those of `after` that are not closed.
pub fn waits_for(task: &Task, tasks: &BTreeMap<TaskId, Task>) -> Vec<TaskId> {
    let is_over = |id: &TaskId| tasks.get(id).is_some_and(|task| task.state.is_closed());
    task.after.iter().filter(|id| !is_over(id)).cloned().collect()
}

/// The task that an agent is to take next: what is assigned to it before what is anybody's, then by priority, then by age.
pub fn next<'a>(tasks: &'a BTreeMap<TaskId, Task>, by: &AgentId) -> Option<&'a Task> {
    let is_free = |task: &&Task| {
        task.state == State::Open
            && task.assignee.as_ref().is_none_or(|to| to == by)
            && waits_for(task, tasks).is_empty()
    };
    let rank = |task: &&'a Task| (task.assignee.is_none(), task.priority, task.created, place(&task.id));
    tasks.values().filter(is_free).min_by_key(rank)
}

/// Tasks that wait for one another, in the order in which they do, the first of them last again; none where all can be begun.
pub fn cycle(tasks: &BTreeMap<TaskId, Task>) -> Option<Vec<TaskId>> {
    let mut known: BTreeSet<&TaskId> = BTreeSet::new();
    for start in tasks.keys() {
        // The way to where we are, and what is left to look at from each step of it.
        let mut way: Vec<(&TaskId, Vec<&TaskId>)> = vec![(start, after(tasks, start))];
        while let Some((at, left)) = way.last_mut() {
            let Some(next) = left.pop() else {
                known.insert(*at);
                way.pop();
                continue;
            };
            if let Some(from) = way.iter().position(|(id, _)| *id == next) {
                let ids = way[from..].iter().map(|(id, _)| (*id).clone());
                return Some(ids.chain([next.clone()]).collect());
            }
            if !known.contains(next) {
                way.push((next, after(tasks, next)));
            }
        }
    }
    None
}

fn after<'a>(tasks: &'a BTreeMap<TaskId, Task>, id: &TaskId) -> Vec<&'a TaskId> {
    tasks.get(id).into_iter().flat_map(|task| &task.after).collect()
}
