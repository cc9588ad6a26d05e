//! Messages about a harvest: to who did the work, who wanted it, and who works on the same repository.
//!
//! Promise: each is sent once, however often the harvest is asked for: its id derives from what it is about and for whom it is. The
//! sender is agent0, who keeps all others and whom they answer; to agent0 itself it is agentinfinity; never the owner, for titles and
//! names of files are an agent's words. Who harvests sees it and is not told.

use std::collections::BTreeMap;

use netsky_bus::Draft;
use netsky_model::id::{AgentId, EnvelopeId, TaskId};

use super::place::{holder, is_of_one};
use super::story::{Story, gate_of, tail_of};
use super::{Desk, Harvested};
use crate::Result;
use crate::harvest::{Landing, Outcome};
use crate::workspace;

/// One message.
struct Letter<'a> {
    kind: &'static str,
    task: &'a TaskId,
    /// What it is about: a second one of the same is none.
    about: &'a str,
    to: AgentId,
    text: String,
}

impl Desk<'_> {
    /// That it has landed.
    pub(super) fn tell_landed(
        &self,
        story: &Story,
        landing: &Landing,
        (files, more): (&[String], usize),
        said: &mut Harvested,
    ) {
        let (task, sha) = (&landing.task, landing.sha.as_str());
        let mut text = story.head(task.as_str(), "has landed");
        text += &format!(
            "branch: {}\nsha: {sha} into {}\nbase: {}\ncommits: {}\ngate: {}\nfiles: {}\n",
            story.branch(),
            landing.main.short(),
            story.base(),
            landing.commits,
            gate_of(landing.gate),
            listed(files, more)
        );
        let mut whom: BTreeMap<AgentId, String> = BTreeMap::new();
        match self.beside(task, story) {
            Ok(beside) => whom.extend(beside),
            Err(error) => {
                said.troubles.push(format!("who works on the same repository is not known: {error}"))
            }
        }
        if let Ok(by) = story.by.as_str().parse::<AgentId>() {
            let did = story.agent.as_ref().map_or_else(String::new, |agent| format!("; {agent} did it"));
            whom.insert(by, format!("You asked for it{did}."));
        }
        if let Some(agent) = &story.agent {
            whom.insert(agent.clone(), "Your work on it is over; its workspace may be removed.".to_owned());
        }
        for (to, end) in whom {
            let letter =
                Letter { kind: "harvest-landed", task, about: sha, to, text: format!("{text}{end}") };
            self.post(letter, said);
        }
    }

    /// That it has not.
    pub(super) fn tell_short(&self, story: &Story, attempt: &str, said: &mut Harvested) {
        let task = said.task.clone();
        let (kind, what, end) = match &said.outcome {
            Outcome::Conflict { commit, files } => (
                "harvest-conflict",
                "does not fit on main as that is now",
                format!(
                    "commit: {commit}\nfiles: {}\nBring your branch up to date: fetch from origin, rebase or merge, and report again.",
                    listed(files, 0)
                ),
            ),
            Outcome::GateFailed { log, .. } => (
                "gate-failed",
                "did not pass the gate",
                format!("{}\nlog: {}\nlast lines of it:\n{}", said.line(), log.display(), tail_of(log)),
            ),
            _ => return,
        };
        let Some(to) = story.agent.clone() else { return };
        let text = format!("{}branch: {}\n{end}", story.head(task.as_str(), what), story.branch());
        self.post(Letter { kind, task: &task, about: attempt, to, text }, said);
    }

    /// Who works on the same repository, each with what is said to it.
    fn beside(&self, landed: &TaskId, story: &Story) -> Result<BTreeMap<AgentId, String>> {
        let mut found: BTreeMap<AgentId, Vec<TaskId>> = BTreeMap::new();
        let Some(own) = workspace::find(self.layout, landed)? else { return Ok(BTreeMap::new()) };
        for (id, other) in workspace::list(self.layout)? {
            let Ok(other) = other else { continue };
            if id == *landed || !is_of_one(&own, &other) {
                continue;
            }
            let task = self.board.get(&id)?.filter(|task| !task.state.is_closed());
            let agent = task.as_ref().and_then(holder).filter(|agent| story.agent.as_ref() != Some(*agent));
            if let Some(agent) = agent {
                found.entry(agent.clone()).or_default().push(id);
            }
        }
        let said = |tasks: Vec<TaskId>| {
            let tasks: Vec<&str> = tasks.iter().map(TaskId::as_str).collect();
            format!(
                "You work on the same repository, for task {}: what you changed of these files may need a rebase.",
                tasks.join(", ")
            )
        };
        Ok(found.into_iter().map(|(agent, tasks)| (agent, said(tasks))).collect())
    }

    fn post(&self, letter: Letter<'_>, said: &mut Harvested) {
        let Letter { kind, task, about, to, text } = letter;
        if self.asker.as_ref() == Some(&to) || !self.bus.knows(&to) {
            return;
        }
        let from = if to == AgentId::root() { AgentId::infinity() } else { AgentId::root() };
        let draft = Draft {
            kind: Some(kind.to_owned()),
            thread: Some(task.to_string()),
            id: Some(EnvelopeId::derived(&[kind, task.as_str(), about, to.as_str()])),
            ..Draft::new(from.into(), to.clone(), text)
        };
        match self.bus.send(draft) {
            Ok(sent) if sent.duplicate => {}
            Ok(_) => said.told.push(to),
            Err(error) => said.troubles.push(format!("{to} is not told: {error}")),
        }
    }
}

fn listed(files: &[String], more: usize) -> String {
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", super::story::short(files).join(", "))
}
