//! `netsky loop list`: all loops, those that fire first first.

use jiff::Timestamp;
use netsky_schedule::interval::written;
use netsky_schedule::loops::{Broken, Loop, read_all, set_aside};
use serde_json::json;

use super::object;
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

const HEAD: [&str; 10] =
    ["id", "mode", "agent", "interval", "next fire", "last fire", "state", "missed", "last error", "prompt"];

/// List the loops, by when they fire next; what is none with its line
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let layout = cx.home()?;
        let (loops, broken) = read_all(layout)?;
        let aside = set_aside(layout);
        if cx.json {
            let all: Vec<_> = loops.iter().map(object).collect();
            let broken: Vec<_> =
                broken.iter().map(|one| json!({ "file": one.name, "why": one.why })).collect();
            return output::json(&json!({ "loops": all, "broken": broken, "aside": aside }));
        }
        for name in &aside {
            output::say(&format!(
                "warning: {} was no loop and lies in state/loops/broken",
                output::short(name)
            ))?;
        }
        let rows = loops.iter().map(row).chain(broken.iter().map(none)).collect();
        output::table(&HEAD, rows, "there are no loops")
    }
}

fn row(entry: &Loop) -> Vec<String> {
    let dash = || "-".to_owned();
    let at = |at: Timestamp| format!("{at:.0}");
    vec![
        entry.id.to_string(),
        entry.mode.word().to_owned(),
        entry.agent.to_string(),
        entry.interval().map_or_else(dash, written),
        at(entry.next_fire_utc),
        entry.last_fire_utc.map_or_else(dash, at),
        entry.standing().word().to_owned(),
        entry.missed.to_string(),
        output::short(entry.last_error.as_deref().unwrap_or("-")),
        output::short(&entry.prompt),
    ]
}

fn none(broken: &Broken) -> Vec<String> {
    let mut row = vec!["-".to_owned(); HEAD.len()];
    row[0] = broken.name.clone();
    row[6] = "broken".to_owned();
    row[8] = output::short(&broken.why);
    row
}
