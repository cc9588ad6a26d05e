//! `netsky task tick`: what clones have in hand follows them or is over, and so are claims whose generation has ended.

use netsky_model::id::AgentId;
use netsky_model::task::Actor;
use netsky_watchdog::{Ticked, clones};
use netsky_work::dispatch::Tended;
use netsky_work::task::Board;

use crate::context::Context;
use crate::error::Error;
use crate::run::Run;
use crate::verb::clone::dispatches;

/// Release what agents had claimed whose session has ended, and tend what clones have in hand; the ticker does that
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        // What it tells is so, whoever has it told.
        let board = Board::new(cx.home()?, Actor::Keeper(AgentId::ticker().into()));
        let constellation = cx.constellation()?;
        let look = || Ok::<_, Error>(clones(&constellation)?);
        let Tended { mut done, problems } = dispatches(&constellation, &board).tend(look)?;
        let over = board.release_ended()?;
        done.extend(over.into_iter().map(|over| format!("task {}: released, {}", over.task, over.why)));
        super::super::ticked(cx, &Ticked { done, problems, ..Ticked::default() }, "no claim is over")
    }
}
