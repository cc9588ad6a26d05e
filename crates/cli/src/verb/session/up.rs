//! `netsky session up`: the up proof of this session.

use netsky_watchdog::session_up;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Prove that this session is up; run it first thing in every agent
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let proof = session_up(&cx.constellation()?, &cx.caller())?;
        if cx.json { output::json(&proof) } else { output::say(&proof.line()) }
    }
}
