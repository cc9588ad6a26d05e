//! `netsky loop reschedule`: when a dynamic loop fires next.

use std::time::Duration;

use netsky_schedule::interval::LONGEST;
use netsky_schedule::loops::{LoopId, Mode, Store};

use super::{id, tell};
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::run::Run;

/// Say in how many seconds a loop without an interval fires next
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    #[arg(value_parser = id)]
    id: LoopId,
    /// Seconds from now; 0 is at once
    seconds: u64,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let usage = |what: String| Err(Error::new(Kind::Usage, what).hint("nothing was changed"));
        if self.seconds > LONGEST.as_secs() {
            return usage(format!("{} seconds are over ten years", self.seconds));
        }
        let mut store = Store::open(cx.home()?)?;
        let mut entry = store.get(self.id)?;
        if entry.mode == Mode::Fixed {
            return usage(format!(
                "{} is fixed: its interval says when it fires; `netsky loop edit` changes that",
                entry.id
            ));
        }
        entry.arm(&store.now().clone(), Duration::from_secs(self.seconds));
        store.save(&entry)?;
        store.close()?;
        tell(cx, &entry, &format!("tells {} at {}", entry.agent, entry.next_fire_utc))
    }
}
