//! `netsky loop tick`: has the bus deliver what is due. The ticker runs it.

use netsky_watchdog::loop_tick;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Deliver the prompts that are due; the ticker does this at each of its times
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let ticked = loop_tick(&cx.constellation()?)?;
        if cx.json {
            output::json(&ticked)?;
        } else {
            for line in &ticked.done {
                output::say(line)?;
            }
            for line in &ticked.warnings {
                output::say(&format!("warning: {line}"))?;
            }
            if ticked == netsky_watchdog::Ticked::default() {
                output::say("nothing is due")?;
            }
        }
        match ticked.problems.as_slice() {
            [] => Ok(()),
            problems => Err(Error::new(Kind::Failed, problems.join("; ")).hint("the next tick tries again")),
        }
    }
}
