//! `netsky loop tick`: has the bus deliver what is due. The ticker runs it.

use netsky_watchdog::loop_tick;

use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// Deliver the prompts that are due; the ticker does this at each of its times
///
/// Exit code 0 where all went well, 7 where a file that is no loop was put aside and nothing else failed, 1 where something was
/// not done, which the next tick tries again.
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        super::super::ticked(cx, &loop_tick(&cx.constellation()?)?, "nothing is due")
    }
}
