//! `netsky task close`: a task is over.

use netsky_model::id::TaskId;
use netsky_model::task::{Event, How};

use super::tell;
use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// End a task that lands nothing: it is done, or not wanted any more
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    id: TaskId,
    /// Why
    why: Option<String>,
    /// It is not wanted any more
    #[arg(long)]
    dropped: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let (how, what) =
            if self.dropped { (How::Dropped, "closed: dropped") } else { (How::Done, "closed: done") };
        let task = cx.board()?.act(&self.id, Event::Closed { how, why: self.why })?;
        tell(cx, &task, what)
    }
}
