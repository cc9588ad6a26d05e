//! Those that everybody else needs and that live and say nothing: an anchor that answers nobody, a keeper that is stopped.
//! Nobody ends them, for whoever stopped them may be looking at them, and the owner hears of it.

use std::time::Duration;

use netsky_disk::lock::Lock;
use netsky_disk::process;
use netsky_kernel::client::{ClientError, Holder};
use netsky_model::id::AgentId;
use netsky_model::process::ProcessId;

use crate::context::Context;
use crate::error::Error;
use crate::known::wanted;
use crate::observe;
use crate::standing::Found;

/// The kind of the condition; behind it stands who.
pub(crate) const SILENT: &str = "silent";
/// The whole condition of an anchor.
pub(crate) const ANCHOR: &str = "silent.anchor";

/// Who is so at this look, of which the work `failed`, if it did.
pub(crate) fn found(cx: &Context<'_>, failed: Option<&Error>) -> Vec<Found> {
    let one = |condition: String, (pid, reason): (u32, String)| Found {
        condition,
        of: pid.to_string(),
        reason,
        tell: Some(Duration::ZERO),
        // Two looks, and ticks that something woke one after the other are one.
        page: Some(observe::interval(cx) / 2),
    };
    let anchor = failed.and_then(anchor).map(|silent| one(ANCHOR.to_owned(), silent));
    let stopped = stopped(cx).into_iter();
    let stopped = stopped.map(|(agent, pid, said)| one(format!("{SILENT}.{agent}"), (pid, said)));
    anchor.into_iter().chain(stopped).collect()
}

/// The anchor, as a call met it: its process, and what to do.
fn anchor(failed: &Error) -> Option<(u32, String)> {
    let Error::Kernel(error @ ClientError::Silent { holder: Some(Holder { pid, stopped, .. }), .. }) = failed
    else {
        return None;
    };
    let end = format!("`kill -9 {pid}`, and the next tick starts another, with all agents");
    let way = if *stopped { format!("`kill -CONT {pid}`, or {end}") } else { end };
    Some((*pid, format!("{error}: no agent is started, ended or brought back; {way}")))
}

/// Those of the constellation that are wanted and stopped: each with its process, and what to do.
pub(crate) fn stopped(cx: &Context<'_>) -> Vec<(AgentId, u32, String)> {
    let all = [
        (AgentId::drivers(), "no driven agent is spoken to"),
        (AgentId::infinity(), "an end is seen at the next tick only"),
        (AgentId::ticker(), "no tick comes by itself"),
    ];
    let one = |(agent, lacks): (AgentId, &str)| {
        wanted(cx.layout, &agent).unwrap_or_default()?;
        let holder: ProcessId = Lock::noted(cx.layout.keeper_lock(&agent))?;
        let pid = holder.pid;
        let said = format!(
            "{agent}: it is stopped, {lacks}; `kill -CONT {pid}`, or `kill -9 {pid}` and its keeper starts it again"
        );
        process::is_stopped(&holder).then_some((agent, pid, said))
    };
    all.into_iter().filter_map(one).collect()
}
