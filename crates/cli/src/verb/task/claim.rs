//! `netsky task claim`: one of many has a task.

use netsky_model::id::TaskId;
use netsky_model::task::Event;
use netsky_work::git::Identity;
use netsky_work::workspace;

use super::{agent, tell};
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Take a task, for as long as this generation of the agent lives
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which [default: the one that it has, else the most urgent and oldest that is free]
    id: Option<TaskId>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let board = cx.board()?;
        let (by, generation) = agent(cx, "a claim")?;
        let author = Identity::of_agent(&by).map_err(netsky_work::Error::from)?;
        let task = match self.id {
            Some(id) => board.act(&id, Event::Claimed { by, generation })?,
            None => board.claim_next(&by, generation)?.ok_or_else(|| {
                Error::new(Kind::NotFound, "no task is free").hint("see `netsky task list`")
            })?,
        };
        // What it commits there is its own, whoever the workspace was made for. The claim stands, whatever comes of that.
        if let Err(error) = workspace::set_author(cx.home()?, &task.id, &author) {
            output::complain("netsky", &format!("commits are by whom they were by before: {error}"));
        }
        let what = format!("claimed: {}", task.title);
        tell(cx, &task, &what)
    }
}
