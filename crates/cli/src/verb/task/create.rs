//! `netsky task create`: one more task.

use netsky_model::id::{AgentId, Label, TaskId};
use netsky_model::task::{Draft, Priority, Title};

use super::{brief, priority, repo, tell, title};
use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// Make a task
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What is to be done, in a line
    #[arg(value_parser = title)]
    title: Title,
    /// The repository that it is about: a folder or an address
    #[arg(long, value_name = "PATH")]
    repo: Option<String>,
    /// The branch that it lands on [default: what config.toml says, else main]
    #[arg(long, value_name = "BRANCH")]
    main: Option<String>,
    /// What is to be done, at length: a text, the name of a file, or - for standard input
    #[arg(long, value_name = "TEXT or FILE")]
    brief: Option<String>,
    /// A task that has to be closed before this one is begun; may be given again
    #[arg(long, value_name = "ID")]
    after: Vec<TaskId>,
    /// How soon: urgent, high, normal or low
    #[arg(long, value_parser = priority, default_value = "normal")]
    priority: Priority,
    /// A word to find it by; may be given again
    #[arg(long)]
    label: Vec<Label>,
    /// Who is to do it [default: who claims it]
    #[arg(long, value_name = "AGENT", value_parser = super::super::channel::agent)]
    assign: Option<AgentId>,
    /// Your own id for it [default: the next number]
    #[arg(long)]
    id: Option<TaskId>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let board = cx.board()?;
        let task = board.create(Draft {
            id: self.id,
            title: self.title,
            repo: self.repo.as_deref().map(|text| repo(cx, text)).transpose()?,
            main: self.main,
            brief: self.brief.as_deref().map(|text| brief(&board, text)).transpose()?,
            priority: self.priority,
            labels: self.label.into_iter().collect(),
            after: self.after.into_iter().collect(),
            assignee: self.assign,
        })?;
        tell(cx, &task, "created")
    }
}
