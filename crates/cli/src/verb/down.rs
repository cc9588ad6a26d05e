//! `netsky down`: everything ends, nothing is lost.

use netsky_watchdog::{Downed, down};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Stop the constellation; mail, desired programs and the record stay
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let downed = down(&cx.constellation()?, &cx.caller())?;
        if cx.json {
            output::json(&downed)?;
            return all_ended(&downed);
        }
        for problem in &downed.problems {
            output::say(&format!("problem: {problem}"))?;
        }
        let names: Vec<&str> = downed.ended.iter().map(|name| name.as_str()).collect();
        match names.as_slice() {
            [] if !downed.left.is_empty() => {}
            [] if downed.anchor_stopped => output::say("no agent was running; the anchor was stopped")?,
            [] => output::say("nothing was running")?,
            names => output::say(&format!("ended {}", names.join(", ")))?,
        }
        // Also of a restart without a handoff there is a message.
        let what = match downed.handed_over {
            0 => return all_ended(&downed),
            1 => "the restart that was asked for will not come; its message waits".to_owned(),
            more => format!("{more} restarts that were asked for will not come; their messages wait"),
        };
        output::say(&format!("{what} in agent0's inbox for the next `up`"))?;
        all_ended(&downed)
    }
}

fn all_ended(downed: &Downed) -> Result<(), Error> {
    let left: Vec<&str> = downed.left.iter().map(|name| name.as_str()).collect();
    if left.is_empty() {
        return Ok(());
    }
    Err(Error::new(Kind::Busy, format!("{} did not end", left.join(", "))).hint("repeat `netsky down`"))
}
