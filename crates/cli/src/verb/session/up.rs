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
        // By what it was given at its start, as the nonce is: the kernel may not know it yet.
        let proof = session_up(&cx.constellation()?, &netsky_disk::env::caller())?;
        if cx.json { output::json(&proof) } else { output::say(&proof.line()) }
    }
}
