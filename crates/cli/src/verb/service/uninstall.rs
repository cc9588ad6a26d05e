//! `netsky service uninstall`: ends the service; agents live on.

use netsky_watchdog::service::{Manager, uninstall};

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Stop the units of this home and remove them; agents live on, and so does the ticker of their own
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Remove files that were edited, or are not of netsky, as well
    #[arg(long)]
    force: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        cx.owner_only("service uninstall")?;
        let (plan, mut placed) = (super::plan(None)?, Vec::new());
        let came = uninstall(&plan, Manager::here(), self.force, &mut placed);
        if came.is_ok() && placed.is_empty() && !cx.json {
            return output::say("nothing of it is installed");
        }
        super::told(cx, &placed, None, came.map_err(Error::from))
    }
}
