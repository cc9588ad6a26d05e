//! `netsky ledger rebuild`: the database from nothing.

use std::time::Duration;

use super::{at_work, said};
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// How long another ingest is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Make the database anew from envelopes, facts and telemetry
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let Some(done) = netsky_ledger::rebuild(cx.home()?, PATIENCE)? else { return Err(at_work()) };
        if cx.json { output::json(&done) } else { output::say(&format!("rebuilt from {}", said(&done))) }
    }
}
