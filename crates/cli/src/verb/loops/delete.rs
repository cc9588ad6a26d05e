//! `netsky loop delete`.

use netsky_model::id::AgentId;
use netsky_schedule::loops::{Error as Unread, LoopId, Store};
use serde_json::json;

use super::{A_LOOP, close, id};
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
        match store.get(self.id) {
            Ok(entry) => cx.may_schedule(A_LOOP, &entry.agent)?,
            // Of whom it is nobody can know.
            Err(Unread::Broken(_)) => cx.may_schedule(A_LOOP, &AgentId::root())?,
            Err(_) => {}
        }
        store.remove(self.id)?;
        close(store);
        match cx.json {
            true => output::json(&json!({ "id": self.id, "deleted": true })),
            false => output::say(&format!("{} is deleted", self.id)),
        }
    }
}
