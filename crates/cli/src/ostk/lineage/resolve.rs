//! `ostk lineage resolve`: what becomes of a lineage that waits to be told.

use netsky_kernel::rpc::Guard;
use netsky_kernel::rpc::lineage::resolve::Action;
use netsky_model::id::Generation;

use crate::context::Context;
use crate::error::Error;
use crate::ostk::{reach, table};
use crate::run::Run;

/// Say what becomes of a lineage that was taken away and waits to be told
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("action").required(true))]
pub(crate) struct Args {
    /// Its id, or the name of the session that carries it
    id: String,
    /// Bring it back at its last turn
    #[arg(long, group = "action")]
    revive: bool,
    /// Put it aside
    #[arg(long, group = "action")]
    reap: bool,
    /// Only if this is the newest generation
    #[arg(long, value_name = "N")]
    if_generation: Option<u64>,
    /// A name for this call: a repeat under it does nothing again
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let id = super::named(cx, &self.id)?;
        let action = if self.revive { Action::Revive } else { Action::Reap };
        let guard = Guard { if_generation: self.if_generation.map(Generation), request_id: self.request_id };
        let session = reach::anchor(cx)?.resolve(&id, action, &guard)?;
        let sentence = match action {
            Action::Revive => format!("{} generation {} runs", session.name, session.generation),
            Action::Reap => format!("{} was put aside", session.name),
        };
        table::session(cx, &session, &sentence)
    }
}
