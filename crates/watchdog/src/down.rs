//! `netsky down`: nothing is wanted any more, then everything ends, the keepers first.

use netsky_disk::env::Caller;
use netsky_disk::{clock, process, state};
use netsky_kernel::client::{Client, ClientError};
use netsky_model::desired::{Desired, Want};
use netsky_model::id::AgentId;
use netsky_model::restart::Inflight;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::{perform, tick};

/// What went down.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Downed {
    /// Sessions that were ended.
    pub ended: Vec<AgentId>,
}

/// Stop a constellation. Its mail, its desired programs and its record stay.
///
/// # Errors
/// Called inside a session, or a session would not end; it can be repeated.
pub fn down(cx: &Context<'_>, caller: &Caller) -> Result<Downed> {
    if *caller != Caller::Outside {
        return Err(Error::OwnerOnly { verb: "down" });
    }
    let _lock = tick::lock(cx)?;
    let mut wishes: Vec<Desired> = Vec::new();
    for agent in cx.layout.desired_agents()? {
        wishes.extend(state::read_json::<Desired>(cx.layout.desired(&agent))?);
    }
    for desired in &mut wishes {
        if desired.want == Want::Up {
            desired.want = Want::Stopped;
            desired.by = "down".to_owned();
            desired.since = clock::wall();
            state::write_json(cx.layout.desired(&desired.agent), desired)?;
        }
    }
    stop_restart(cx)?;
    let ended = end_sessions(cx, &wishes)?;
    for desired in &wishes {
        perform::return_mail(cx, desired, |_| true)?;
    }
    Ok(Downed { ended })
}

/// A restart under way must not bring back what goes down.
fn stop_restart(cx: &Context<'_>) -> Result<()> {
    let inflight: Option<Inflight> = state::read_json(cx.layout.restart_inflight()).unwrap_or_default();
    state::remove(cx.layout.restart_inflight())?;
    if let Some(child) = inflight.and_then(|inflight| inflight.child)
        && let Some(held) = process::PidFd::open(&child)?
    {
        held.signal(process::Signal::KILL)?;
        held.wait(std::time::Duration::from_secs(5))?;
    }
    Ok(())
}

fn end_sessions(cx: &Context<'_>, wishes: &[Desired]) -> Result<Vec<AgentId>> {
    let client = match Client::connect(&cx.layout.kernel_root()) {
        // Nobody serves: live workers are only known once an anchor has adopted them.
        Err(ClientError::NotServing { .. }) if wishes.is_empty() => return Ok(Vec::new()),
        Err(ClientError::NotServing { .. }) => cx.anchor()?,
        connected => connected?,
    };
    Ok(client.shutdown(true)?.ended)
}
