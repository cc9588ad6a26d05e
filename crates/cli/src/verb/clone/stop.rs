//! `netsky clone stop`: a clone ends on purpose, and has its tasks no more.

use netsky_model::dispatch::Verdict;
use netsky_model::id::AgentId;
use netsky_watchdog::stop_clone;
use serde_json::json;

use super::{dispatcher, dispatches};
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Stop a clone: it stays down, its tasks are free again, and its mail waits
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which clone: 3 or agent3
    #[arg(value_parser = AgentId::from_shorthand)]
    agent: AgentId,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let (caller, agent) = (cx.caller(), self.agent);
        let (constellation, board) = (cx.constellation()?, cx.board()?);
        let dispatches = dispatches(&constellation, &board);
        // First: nobody works on what is free again. Where this dies a tick ends what it had in hand.
        let ran = match stop_clone(&constellation, &caller, &agent, None) {
            // It was to be started for a task, and nothing came of that.
            Err(netsky_watchdog::Error::NeverWanted(_)) if dispatches.is_at_work(&agent)? => false,
            stopped => stopped?,
        };
        netsky_disk::fault::point("clone.stop.stopped")
            .map_err(|e| netsky_disk::Error::new("stop", agent.as_str(), e))?;
        let why = format!("stopped by {}", dispatcher(&caller));
        let tasks = dispatches.end(&agent, Verdict::Stopped, &why)?;
        if cx.json {
            return output::json(&json!({ "agent": agent, "ended": ran, "tasks": tasks }));
        }
        let ended = if ran { "was ended" } else { "did not run" };
        let free: Vec<&str> = tasks.iter().map(|task| task.as_str()).collect();
        let free =
            if free.is_empty() { String::new() } else { format!("; free again: task {}", free.join(", ")) };
        output::say(&format!("{agent} {ended} and stays down, its mail waits{free}"))
    }
}
