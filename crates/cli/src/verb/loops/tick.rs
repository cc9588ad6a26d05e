//! `netsky loop tick`: has the bus deliver what is due. The ticker runs it.

use netsky_watchdog::loop_tick;

use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// Deliver the prompts that are due; the ticker does this at each of its times
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        super::super::ticked(cx, &loop_tick(&cx.constellation()?)?, "nothing is due")
    }
}
