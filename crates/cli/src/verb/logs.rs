//! `netsky logs`: what an agent printed; needs no anchor.

use netsky_disk::layout::KernelLayout;
use netsky_model::id::AgentId;

use crate::context::Context;
use crate::error::Error;
use crate::ostk::logs::print;
use crate::run::Run;

/// Print what an agent has printed, control characters taken out
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose output
    #[arg(value_parser = super::channel::agent)]
    agent: AgentId,
    /// Go on until the session ends
    #[arg(short, long)]
    follow: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let layout = KernelLayout::new(cx.home()?.kernel_root());
        print(&layout, &self.agent, self.follow).map_err(|error| error.hint("see `netsky status`"))
    }
}
