//! `netsky cron tick`: tells what is due.

use netsky_watchdog::{Ticked, cron_tick};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Tell what is due now; the ticker does that
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let ticked = cron_tick(&cx.constellation()?)?;
        if cx.json {
            output::json(&ticked)?;
        } else {
            for line in &ticked.done {
                output::say(line)?;
            }
            for line in &ticked.warnings {
                output::say(&format!("warning: {line}"))?;
            }
            if ticked == Ticked::default() {
                output::say("nothing is due")?;
            }
        }
        match ticked.problems.as_slice() {
            [] => Ok(()),
            problems => Err(Error::new(Kind::Failed, problems.join("; ")).hint("the next tick tries again")),
        }
    }
}
