//! `netsky down`: first nothing is wanted any more, then everything ends.

use std::collections::BTreeMap;
use std::time::Duration;

use netsky_disk::env::Caller;
use netsky_disk::{clock, process, random, state};
use netsky_kernel::client::{Client, ClientError};
use netsky_model::desired::{Desired, Want};
use netsky_model::id::{AgentId, Generation};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::tick::Held;
use crate::{observe, perform};

/// Longest wait for a killed restart child.
const CHILD_END: Duration = Duration::from_secs(5);

/// What went down.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Downed {
    /// Sessions that were ended.
    pub ended: Vec<AgentId>,
    /// What did not read on the way; nothing of it was changed.
    pub problems: Vec<String>,
}

/// Stop a constellation. Its mail, its desired programs and its record stay; a restart that was asked for
/// is put aside.
///
/// # Errors
/// Called inside a session, or a session would not end; it can be repeated.
pub fn down(cx: &Context<'_>, caller: &Caller) -> Result<Downed> {
    if *caller != Caller::Outside {
        return Err(Error::OwnerOnly { verb: "down" });
    }
    let _held = Held::take(cx)?;
    let mut problems = Vec::new();
    let mut wishes = observe::wishes(cx, &mut problems)?;
    for desired in &mut wishes {
        if desired.want == Want::Up {
            desired.want = Want::Stopped;
            desired.by = "down".to_owned();
            desired.since = clock::wall();
            state::write_json(cx.layout.desired(&desired.agent), desired)?;
        }
    }
    stop_restart(cx)?;
    let Ends { ended, left, stopped } = end_sessions(cx, &wishes)?;
    for desired in wishes.iter().filter(|desired| !left.contains(&desired.agent)) {
        if cx.bus.knows(&desired.agent) {
            perform::return_mail(cx, desired, stopped.get(&desired.agent).copied(), |_| true)?;
        }
    }
    if left.is_empty() {
        return Ok(Downed { ended, problems });
    }
    Err(Error::NotEnded(left.iter().map(ToString::to_string).collect()))
}

/// A restart under way, or asked for, must not bring back what goes down.
fn stop_restart(cx: &Context<'_>) -> Result<()> {
    let underway = observe::underway(cx).unwrap_or_default();
    let id = underway.as_ref().map_or_else(random::restart_id, |underway| underway.inflight.id.clone());
    state::remove(cx.layout.restart_inflight())?;
    if let Some(child) = underway.and_then(|underway| underway.inflight.child)
        && let Some(held) = process::PidFd::open(&child)?
    {
        held.signal(process::Signal::KILL)?;
        held.wait(CHILD_END)?;
    }
    for (request, what) in
        [(cx.layout.restart_request(), "stopped"), (cx.layout.restart_processing(), "stopped-claimed")]
    {
        state::claim(request, cx.layout.archived_request(&id, what))?;
    }
    Ok(())
}

/// What became of the sessions.
#[derive(Default)]
struct Ends {
    ended: Vec<AgentId>,
    left: Vec<AgentId>,
    /// Generations that ended because somebody wanted it, by this call or before.
    stopped: BTreeMap<AgentId, Generation>,
}

fn end_sessions(cx: &Context<'_>, wishes: &[Desired]) -> Result<Ends> {
    let mut client = match Client::connect(&cx.layout.kernel_root()) {
        Err(ClientError::NotServing { .. }) if wishes.is_empty() => return Ok(Ends::default()),
        // Nobody serves: live workers are only known once an anchor has adopted them.
        Err(ClientError::NotServing { .. }) => cx.anchor()?,
        connected => connected?,
    };
    let stopped = client
        .list()?
        .into_iter()
        .filter(|session| session.state.may_live() || perform::stopped(session).is_some())
        .map(|session| (session.name, session.generation))
        .collect();
    let answer = client.shutdown(true)?;
    Ok(Ends { ended: answer.ended, left: answer.left, stopped })
}
