//! `netsky watchdog serve`: agentinfinity; `netsky up` runs it as a session.

use netsky_ledger::Telemetry;
use netsky_watchdog::{Context as Constellation, serve};

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Tick whenever the kernel reports an end or a restart is asked for
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let layout = cx.home()?;
        let telemetry = Telemetry::new(layout);
        // Nobody has to read this session's output.
        match serve(&Constellation::new(layout, &telemetry)?, |text| drop(output::say(text)))? {}
    }
}
