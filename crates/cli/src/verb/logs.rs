//! `netsky logs`: what an agent printed; needs no anchor.

use netsky_model::id::AgentId;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::logs::{How, print};
use crate::run::Run;

/// Print what an agent has printed, control characters taken out
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose output
    #[arg(value_parser = super::channel::agent)]
    agent: AgentId,
    #[command(flatten)]
    how: How,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        print(cx, "netsky", cx.home()?.kernel_root(), &self.agent, &self.how).map_err(|error| {
            match error.kind {
                Kind::NotFound => error.hint("see `netsky status`"),
                _ => error,
            }
        })
    }
}
