//! `netsky task assign`: who is to do a task.

use netsky_model::id::{AgentId, TaskId};
use netsky_model::task::Event;

use super::tell;
use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// Have one agent do a task, and no other
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    id: TaskId,
    /// Who
    #[arg(value_parser = super::super::channel::agent, required_unless_present = "nobody")]
    agent: Option<AgentId>,
    /// Whoever claims it first
    #[arg(long, conflicts_with = "agent")]
    nobody: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let task = cx.board()?.act(&self.id, Event::Assigned { to: self.agent })?;
        let what = task.assignee.as_ref().map(|to| format!("assigned to {to}"));
        tell(cx, &task, what.as_deref().unwrap_or("is for whoever claims it"))
    }
}
