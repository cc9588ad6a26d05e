//! `netsky agent stop`, and `ostk kernel kill` of a clone: first one slot is not wanted any more, then it ends. No tick overrides that.

use std::time::Duration;

use netsky_disk::env::Caller;
use netsky_disk::{clock, state};
use netsky_kernel::client::{Client, ClientError};
use netsky_kernel::rpc::{Guard, RefusalKind};
use netsky_model::desired::{Desired, Want};
use netsky_model::id::AgentId;
use netsky_runtime::TAG_SINCE;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::held::Held;
use crate::{known, perform};

/// Longest grace of a slot: nobody else is seen to until it is over.
const LONGEST_GRACE: Duration = Duration::from_secs(30);

/// Stop the agent of one slot, with a grace of its program's; whether it ran. Its mail waits, also what it had taken. It can be
/// repeated. Where the guard means another incarnation than the newest, nothing is done.
///
/// # Errors
/// Called inside a session, it was never wanted or is agent0 (none of its clones would have anybody to report to), or it
/// would not end: it is not wanted any more then, and the tick ends it.
pub fn stop(
    cx: &Context<'_>,
    caller: &Caller,
    agent: &AgentId,
    grace: Option<Duration>,
    guard: &Guard,
) -> Result<bool> {
    if *caller != Caller::Outside {
        return Err(Error::OwnerOnly { verb: "agent stop" });
    }
    if *agent == AgentId::root() {
        return Err(Error::RootStays);
    }
    if agent.number().is_none() {
        return Err(Error::NoSlot(agent.clone()));
    }
    if grace.is_some_and(|grace| grace > LONGEST_GRACE) {
        return Err(Error::LongGrace(LONGEST_GRACE));
    }
    // No tick and no child of a restart starts it meanwhile.
    let mut held = Held::take(cx)?;
    let _wishes = perform::hold_wishes(cx)?;
    let wish: Option<Desired> = state::read_json(cx.layout.desired(agent))?;
    let wish = wish.ok_or_else(|| Error::NeverWanted(agent.clone()))?;
    if !is_meant(cx, &wish, grace, guard)? {
        return Ok(false);
    }
    if wish.want == Want::Up {
        let by = "agent stop".to_owned();
        let stopped = Desired { want: Want::Stopped, by, since: clock::wall(), ..wish.clone() };
        state::write_json(cx.layout.desired(agent), &stopped)?;
    }
    let mut client = match Client::connect(&cx.layout.kernel_root()) {
        // Its worker may live on: an anchor finds that, and ends it.
        Err(ClientError::NotServing { .. }) if known::is_held(cx, agent) => cx.anchor()?,
        Err(ClientError::NotServing { .. }) => return Ok(false),
        served => served?,
    };
    held.got_on()?;
    let session = match client.show(agent) {
        Err(error) if error.kind() == Some(RefusalKind::NotFound) => return Ok(false),
        shown => shown?,
    };
    let lives = session.state.may_live();
    if lives {
        client.kill(agent, grace, &Guard::if_generation(session.generation))?;
        cx.record.watchdog("stopped", Some(agent), "by the owner");
    }
    held.got_on()?;
    perform::return_mail(cx, &wish, Some(session.generation), |generation| generation <= session.generation)?;
    Ok(lives)
}

/// Whether a guard means the newest incarnation: the one that it names, or the one that was ended under its request id. Who came
/// after that one for the same wish is meant too: whoever asked died, or had no room, before it took the wish back.
fn is_meant(cx: &Context<'_>, wish: &Desired, grace: Option<Duration>, guard: &Guard) -> Result<bool> {
    if *guard == Guard::none() {
        return Ok(true);
    }
    let (agent, mut client) = (&wish.agent, Client::connect(&cx.layout.kernel_root())?);
    let (meant, is_of_wish) = match &guard.request_id {
        // Ended first: its anchor remembers the id, and answers a repeat with whom it ended then.
        Some(_) => {
            let ended = client.kill(agent, grace, guard)?;
            (Some(ended.generation), ended.tags.get(TAG_SINCE) == Some(&wish.since.to_string()))
        }
        None => (guard.if_generation, false),
    };
    let newest = client.show(agent)?.generation;
    Ok(is_of_wish || meant.is_none_or(|meant| meant == newest))
}
