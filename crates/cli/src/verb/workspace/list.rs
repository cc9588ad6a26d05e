//! `netsky workspace list`: all clones, and what they take.

use netsky_work::landing::Standing;
use serde_json::json;

use super::{disk, looking, named, object};
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// List the workspaces, in the order of their tasks
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let all = looking(cx, |desk| Ok(desk.workspaces(None)?))?;
        if cx.json {
            let all: Vec<_> = all.iter().map(|one| object(cx, one)).collect::<Result<_, _>>()?;
            return output::json(&json!({ "workspaces": all }));
        }
        let head = ["task", "agent", "branch", "base", "disk", "state", "repository"];
        output::table(&head, all.iter().map(row).collect(), "there are no workspaces")
    }
}

fn row(one: &Standing) -> Vec<String> {
    let (branch, base, repo) = match &one.workspace {
        Ok(there) => {
            (there.branch.short().to_owned(), there.base.as_str()[..12].to_owned(), there.repo.to_string())
        }
        Err(why) => ("-".to_owned(), "-".to_owned(), output::short(why)),
    };
    let state = match (&one.workspace, one.has_landed) {
        (Err(_), _) => "broken",
        (Ok(_), true) => "landed",
        (Ok(_), false) => "not landed",
    };
    let agent = named(one.agent.as_ref());
    vec![one.task.to_string(), agent, branch, base, disk(one.bytes), state.to_owned(), output::short(&repo)]
}
