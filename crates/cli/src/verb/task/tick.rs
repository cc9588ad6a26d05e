//! `netsky task tick`: claims whose generation has ended are over.

use netsky_model::id::AgentId;
use netsky_model::task::Actor;
use netsky_watchdog::Ticked;
use netsky_work::task::Board;

use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// Release what agents had claimed whose session has ended; the ticker does that
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        // What it tells is so, whoever has it told.
        let board = Board::new(cx.home()?, Actor::Keeper(AgentId::ticker().into()));
        let done = board.release_ended()?;
        let done = done.into_iter().map(|over| format!("task {}: released, {}", over.task, over.why));
        super::super::ticked(cx, &Ticked { done: done.collect(), ..Ticked::default() }, "no claim is over")
    }
}
