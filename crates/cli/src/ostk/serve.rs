//! `ostk serve`: the anchor itself.

use netsky_kernel::anchor;

use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// Serve a kernel root in the foreground until asked to stop; sessions live on after it
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        Ok(anchor::main(&cx.kernel_root()?)?)
    }
}
