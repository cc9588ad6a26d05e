//! `netsky workspace remove`: a clone that is not needed any more.

use netsky_model::id::TaskId;
use netsky_work::landing::Consent;
use serde_json::json;

use super::{A_WORKSPACE, at_desk};
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Remove a task's workspace with all that is in it, once its branch has landed
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose
    task: TaskId,
    /// Also with repositories in it besides its clone (submodules, what a build fetched), whatever these have
    #[arg(long)]
    nested: bool,
    /// Also what has not landed
    #[arg(long)]
    force: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let consent = match (self.force, self.nested) {
            (true, _) => Consent::All,
            (false, true) => Consent::Nested,
            (false, false) => Consent::None,
        };
        at_desk(cx, A_WORKSPACE, |desk| Ok(desk.remove_workspace(&self.task, consent)?))?;
        match cx.json {
            true => output::json(&json!({ "id": self.task, "done": "removed" })),
            false => output::say(&format!("the workspace of task {} is removed", self.task)),
        }
    }
}
