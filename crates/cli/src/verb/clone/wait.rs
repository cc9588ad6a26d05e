//! `netsky clone wait`: sleeps until clones have said what became of their tasks.

use std::time::Duration;

use netsky_model::dispatch::Verdict;
use netsky_model::duration;
use netsky_model::id::AgentId;
use netsky_work::dispatch::{Outcome, Target, Waited};
use serde_json::json;

use super::dispatches;
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Wait until tasks are reported done; ends with 1 as soon as one failed, is blocked, or its clone was stopped or died for good
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What is waited for: agent3 for what it has in hand, or had last; else a task
    #[arg(required = true, value_name = "AGENT or TASK", value_parser = target)]
    targets: Vec<Target>,
    /// Give up after this long (such as 30m) with exit code 5 [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    timeout: Option<Duration>,
}

/// A number alone is a task's.
fn target(text: &str) -> Result<Target, String> {
    match text.parse::<AgentId>() {
        Ok(agent) if agent.number().is_some() => Ok(Target::Agent(agent)),
        _ => text.parse().map(Target::Task).map_err(|error: netsky_model::id::BadId| error.to_string()),
    }
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let (constellation, board) = (cx.constellation()?, cx.board()?);
        let outcome = dispatches(&constellation, &board).wait(&self.targets, self.timeout)?;
        let (Outcome::Done(waited) | Outcome::Not(waited) | Outcome::TooLate(waited)) = &outcome;
        match cx.json {
            true => output::json(&json!({ "dispatches": waited }))?,
            false => output::lines(waited.iter().map(line))?,
        }
        let left = |fits: fn(&Waited) -> bool| {
            waited
                .iter()
                .filter(|one| fits(one))
                .map(|one| one.task.to_string())
                .collect::<Vec<_>>()
                .join(", ")
        };
        match outcome {
            Outcome::Done(_) => Ok(()),
            Outcome::Not(_) => {
                let which = left(|one| one.verdict.is_some_and(|verdict| verdict != Verdict::Done));
                let hint = match waited.iter().any(|one| one.verdict == Some(Verdict::Blocked)) {
                    true => {
                        "who is blocked goes on once it has its answer (`netsky channel send --reply-to`)"
                    }
                    false => "`netsky clone brief` hands it out again",
                };
                Err(Error::new(Kind::Failed, format!("not done: task {which}")).hint(hint))
            }
            Outcome::TooLate(_) => {
                let limit = self.timeout.map(duration::human).unwrap_or_default();
                let which = left(|one| one.verdict.is_none());
                Err(Error::new(Kind::Busy, format!("nothing was said of task {which} within {limit}"))
                    .hint("wait again"))
            }
        }
    }
}

fn line(one: &Waited) -> String {
    let said = match (one.verdict, &one.text) {
        (Some(verdict), Some(text)) => format!("{verdict}: {text}"),
        _ => "at work".to_owned(),
    };
    format!("task {}, {}: {}", one.task, one.agent, output::one_line(&said))
}
