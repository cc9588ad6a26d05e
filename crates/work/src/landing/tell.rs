//! Messages about a harvest: to who did the work, who wanted it, and who works on the same repository.
//!
//! Promise: each is sent once, however often the harvest is asked for: its id derives from what it is about and for whom it is. The
//! sender is agent0, who keeps all others and whom they answer; to agent0 itself it is agentinfinity; never the owner, for titles and
//! names of files are an agent's words. Who harvests sees it and is not told.

use std::collections::BTreeMap;

use netsky_bus::Draft;
use netsky_model::id::{AgentId, EnvelopeId, TaskId};

use super::place::is_of_one;
use super::story::{Story, gate_of, listed, tail_of};
use super::{Desk, Harvested, Wish};
use crate::Result;
use crate::harvest::{Landing, Outcome, touched};
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
    /// That it has landed; whether who did it and who wanted it know. Who works beside them is no reason to wait.
    pub(super) fn tell_landed(
        &self,
        story: &Story,
        landing: &Landing,
        files: &[String],
        said: &mut Harvested,
    ) -> bool {
        let (task, sha) = (&landing.task, landing.sha.as_str());
        let mut text = story.head(task.as_str(), "has landed");
        text += &format!(
            "branch: {}\nsha: {sha} into {}\nbase: {}\ncommits: {}\ngate: {}\nfiles: {}\n",
            story.branch(),
            landing.main.short(),
            story.base(),
            landing.commits,
            gate_of(landing.gate),
            listed(files)
        );
        let mut whom: BTreeMap<AgentId, String> = BTreeMap::new();
        match self.beside(task, story, files) {
            Ok(beside) => whom.extend(beside),
            Err(error) => {
                said.troubles.push(format!("who works on the same repository is not known: {error}"))
            }
        }
        let by = story.by.as_str().parse::<AgentId>().ok();
        let concerned: Vec<AgentId> = by.iter().chain(&story.agent).cloned().collect();
        if let Some(by) = by {
            let did = story.agent.as_ref().map_or_else(String::new, |agent| format!("; {agent} did it"));
            whom.insert(by, format!("You asked for it{did}."));
        }
        if let Some(agent) = &story.agent {
            whom.insert(agent.clone(), "Your work on it is over; its workspace may be removed.".to_owned());
        }
        let mut is_told = true;
        for (to, end) in whom {
            let is_concerned = concerned.contains(&to);
            let letter =
                Letter { kind: "harvest-landed", task, about: sha, to, text: format!("{text}{end}") };
            is_told &= self.post(letter, said) || !is_concerned;
        }
        is_told
    }

    /// That it has not.
    pub(super) fn tell_short(&self, story: &Story, attempt: &str, said: &mut Harvested) {
        let task = said.task.clone();
        let (kind, what, end) = match &said.outcome {
            Outcome::Conflict { commit, files } => (
                "harvest-conflict",
                format!("does not fit on {} as that is now", said.main.short()),
                format!(
                    "commit: {commit}\nfiles: {}\nBring your branch up to date: fetch from origin, rebase (a merge commit is not picked), {}",
                    listed(files),
                    again(&task)
                ),
            ),
            Outcome::GateFailed { log, .. } => (
                "gate-failed",
                "did not pass the gate".to_owned(),
                format!(
                    "{}\nMend it, commit, {}\nlast lines of that log:\n{}",
                    said.line(),
                    again(&task),
                    tail_of(log)
                ),
            ),
            _ => return,
        };
        let Some(to) = story.agent.clone() else { return };
        let text = format!("{}branch: {}\n{end}", story.head(task.as_str(), &what), story.branch());
        self.post(Letter { kind, task: &task, about: attempt, to, text }, said);
    }

    /// Who works on the same repository, each with what is said to it: which of these files it has changed too.
    fn beside(&self, landed: &TaskId, story: &Story, files: &[String]) -> Result<BTreeMap<AgentId, String>> {
        let mut found: BTreeMap<AgentId, String> = BTreeMap::new();
        let Some(own) = workspace::find(self.layout, landed)? else { return Ok(BTreeMap::new()) };
        for (id, other) in workspace::list(self.layout)? {
            let Ok(other) = other else { continue };
            if id == *landed || !is_of_one(&own, &other) {
                continue;
            }
            let task = self.board.get(&id)?.filter(|task| !task.state.is_closed());
            let agent = task.map_or(Ok(None), |task| self.worker(&task))?;
            let Some(agent) = agent.filter(|agent| story.agent.as_ref() != Some(agent)) else { continue };
            let line = match self.job(&other, &Wish::of(&id)).and_then(|job| touched(&job)) {
                Ok(Some(own)) => {
                    match files.iter().filter(|file| own.contains(file)).cloned().collect::<Vec<_>>() {
                        both if both.is_empty() => "none of these files is changed there".to_owned(),
                        both => format!("changed there too, so it may need a rebase: {}", listed(&both)),
                    }
                }
                // It is not told less for it.
                Ok(None) | Err(_) => "what is changed there too may need a rebase".to_owned(),
            };
            let said = found.entry(agent).or_insert_with(|| "You work on the same repository.".to_owned());
            *said += &format!("\n{} (task {id}): {line}", other.branch.short());
        }
        Ok(found)
    }

    /// Sends one; whether it is on its way, or nobody is there for it.
    fn post(&self, letter: Letter<'_>, said: &mut Harvested) -> bool {
        let Letter { kind, task, about, to, text } = letter;
        if self.asker.as_ref() == Some(&to) || !self.bus.knows(&to) {
            return true;
        }
        let from = if to == AgentId::root() { AgentId::infinity() } else { AgentId::root() };
        let draft = Draft {
            kind: Some(kind.to_owned()),
            thread: Some(task.to_string()),
            id: Some(EnvelopeId::derived(&[kind, task.as_str(), about, to.as_str()])),
            ..Draft::new(from.into(), to.clone(), text)
        };
        match self.bus.send(draft) {
            Ok(sent) if sent.duplicate => true,
            Ok(_) => {
                said.told.push(to);
                true
            }
            Err(error) => {
                said.troubles.push(format!("{to} is not told: {error}"));
                false
            }
        }
    }
}

/// How work that was sent back comes to its next harvest.
fn again(task: &TaskId) -> String {
    format!(
        "and report again: netsky report --task {task} --done \"WHAT IS THERE NOW, AND WHAT YOU SAW RUN\"."
    )
}
