//! `netsky watchdog serve`: agentinfinity; `netsky up` runs it as a session.

use netsky_watchdog::serve;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Tick whenever the kernel reports an end or a restart is asked for
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        // Nobody has to read this session's output.
        match serve(&cx.constellation()?, &netsky_disk::env::caller(), |text| drop(output::say(text)))? {}
    }
}
