//! `netsky attach`: a person at an agent's terminal, or at the transcript of one that has none.

use netsky_disk::env::Caller;
use netsky_model::id::AgentId;
use netsky_runtime::driver::is_driven;

use crate::attach::{How, attach};
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::run::Run;
use crate::transcript;

/// See an agent at work and talk to it; leaving it does not stop it
///
/// Of a program with a terminal (runtime `command`) that terminal is shown, and keys go to the program. Of a driven one (`claude`,
/// `codex`) the transcript is shown: messages, what the model says, tools folded to a line, questions. A line that is typed
/// there and ended with Enter is sent to the agent as a message of the owner; `/allow [ID] [ANSWER]` and `/deny [ID] [WHY]` answer what
/// it asks, as `netsky agent allow|deny` do, and `//x` sends `/x`. Ctrl-D on an empty line leaves, as the detach key does.
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
    /// Show the lines of a driven program as they are, and type nothing
    #[arg(long)]
    raw: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let (agent, root) = (self.agent, cx.home()?.kernel_root());
        let runtime = transcript::runtime_of(&root, &agent).filter(|runtime| is_driven(runtime));
        let ended = match runtime {
            // A line that is none of its protocol ends such a program.
            Some(_) if self.raw => attach(cx, root, agent.clone(), &self.how.to_look()),
            // Below a session there is no line to type, and a look is anybody's.
            Some(runtime) if cx.caller() != Caller::Outside => {
                transcript::attach(cx, root, agent.clone(), &runtime, &self.how.to_look())
            }
            Some(runtime) => transcript::attach(cx, root, agent.clone(), &runtime, &self.how),
            None => attach(cx, root, agent.clone(), &self.how),
        };
        ended.map_err(|error| match error.kind {
            Kind::NotFound => {
                error.hint(format!("see `netsky status`, and `netsky logs {agent}` for its output"))
            }
            _ => error,
        })
    }
}
