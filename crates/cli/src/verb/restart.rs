//! `netsky restart`: queue a planned restart of agent0. Its hidden form is the child that performs one.

use std::path::PathBuf;
use std::time::Duration;

use netsky_model::duration::human;
use netsky_model::id::RestartId;
use netsky_watchdog::{request, restart_child, tick};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Ask for a planned restart: agent0 and all clones end and come back; the next tick performs it
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A file whose text the new agent0 gets; it is copied and stays yours
    #[arg(long, value_name = "FILE")]
    handoff: Option<PathBuf>,
    /// Be the child of this restart
    #[arg(long, hide = true, requires = "epoch")]
    child: Option<RestartId>,
    /// Which child of it
    #[arg(long, hide = true, requires = "child")]
    epoch: Option<u64>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let constellation = cx.constellation()?;
        if let Some((id, epoch)) = self.child.zip(self.epoch) {
            // Its standard output is its log; one that cannot be written changes nothing about the work.
            let said =
                |text: &str| drop(output::say(&format!("{} {text}", netsky_disk::clock::wall_seconds())));
            return Ok(restart_child(&constellation, &id, epoch, said)?);
        }
        if let Some(file) = self.handoff.as_deref().filter(|file| !file.exists()) {
            let what = format!("there is no handoff file {}", file.display());
            return Err(Error::new(Kind::NotFound, what).hint("nothing was queued"));
        }
        let queued = request(&constellation, &cx.caller(), self.handoff.as_deref())?;
        if cx.json {
            output::json(&queued)?;
        } else {
            let with = queued
                .bytes
                .map_or_else(|| "without a handoff".to_owned(), |n| format!("with a handoff of {n} bytes"));
            let when = queued.waits_s.map_or_else(String::new, |left| {
                let left = human(Duration::from_secs(left));
                format!("; agent0 is gone and is tried again in {left} (`netsky up` tries at once)")
            });
            output::say(&format!("restart queued {with}{when}; see `netsky status`"))?;
        }
        if queued.served {
            return Ok(());
        }
        // Whoever would have done it is gone, and comes back by the same tick.
        tick(&constellation, &cx.caller()).map_err(|error| {
            Error::from(error).hint("the restart stays queued and nobody serves: run `netsky watchdog tick`")
        })?;
        if cx.json {
            Ok(())
        } else {
            output::say("nobody serves here; this call ran a tick, which begins it")
        }
    }
}
