//! `ostk kernel resize`: the size of a session's terminal.

use netsky_kernel::rpc::{Guard, resize};
use netsky_model::id::{AgentId, Generation};

use crate::context::Context;
use crate::error::Error;
use crate::ostk::{reach, table};
use crate::run::Run;

/// Give a session's terminal another size
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    name: AgentId,
    /// Lines and columns
    #[arg(value_name = "ROWSxCOLS", value_parser = size)]
    size: (u16, u16),
    /// Only if this is the newest generation
    #[arg(long, value_name = "N")]
    if_generation: Option<u64>,
}

fn size(text: &str) -> Result<(u16, u16), String> {
    let read = text.split_once('x').and_then(|(rows, cols)| Some((rows.parse().ok()?, cols.parse().ok()?)));
    read.filter(|(rows, cols)| *rows > 0 && *cols > 0)
        .ok_or_else(|| "a size is ROWSxCOLS, like 24x80".to_owned())
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let (rows, cols) = self.size;
        let guard = Guard { if_generation: self.if_generation.map(Generation), request_id: None };
        let session = reach::anchor(cx)?.resize(&resize::Params { session: self.name, rows, cols, guard })?;
        table::session(cx, &session, &format!("{} has {rows} lines of {cols} columns", session.name))
    }
}
