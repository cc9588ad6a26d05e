//! `netsky workspace create`: where a task's work is done.

use netsky_model::id::{AgentId, TaskId};
use serde_json::json;

use super::{A_WORKSPACE, at_desk};
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Clone the repository of a task afresh, on the branch task/<id>
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose work it is for
    task: TaskId,
    /// Who will work there: gets a mailbox, and its commits are by it [default: who has the task]
    #[arg(long, value_parser = super::super::channel::agent)]
    agent: Option<AgentId>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let created =
            at_desk(cx, A_WORKSPACE, |desk| Ok(desk.create_workspace(&self.task, self.agent.as_ref())?))?;
        let workspace = &created.workspace;
        let folder = workspace.folder(cx.home()?);
        if cx.json {
            return output::json(&json!({
                "id": workspace.task, "folder": folder, "repo": workspace.repo, "main": workspace.main.short(),
                "branch": workspace.branch.short(), "base": workspace.base, "was_there": created.was_there,
            }));
        }
        let there = if created.was_there { "has been there already" } else { "is made" };
        output::say(&format!(
            "the workspace of task {} {there}: {} on {} from {} of {}",
            workspace.task,
            folder.display(),
            workspace.branch.short(),
            workspace.base,
            workspace.repo
        ))
    }
}
