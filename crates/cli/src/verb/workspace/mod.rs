//! `netsky workspace`: a clone of a repository for each task.

use netsky_model::id::AgentId;
use netsky_work::landing::{Desk, Standing};
use netsky_work::workspace::Bytes;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::run::verbs;

mod create;
mod gc;
mod list;
mod remove;
mod show;

verbs! {
    /// Clones of repositories, one for each task, each on a branch of its own
    Verb {
        Create(create::Args),
        List(list::Args),
        Show(show::Args),
        Remove(remove::Args),
        Gc(gc::Args),
    }
}

/// What only the owner and agent0 change here.
const A_WORKSPACE: &str = "a workspace";

/// Does something about work and where it lands, for the owner or agent0.
pub(crate) fn at_desk<T>(
    cx: &Context,
    what: &str,
    act: impl FnOnce(&Desk<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    if let Some(me) = cx.bound(what)? {
        let what = format!("{what} is for the owner and agent0: this session is {me}");
        return Err(Error::new(Kind::Refused, what).hint("nothing was changed"));
    }
    looking(cx, act)
}

/// The same for whoever only looks.
pub(crate) fn looking<T>(cx: &Context, act: impl FnOnce(&Desk<'_>) -> Result<T, Error>) -> Result<T, Error> {
    let constellation = cx.constellation()?;
    let desk = Desk::open(constellation.layout, &constellation.bus, &constellation.netsky, cx.actor()?)?;
    act(&desk)
}

/// A workspace as an object.
fn object(cx: &Context, standing: &Standing) -> Result<Value, Error> {
    let mut value = json!({
        "id": standing.task, "agent": standing.agent, "bytes": standing.bytes.map(|bytes| bytes.own),
        "shared_bytes": standing.bytes.map(|bytes| bytes.shared), "landed": standing.has_landed,
    });
    match &standing.workspace {
        Ok(workspace) => {
            value["repo"] = json!(workspace.repo);
            value["main"] = json!(workspace.main.short());
            value["branch"] = json!(workspace.branch.short());
            value["base"] = json!(workspace.base);
            value["tip"] = json!(workspace.tip(cx.home()?));
            value["folder"] = json!(workspace.folder(cx.home()?));
            value["made_utc"] = json!(workspace.made.wall);
        }
        Err(why) => value["why"] = json!(why),
    }
    Ok(value)
}

/// What it takes, and what it has in common with its mirror.
fn disk(bytes: Option<Bytes>) -> String {
    let Some(bytes) = bytes else { return "not to be counted".to_owned() };
    match bytes.shared {
        0 => size(bytes.own),
        shared => format!("{} and {} shared", size(bytes.own), size(shared)),
    }
}

/// Bytes as people read them.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

fn named(agent: Option<&AgentId>) -> String {
    agent.map_or_else(|| "-".to_owned(), ToString::to_string)
}
