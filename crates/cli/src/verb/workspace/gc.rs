//! `netsky workspace gc`: what nobody needs any more.

use netsky_work::landing::Sweep;
use serde_json::json;

use super::{A_WORKSPACE, at_desk};
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Remove workspaces that have landed, what dead programs left of others, and copies of repositories that none is of
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also those that only repositories in them keep, besides their clones (submodules, what a build fetched)
    #[arg(long)]
    nested: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let Sweep { swept, gone, kept, failed } =
            at_desk(cx, A_WORKSPACE, |desk| Ok(desk.sweep_workspaces(self.nested)?))?;
        let failed = || failed.map_or(Ok(()), |error| Err(error.into()));
        if cx.json {
            return output::json(&json!({
                "removed": gone, "kept": kept, "unfinished": swept.workspaces, "scratch": swept.scratch, "mirrors": swept.mirrors,
            }))
            .and_then(|()| failed());
        }
        for (task, why) in &kept {
            output::say(&format!("the workspace of task {task} stays: {why}"))?;
        }
        if !kept.is_empty() {
            output::say(
                "`netsky workspace remove TASK --force` drops one with all that is in it, `--nested` alone what other repositories in it have",
            )?;
        }
        output::say(&format!(
            "removed {} workspaces that have landed, {} that nobody finished making or removing, {} scratch repositories, {} mirrors",
            gone.len(),
            swept.workspaces,
            swept.scratch,
            swept.mirrors
        ))?;
        failed()
    }
}
