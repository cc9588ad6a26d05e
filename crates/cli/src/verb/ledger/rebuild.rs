//! `netsky ledger rebuild`: the database from nothing.

use std::time::Duration;

use netsky_ledger::Ingested;
use netsky_model::duration;

use super::{another, at_work, said, to_tell};
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// How long another ingest is waited for, unless its caller says otherwise.
const PATIENCE: &str = "60s";

/// Make the database anew from envelopes, facts and telemetry
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Longest wait for another ingest that is at work
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = PATIENCE)]
    wait: Duration,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let layout = cx.home()?;
        let mut done = netsky_ledger::rebuild(layout, Duration::ZERO)?;
        if done.is_none() && !self.wait.is_zero() {
            let limit = self.wait.as_secs_f64();
            output::complain("netsky", &format!("waiting for {}, {limit} s at most", another(layout)));
            done = netsky_ledger::rebuild(layout, self.wait)?;
        }
        let Some(done) = done else { return Err(at_work(layout)) };
        if cx.json {
            output::json(&done)?;
        } else {
            output::say(&format!("rebuilt from {}", said(&done)))?;
        }
        to_tell(&done).or_else(|| lacks(&done)).map_or(Ok(()), Err)
    }
}

/// The database of before may have had what was read of a file that does not open now.
fn lacks(done: &Ingested) -> Option<Error> {
    let what = format!("lines are missing from the record: failed to {}", done.unread.as_ref()?);
    let way = "they come in once it opens (table source_errors)";
    Some(Error::new(Kind::Degraded, what).hint(way))
}
