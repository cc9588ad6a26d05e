//! `netsky ledger ingest`: what the ticker runs, with a deadline.

use std::time::Duration;

use super::{at_work, made_again, said};
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Bring the database up to date
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let Some(done) = netsky_ledger::ingest(cx.home()?, Duration::ZERO)? else { return Err(at_work()) };
        if cx.json {
            output::json(&done)?;
        } else {
            output::say(&said(&done))?;
        }
        if done.rebuilt { Err(made_again(&done)) } else { Ok(()) }
    }
}
