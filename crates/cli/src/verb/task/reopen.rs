//! `netsky task reopen`: a task is not over after all.

use netsky_model::id::TaskId;
use netsky_model::task::Event;

use super::tell;
use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// Open a task again that was closed
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
        let task = cx.board()?.act(&self.id, Event::Reopened { why: self.why })?;
        tell(cx, &task, "reopened")
    }
}
