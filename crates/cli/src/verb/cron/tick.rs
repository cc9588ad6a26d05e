//! `netsky cron tick`: tells what is due.

use netsky_watchdog::cron_tick;

use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// Tell what is due now; the ticker does that
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        super::super::ticked(cx, &cron_tick(&cx.constellation()?)?, "nothing is due")
    }
}
