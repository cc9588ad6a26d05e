//! `ostk kernel rename`: another name for a session that has ended.

use netsky_kernel::rpc::Guard;
use netsky_model::id::{AgentId, Generation};

use crate::context::Context;
use crate::error::Error;
use crate::ostk::{reach, table};
use crate::run::Run;

/// Give a session that has ended another name
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    name: AgentId,
    /// Its name from now on
    #[arg(value_name = "NEW-NAME")]
    to: AgentId,
    /// Only if this is the newest generation
    #[arg(long, value_name = "N")]
    if_generation: Option<u64>,
    /// A name for this call: a repeat under it does nothing again
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let guard = Guard { if_generation: self.if_generation.map(Generation), request_id: self.request_id };
        let session = reach::anchor(cx)?.rename(&self.name, &self.to, &guard)?;
        table::session(cx, &session, &format!("{} is {} from now on", self.name, session.name))
    }
}
