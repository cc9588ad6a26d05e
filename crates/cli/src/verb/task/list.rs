//! `netsky task list`: the tasks, those that are over last.

use netsky_model::id::{AgentId, Label};
use netsky_model::task::{Task, place};
use serde_json::json;

use super::who;
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

const HEAD: [&str; 7] = ["id", "state", "priority", "who", "after", "labels", "title"];

/// List the tasks that are not closed: what is most urgent first
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also those that are closed
    #[arg(long)]
    all: bool,
    /// Only those in that state: open, claimed, blocked, ready, closed
    #[arg(long, value_parser = state)]
    state: Option<String>,
    /// Only those with that label
    #[arg(long)]
    label: Option<Label>,
    /// Only those that this agent has or is to do
    #[arg(long, value_parser = super::super::channel::agent)]
    agent: Option<AgentId>,
}

fn state(text: &str) -> Result<String, String> {
    match text {
        "open" | "claimed" | "blocked" | "ready" | "closed" => Ok(text.to_owned()),
        _ => Err("states are open, claimed, blocked, ready and closed".to_owned()),
    }
}

impl Args {
    fn is_asked_for(&self, task: &Task) -> bool {
        let is_of = |agent: &AgentId| {
            task.assignee.as_ref() == Some(agent) || task.state.holder().is_some_and(|(by, _)| by == agent)
        };
        let is_state = match &self.state {
            Some(state) => task.state.word() == state,
            None => self.all || !task.state.is_closed(),
        };
        is_state
            && self.label.as_ref().is_none_or(|label| task.labels.contains(label))
            && self.agent.as_ref().is_none_or(is_of)
    }
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let mut tasks = cx.board()?.list()?;
        tasks.retain(|task| self.is_asked_for(task));
        let rank = |task: &Task| (task.state.is_closed(), task.priority);
        tasks.sort_by(|one, other| (rank(one), place(&one.id)).cmp(&(rank(other), place(&other.id))));
        if cx.json {
            return output::json(&json!({ "tasks": tasks }));
        }
        let row = |task: &Task| {
            vec![
                task.id.to_string(),
                task.state.word().to_owned(),
                task.priority.word().to_owned(),
                who(task),
                words(task.after.iter()),
                words(task.labels.iter()),
                output::short(&task.title.to_string()),
            ]
        };
        output::table(&HEAD, tasks.iter().map(row).collect(), "there are no such tasks")
    }
}

fn words(words: impl Iterator<Item = impl ToString>) -> String {
    let words: Vec<String> = words.map(|word| word.to_string()).collect();
    if words.is_empty() { "-".to_owned() } else { output::short(&words.join(" ")) }
}
