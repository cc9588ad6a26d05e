//! `netsky watchdog tick`: one pass of the one actor.

use netsky_watchdog::tick;

use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// Look once, and repair what is not as it should be
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        super::super::ticked(cx, &tick(&cx.constellation()?, &cx.caller())?, "all is as it should be")
    }
}
