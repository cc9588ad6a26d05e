//! `netsky watchdog tick`: one pass of the one actor.

use netsky_watchdog::{Ticked, tick};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Look once, and repair what is not as it should be
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let ticked = tick(&cx.constellation()?, &cx.caller())?;
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
                output::say("all is as it should be")?;
            }
        }
        match ticked.problems.as_slice() {
            [] => Ok(()),
            problems => Err(Error::new(Kind::Failed, problems.join("; ")).hint("the next tick tries again")),
        }
    }
}
