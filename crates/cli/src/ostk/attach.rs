//! `ostk attach`: a person at a session's terminal; needs no anchor.

use netsky_model::id::AgentId;

use crate::attach::{How, attach};
use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// See and type into a session's terminal; leaving it does not stop it
///
/// Where standard input is no terminal, nothing is typed: it prints the last of what the session printed and goes on until
/// that input ends, with `</dev/null` at once. `ostk logs -f` goes on until it is ended.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The session
    name: AgentId,
    #[command(flatten)]
    how: How,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        attach(cx, cx.kernel_root()?, self.name, &self.how)
    }
}
