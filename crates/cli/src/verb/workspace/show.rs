//! `netsky workspace show`: one clone.

use netsky_model::id::TaskId;

use super::{disk, looking, object};
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Show a task's workspace: where it is, what it began at, where its branch is, what it takes
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose
    task: TaskId,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        for one in looking(cx, |desk| Ok(desk.workspaces(Some(&self.task))?))? {
            let mut object = object(cx, &one)?;
            if cx.json {
                return output::json(&object);
            }
            object["disk"] = disk(one.bytes).into();
            output::fields(&object)?;
        }
        Ok(())
    }
}
