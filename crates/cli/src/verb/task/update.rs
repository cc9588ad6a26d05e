//! `netsky task update`: what is wanted of a task is another thing now.

use netsky_model::id::{Label, TaskId};
use netsky_model::task::{Change, Event, Priority, Title};

use super::{brief, priority, repo, tell, title, usage};
use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// Change a task that is not closed
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    id: TaskId,
    /// What is to be done, in a line
    #[arg(long, value_parser = title)]
    title: Option<Title>,
    /// The repository that it is about: a folder or an address
    #[arg(long, value_name = "PATH")]
    repo: Option<String>,
    /// The branch that it lands on
    #[arg(long, value_name = "BRANCH")]
    main: Option<String>,
    /// What is to be done, at length: a text, the name of a file, or - for standard input
    #[arg(long, value_name = "TEXT or FILE")]
    brief: Option<String>,
    /// How soon: urgent, high, normal or low
    #[arg(long, value_parser = priority)]
    priority: Option<Priority>,
    /// A word to find it by, in place of those it has; may be given again
    #[arg(long, conflicts_with = "no_label")]
    label: Vec<Label>,
    /// Take its labels away
    #[arg(long)]
    no_label: bool,
    /// A task that has to be closed before it, in place of those it has; may be given again
    #[arg(long, value_name = "ID", conflicts_with = "no_after")]
    after: Vec<TaskId>,
    /// It waits for no other task
    #[arg(long)]
    no_after: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let board = cx.board()?;
        let change = Change {
            title: self.title,
            repo: self.repo.as_deref().map(|text| repo(cx, text)).transpose()?,
            main: self.main,
            brief: self.brief.as_deref().map(|text| brief(&board, text)).transpose()?,
            priority: self.priority,
            labels: (self.no_label || !self.label.is_empty()).then(|| self.label.into_iter().collect()),
            after: (self.no_after || !self.after.is_empty()).then(|| self.after.into_iter().collect()),
        };
        if change == Change::default() {
            return Err(usage("nothing was asked for"));
        }
        let task = board.act(&self.id, Event::Updated(Box::new(change)))?;
        tell(cx, &task, "updated")
    }
}
