//! Those that everybody else needs and that live and say nothing: an anchor that answers nobody, a netsky-drivers that is stopped.
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

/// Who is so at this look, of which the work `failed`, if it did.
pub(crate) fn found(cx: &Context<'_>, failed: Option<&Error>) -> Vec<Found> {
    let one = |who: &str, (pid, reason): (u32, String)| Found {
        condition: format!("{SILENT}.{who}"),
        of: pid.to_string(),
        reason,
        tell: Some(Duration::ZERO),
        // Two looks, and ticks that something woke one after the other are one.
        page: Some(observe::interval(cx) / 2),
    };
    let anchor = failed.and_then(anchor).map(|silent| one("anchor", silent));
    let drivers = drivers(cx).map(|silent| one(AgentId::drivers().as_str(), silent));
    anchor.into_iter().chain(drivers).collect()
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

/// Who speaks to driven programs, where it is wanted: its process, and what to do.
pub(crate) fn drivers(cx: &Context<'_>) -> Option<(u32, String)> {
    let drivers = AgentId::drivers();
    wanted(cx.layout, &drivers).unwrap_or_default()?;
    let holder: ProcessId = Lock::noted(cx.layout.keeper_lock(&drivers))?;
    let pid = holder.pid;
    let said = format!(
        "netsky-drivers is stopped: no driven agent is spoken to; `kill -CONT {pid}`, or `kill -9 {pid}` and its keeper starts it again"
    );
    process::is_stopped(&holder).then_some((pid, said))
}
