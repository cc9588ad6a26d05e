//! `netsky clone list`: who there is, and what each has in hand.

use netsky_disk::clock;
use netsky_model::desired::Want;
use netsky_model::dispatch::{Dispatch, State};
use netsky_model::duration::human;
use netsky_watchdog::{AgentStatus, status};
use serde_json::{Value, json};

use super::dispatches;
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// List clones, and which task each has in hand
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let (constellation, board) = (cx.constellation()?, cx.board()?);
        let report = status(&constellation)?;
        let (open, unread) = dispatches(&constellation, &board).open()?;
        let clones = report.agents.iter().filter(|agent| agent.id.number().is_some_and(|number| number > 0));
        let mut rows: Vec<(&AgentStatus, Option<&Dispatch>)> = Vec::new();
        for clone in clones {
            let before = rows.len();
            rows.extend(open.iter().filter(|open| open.agent == clone.id).map(|open| (clone, Some(open))));
            if rows.len() == before && (clone.want == Some(Want::Up) || clone.pid.is_some()) {
                rows.push((clone, None));
            }
        }
        let problems: Vec<String> =
            unread.iter().map(|(task, error)| format!("the dispatch of task {task}: {error}")).collect();
        if cx.json {
            let clones: Vec<Value> = rows.iter().map(|(clone, open)| object(clone, *open)).collect();
            return output::json(&json!({ "clones": clones, "problems": problems }));
        }
        let headers = ["agent", "state", "gen", "task", "since", "is", "does"];
        let rows = rows.into_iter().map(|(clone, open)| row(clone, open)).collect();
        output::table(&headers, rows, "there are no clones; `netsky clone brief TASK` starts one")?;
        problems.iter().try_for_each(|problem| output::say(&format!("problem: {problem}")))
    }
}

/// How far a dispatch is, in a word, and what it waits for.
fn stands(open: &Dispatch) -> (&'static str, Option<&str>) {
    match &open.state {
        State::Chosen => ("starting", None),
        State::Briefed { .. } => ("working", None),
        State::Blocked { text, .. } => ("blocked", Some(text)),
        State::Over(end) => (end.verdict.word(), Some(&end.text)),
    }
}

fn object(clone: &AgentStatus, open: Option<&Dispatch>) -> Value {
    let (is, text) = open.map_or((None, None), |open| {
        let (is, text) = stands(open);
        (Some(is), text)
    });
    json!({
        "agent": clone.id, "want": clone.want, "state": clone.state, "up": clone.up, "generation": clone.generation,
        "task": open.map(|open| &open.task), "dispatch": open.map(|open| &open.id),
        "claim": open.and_then(Dispatch::holder), "by": open.map(|open| &open.by),
        "since": open.map(|open| open.since.wall), "is": is, "text": text,
        "inbox": clone.inbox, "unfinished": clone.unfinished,
        "progress": { "driven": clone.driven, "phase": clone.phase, "still_s": clone.still_s },
    })
}

fn row(clone: &AgentStatus, open: Option<&Dispatch>) -> Vec<String> {
    let dash = || "-".to_owned();
    let is = open.map(|open| match stands(open) {
        (is, None) => is.to_owned(),
        (is, Some(text)) => format!("{is}: {text}"),
    });
    let doing = clone.driven.as_ref().map(|driven| driven.doing.to_string());
    let phase = || clone.phase.as_ref().map(|phase| phase.word.clone());
    vec![
        clone.id.to_string(),
        clone.state.clone().unwrap_or_else(|| "never ran".to_owned()),
        clone.generation.map_or_else(dash, |generation| generation.to_string()),
        open.map_or_else(dash, |open| open.task.to_string()),
        open.map_or_else(dash, |open| human(clock::stamp().since(&open.since))),
        is.unwrap_or_else(|| if clone.up { "idle".to_owned() } else { dash() }),
        doing.or_else(phase).unwrap_or_else(dash),
    ]
}
