//! `ostk kernel ps`: the process table.

use crate::context::Context;
use crate::error::Error;
use crate::ostk::{reach, table};
use crate::run::Run;

/// List sessions that live or have ended and were not reaped
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also what was reaped
    #[arg(long)]
    all: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let mut client = reach::anchor(cx)?;
        let sessions = if self.all { client.list()? } else { client.ps()? };
        table::sessions(cx, &sessions)
    }
}
