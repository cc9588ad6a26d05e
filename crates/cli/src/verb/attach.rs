//! `netsky attach`: a person at an agent's terminal.

use netsky_model::id::AgentId;

use crate::attach::{How, attach};
use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// See and type into an agent's terminal; leaving it does not stop it
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The agent, or its number
    #[arg(value_parser = super::channel::agent)]
    agent: AgentId,
    #[command(flatten)]
    how: How,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        attach(cx.home()?.kernel_root(), self.agent, &self.how)
    }
}
