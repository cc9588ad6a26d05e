//! `netsky ticker`: the heartbeat; `netsky up` runs it as a session.

use std::time::Duration;

use netsky_watchdog::ticker;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Tick for ever, each tick a process of its own
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = super::interval)]
    tick: Duration,
    /// As what a service manager runs: wait for the end of another ticker, and tell systemd of each beat
    #[arg(long)]
    service: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        // Nobody has to read this session's output.
        let constellation = cx.constellation()?;
        let caller = netsky_disk::env::caller();
        match ticker(&constellation, &caller, self.tick, self.service, |text| drop(output::say(text)))? {}
    }
}
