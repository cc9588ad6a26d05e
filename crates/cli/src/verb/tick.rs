//! `netsky tick`: one round of the three ticks by hand, and the failsafe that a timer of the machine runs.

use netsky_watchdog::{Failsafe, failsafe, is_home, round};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Tick once: watchdog, cron and loops, each as a process of its own
#[derive(clap::Args)]
pub(crate) struct Args {
    /// As what a timer runs: start from nothing what is wanted and missing; does nothing after `down`, and where there is no home
    #[arg(long)]
    failsafe: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        if self.failsafe {
            return by_timer(cx);
        }
        let round = round(&cx.constellation()?);
        if cx.json {
            output::json(&serde_json::json!({ "ticks": round }))?;
        }
        for one in round.iter().filter(|_| !cx.json) {
            output::say(&format!("{} tick: {} in {} ms", one.tick, one.outcome, one.duration_ms))?;
        }
        let damage = format!("ended with code {}", Kind::Damaged as u8);
        let failed: Vec<_> = round.iter().filter(|one| one.outcome != "done").collect();
        let names = failed.iter().map(|one| one.tick).collect::<Vec<_>>().join(", ");
        match failed.iter().all(|one| one.outcome == damage) {
            _ if failed.is_empty() => Ok(()),
            true => Err(Error::new(Kind::Damaged, format!("the tick of {names} found damage"))
                .hint("logs/watchdog.log has its words")),
            false => Err(Error::new(Kind::Failed, format!("the tick of {names} did not end well"))
                .hint("logs/watchdog.log has its words; the next one tries again")),
        }
    }
}

fn by_timer(cx: &Context) -> Result<(), Error> {
    if !is_home(&Context::layout()?) {
        return match cx.json {
            true => output::json(&serde_json::json!({ "outcome": "no home" })),
            false => output::say("there is no home, so nobody is wanted"),
        };
    }
    let ran = failsafe(&cx.constellation()?);
    if cx.json {
        output::json(&ran)?;
    } else {
        let Failsafe { outcome, duration_ms, .. } = &ran;
        output::say(&format!("failsafe: {outcome} in {duration_ms} ms"))?;
        output::lines(ran.done.iter().cloned())?;
    }
    match ran.failed {
        None => Ok(()),
        Some(failed) => {
            Err(Error::new(Kind::Failed, failed).hint("nothing was lost; the next run tries again"))
        }
    }
}
