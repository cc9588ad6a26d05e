//! `netsky loop delete`.

use netsky_schedule::loops::{LoopId, Store};
use serde_json::json;

use super::id;
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Remove a loop: it never fires again
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    #[arg(value_parser = id)]
    id: LoopId,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let mut store = Store::open(cx.home()?)?;
        store.remove(self.id)?;
        store.close()?;
        match cx.json {
            true => output::json(&json!({ "id": self.id, "deleted": true })),
            false => output::say(&format!("{} is deleted", self.id)),
        }
    }
}
