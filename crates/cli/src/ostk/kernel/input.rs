//! `ostk kernel input`: type into a session.

use netsky_kernel::rpc::{Guard, input};
use netsky_model::id::{AgentId, Generation};

use crate::context::Context;
use crate::error::Error;
use crate::ostk::{reach, table};
use crate::run::Run;

/// Type into a session, as it is and without Enter; control characters are keys
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    name: AgentId,
    /// The text; - for standard input
    #[arg(allow_hyphen_values = true)]
    text: String,
    /// Only if this is the newest generation
    #[arg(long, value_name = "N")]
    if_generation: Option<u64>,
    /// A name for this call: a repeat under it types nothing again
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let text = reach::text(self.text, input::MAX_TEXT)?;
        let guard = Guard { if_generation: self.if_generation.map(Generation), request_id: self.request_id };
        let session =
            reach::anchor(cx)?.input(&input::Params { session: self.name, text, epoch: 0, guard })?;
        table::session(cx, &session, &format!("{} has it", session.name))
    }
}
