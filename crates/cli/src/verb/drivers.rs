//! `netsky drivers`: netsky-drivers, which speaks to driven programs; `netsky up` runs it as a session.

use netsky_disk::wake::Stop;
use netsky_runtime::drivers::Ended;
use netsky_watchdog::drivers;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Speak to the programs of all driven slots until told to end
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let stop =
            Stop::hear().map_err(|e| Error::new(Kind::Failed, format!("failed to hear signals: {e}")))?;
        // Nobody has to read this session's output.
        let say = |text: &str| drop(output::say(text));
        match drivers(&cx.constellation()?, &netsky_disk::env::caller(), &stop, &say)? {
            Ended::Asked | Ended::NoHome => Ok(()),
            Ended::Failed => Err(Error::new(Kind::Failed, "a part of netsky-drivers ended by itself")
                .hint("its keeper starts it again; `netsky logs netsky-drivers` has what it said")),
        }
    }
}
