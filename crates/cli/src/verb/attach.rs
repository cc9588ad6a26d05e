//! `netsky attach`: a person at an agent's terminal.

use netsky_model::id::AgentId;

use crate::attach::{How, attach};
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::run::Run;

/// See and type into an agent's terminal; leaving it does not stop it
///
/// Where standard input is no terminal, nothing is typed: it prints the last of what the agent printed and goes on until
/// that input ends, with `</dev/null` at once. `netsky logs -f` goes on until it is ended.
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
        let agent = self.agent.clone();
        attach(cx, cx.home()?.kernel_root(), self.agent, &self.how).map_err(|error| match error.kind {
            Kind::NotFound => {
                error.hint(format!("see `netsky status`, and `netsky logs {agent}` for its output"))
            }
            _ => error,
        })
    }
}
