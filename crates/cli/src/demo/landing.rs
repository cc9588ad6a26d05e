//! How work lands in the demo: what the record says of each task, and whether that is so on `main`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use netsky_disk::state;
use netsky_ledger::Fact;
use netsky_model::id::AgentId;
use netsky_model::task::{How, State};

use crate::demo::agent::task::{FOLDER, FOUND, LIST, TASKS, standing};
use crate::demo::programs::{git, owners_verb};
use crate::demo::repository::{Repository, text};
use crate::demo::verdict::Evidence;
use crate::error::Error;

/// What the record says of one task.
#[derive(Debug, Clone, Default)]
pub(crate) struct Work {
    /// Whose it is.
    pub(crate) agent: Option<AgentId>,
    /// How often it did not fit on `main`.
    pub(crate) conflicts: usize,
    pub(crate) landed: Option<Landed>,
}

/// That it is on `main`.
#[derive(Debug, Clone)]
pub(crate) struct Landed {
    pub(crate) at: Timestamp,
    pub(crate) sha: String,
    /// What its gate was shut in by.
    pub(crate) gate: String,
}

/// By the ids of their tasks.
pub(crate) type Works = BTreeMap<String, Work>;

/// The task that a fact of a harvest is about.
pub(crate) fn task_of(fact: &Fact) -> Option<&str> {
    fact.kind.starts_with("harvest.").then(|| fact.data["task"].as_str()).flatten()
}

/// One more fact.
pub(crate) fn tell(works: &mut Works, fact: &Fact) {
    let Some(task) = task_of(fact) else { return };
    let said = |key: &str| fact.data[key].as_str().unwrap_or_default().to_owned();
    let work = works.entry(task.to_owned()).or_default();
    work.agent = said("agent").parse().ok().or_else(|| work.agent.take());
    match fact.kind.as_str() {
        "harvest.conflict" => work.conflicts += 1,
        "harvest.landed" => work.landed = Some(Landed { at: fact.ts, sha: said("sha"), gate: said("gate") }),
        _ => {}
    }
}

/// Whether each clone's task has landed.
pub(crate) fn is_all_landed(works: &Works, clones: u32) -> bool {
    let landed = |id: &str| works.get(id).is_some_and(|work| work.landed.is_some());
    TASKS.into_iter().take(clones as usize).all(|task| landed(task.word()))
}

/// Every task is closed as landed, its one commit on `main` is its clone's and went through the gate, nothing else is there, and
/// of two clones that began one list the second put both lines together.
pub(crate) fn judge(
    evidence: &Evidence,
    repository: &Repository,
    works: &Works,
    problems: &mut Vec<String>,
) -> Result<(), Error> {
    let (place, clones) = (&evidence.place, evidence.clones);
    let origin = place.origin();
    let tasks = standing(&owners_verb(place, LIST)?)?;
    let format = "--format=%H%x09%an%x09%(trailers:key=Harvest-Task,valueonly,separator=%x2C)";
    let log = text(&git(place, &origin, ["log", format, &format!("{}..main", repository.head)])?);
    let commits: Vec<&str> = log.lines().collect();
    let list = git(place, &origin, ["show", &format!("main:{FOLDER}/{FOUND}")]).unwrap_or_default();
    let list = text(&list);
    for (clone, task) in (1..=clones).map(AgentId::numbered).zip(TASKS) {
        let id = task.word();
        let Some(State::Closed { how: How::Landed { sha, .. }, .. }) = tasks.get(id) else {
            problems.push(format!("task {id} is not closed as landed"));
            continue;
        };
        if !commits.contains(&format!("{sha}\t{clone}\t{id}").as_str()) {
            problems.push(format!("main has no commit {sha} of {id} by {clone}"));
        }
        if !state::exists(place.layout().harvests().join(format!("{id}.gate.log")))? {
            problems.push(format!("{id} landed without its gate"));
        }
        let is_line = |line: &&str| line.starts_with(&format!("- {id}: "));
        if task.is_noted() && list.lines().filter(is_line).count() != 1 {
            problems.push(format!("{FOUND} has not the one line of {id}"));
        }
    }
    if commits.len() != clones as usize {
        problems.push(format!("{} commits landed of {clones} tasks", commits.len()));
    }
    let conflicts: usize = works.values().map(|work| work.conflicts).sum();
    // A harvest that is killed may meet the same conflict twice.
    if evidence.killed.is_empty() && conflicts != usize::from(clones > 1) {
        problems.push(format!("{conflicts} harvests of {clones} tasks met a conflict"));
    }
    if let Err(error) = git(place, &origin, ["fsck", "--full", "--no-dangling", "--no-progress"]) {
        problems.push(format!("the repository is damaged: {error}"));
    }
    Ok(())
}
