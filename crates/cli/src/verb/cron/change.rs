//! `netsky cron remove|enable|disable`.

use netsky_schedule::cron::{self, EntryId};

use super::{CHANGE, entry_id};
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Take an entry out of cron.toml
#[derive(clap::Args)]
pub(crate) struct Remove {
    /// Which
    #[arg(value_parser = entry_id)]
    id: EntryId,
}

/// Have an entry count again, from now on
#[derive(clap::Args)]
pub(crate) struct Enable {
    /// Which
    #[arg(value_parser = entry_id)]
    id: EntryId,
}

/// Have an entry stay and not count
#[derive(clap::Args)]
pub(crate) struct Disable {
    /// Which
    #[arg(value_parser = entry_id)]
    id: EntryId,
}

impl Run for Remove {
    fn run(self, cx: &Context) -> Result<(), Error> {
        cron::remove(cx.home()?, &self.id, cx.bound(CHANGE)?.as_ref())?;
        said(cx, &self.id, "removed")
    }
}

impl Run for Enable {
    fn run(self, cx: &Context) -> Result<(), Error> {
        cron::enable(cx.home()?, &self.id, true, cx.bound(CHANGE)?.as_ref())?;
        said(cx, &self.id, "enabled")
    }
}

impl Run for Disable {
    fn run(self, cx: &Context) -> Result<(), Error> {
        cron::enable(cx.home()?, &self.id, false, cx.bound(CHANGE)?.as_ref())?;
        said(cx, &self.id, "disabled")
    }
}

fn said(cx: &Context, id: &EntryId, what: &str) -> Result<(), Error> {
    match cx.json {
        true => output::json(&serde_json::json!({ "id": id, "done": what })),
        false => output::say(&format!("{id} is {what}")),
    }
}
