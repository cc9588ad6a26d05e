//! `netsky loop pause` and `resume`.

use netsky_schedule::loops::{LoopId, Store};

use super::{id, tell};
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
        let mut store = Store::open(cx.home()?)?;
        let mut entry = store.get(self.id)?;
        entry.paused = true;
        store.save(&entry)?;
        store.close()?;
        tell(cx, &entry, "is paused")
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
        let mut store = Store::open(cx.home()?)?;
        let mut entry = store.get(self.id)?;
        entry.resume(&store.now().clone());
        store.save(&entry)?;
        store.close()?;
        tell(cx, &entry, &format!("is {}, for {}", entry.standing().word(), entry.next_fire_utc))
    }
}
