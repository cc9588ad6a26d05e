//! `ostk prompt`: a text put before a session's program.

use netsky_kernel::rpc::{Guard, prompt};
use netsky_model::id::{AgentId, Generation};

use super::{reach, table};
use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// Put a text before a session's program: one paste, then Enter
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    name: AgentId,
    /// The text; - for standard input
    text: String,
    /// As the one turn in which a program whose context is nearly used writes its handoff
    #[arg(long)]
    finalization: bool,
    /// Only if this is the newest generation
    #[arg(long, value_name = "N")]
    if_generation: Option<u64>,
    /// A name for this call: a repeat under it types nothing again
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let text = reach::text(self.text, prompt::MAX_TEXT)?;
        let guard = Guard { if_generation: self.if_generation.map(Generation), request_id: self.request_id };
        let params =
            prompt::Params { session: self.name, text, finalization: self.finalization, epoch: 0, guard };
        let session = reach::anchor(cx)?.prompt(&params)?;
        table::session(cx, &session, &format!("{} has it", session.name))
    }
}
