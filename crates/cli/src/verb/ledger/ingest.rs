//! `netsky ledger ingest`: what the ticker runs beside its ticks.

use std::time::Duration;

use netsky_disk::clock;
use netsky_model::duration;

use super::{at_work, said, to_tell};
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Bring the database up to date
#[derive(clap::Args)]
pub(crate) struct Args {
    /// End after so long, between two batches; the next ingest goes on [default: when all is in]
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse)]
    limit: Option<Duration>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let layout = cx.home()?;
        let done = match self.limit {
            None => netsky_ledger::ingest(layout, Duration::ZERO)?,
            Some(limit) => netsky_ledger::ingest_until(layout, clock::boot() + limit)?,
        };
        let Some(done) = done else { return Err(at_work(layout)) };
        if cx.json {
            output::json(&done)?;
        } else {
            output::say(&said(&done))?;
        }
        to_tell(&done).map_or(Ok(()), Err)
    }
}
