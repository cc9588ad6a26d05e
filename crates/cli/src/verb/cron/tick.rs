//! `netsky cron tick`: tells what is due.

use netsky_watchdog::cron_tick;

use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// Tell what is due now; the ticker does that
///
/// Exit code 0 where all went well, also beside entries that do not read (a warning each), 7 where a state that was damaged is
/// set aside and nothing else failed, 1 where something was not done, which the next tick tries again.
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        super::super::ticked(cx, &cron_tick(&cx.constellation()?)?, "nothing is due")
    }
}
