//! `netsky service install`: writes the units, and starts them.

use std::time::Duration;

use netsky_watchdog::service::{Manager, install, linger};

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Write the units of this home and start them; as often as you like
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often its ticker ticks [default: as the last `up` said, else 60s]
    #[arg(long, value_name = "DURATION", value_parser = super::super::interval)]
    tick: Option<Duration>,
    /// Write the files only
    #[arg(long)]
    no_start: bool,
    /// Replace files that were edited, or are not of netsky
    #[arg(long)]
    force: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        cx.owner_only("service install")?;
        let (plan, mut placed) = (super::plan(self.tick)?, Vec::new());
        let came = install(&plan, Manager::here(), (self.force, !self.no_start), &mut placed);
        let warning = plan.passing().filter(|_| !placed.is_empty());
        let is_written = !placed.is_empty();
        super::told(cx, &placed, warning, came.map_err(Error::from))?;
        if is_written && !cx.json && linger() == Some(false) {
            output::say(
                "it begins when you log in and ends when you log out, unless you say: loginctl enable-linger",
            )?;
        }
        Ok(())
    }
}
