//! `ostk logs`: what a session printed; needs no anchor.

use netsky_model::id::AgentId;

use crate::context::Context;
use crate::error::Error;
use crate::logs::{How, print};
use crate::run::Run;

/// Print what a session has printed, control characters taken out
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose output
    name: AgentId,
    #[command(flatten)]
    how: How,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        print(cx, "ostk", cx.kernel_root()?, &self.name, &self.how)
    }
}
