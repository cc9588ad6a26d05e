//! `netsky loop pause` and `resume`.

use netsky_schedule::loops::{Look, LoopId};

use super::{change, id, tell};
use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// Have a loop fire nothing until it is resumed
#[derive(clap::Args)]
pub(crate) struct Pause {
    /// Which
    #[arg(value_parser = id)]
    id: LoopId,
}

impl Run for Pause {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let mut is_due = false;
        let entry = change(cx, self.id, |entry, now| {
            is_due = matches!(entry.look(now), Look::Due(_));
            entry.paused = true;
            Ok(())
        })?;
        let what = if is_due { "is paused; what was due is not told any more" } else { "is paused" };
        tell(cx, &entry, what)
    }
}

/// Have a paused loop fire again; nothing comes of the time between
#[derive(clap::Args)]
pub(crate) struct Resume {
    /// Which
    #[arg(value_parser = id)]
    id: LoopId,
}

impl Run for Resume {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let entry = change(cx, self.id, |entry, now| {
            entry.resume(now);
            Ok(())
        })?;
        tell(cx, &entry, &format!("is {}, for {}", entry.standing().word(), entry.next_fire_utc))
    }
}
