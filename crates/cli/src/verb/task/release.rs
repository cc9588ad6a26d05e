//! `netsky task release`: who has a task has it no more.

use netsky_model::id::TaskId;
use netsky_model::task::Event;

use super::tell;
use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// Give back a task that somebody has: it is open again
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    id: TaskId,
    /// Why
    #[arg(default_value = "")]
    why: String,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let task = cx.board()?.act(&self.id, Event::Released { why: self.why })?;
        tell(cx, &task, "released")
    }
}
