//! One ticker and one agentinfinity a home, as far as a hand may start another.

use std::time::Duration;

use netsky_disk::env::Caller;
use netsky_disk::input::let_output_flow;
use netsky_disk::lock::Lock;
use netsky_disk::{clock, process};
use netsky_model::id::AgentId;
use netsky_model::process::ProcessId;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::failsafe::{last_beat, silent_after};
use crate::notify;

/// Longest wait for a lock: whoever looks at one holds it for a moment.
const A_LOOK: Duration = Duration::from_millis(500);

/// Pause between two looks whether the other ticker has ended: time stands still for as long.
const SEAT: Duration = Duration::from_secs(2);

/// Who ticks, as its lock notes it.
#[derive(Serialize, Deserialize)]
struct Holder {
    #[serde(flatten)]
    process: ProcessId,
    /// A service manager started it, and ends it where it hangs.
    #[serde(default)]
    service: bool,
}

/// Be the ticker. The service and the session of the constellation itself may both want to: whoever comes second waits for
/// the end of the first, so that each is there for the other and one of them ticks.
///
/// # Errors
/// As [`only_one`], of a ticker that is neither.
pub(crate) fn seat(cx: &Context<'_>, caller: &Caller, service: bool) -> Result<Option<Lock>> {
    let ticker = AgentId::ticker();
    let path = cx.layout.keeper_lock(&ticker);
    let is_session = is_session_of(&ticker, caller);
    if is_session {
        let_output_flow();
    }
    // Who ends a service that hangs has long done so then, and where nobody does time must not stop with it. Looks are counted:
    // nobody beats while the machine sleeps.
    let most = 2 * silent_after(cx).as_secs() / SEAT.as_secs();
    let (mut beat, mut still) = (last_beat(cx), 0);
    while service || is_session && is_held_by_service(cx) && still < most {
        if let Some(mut lock) = Lock::try_take(&path)? {
            lock.note(&Holder { process: process::identity()?, service })?;
            return Ok(Some(lock));
        }
        if service {
            notify::tell(notify::WAITS);
        }
        clock::pause(SEAT);
        let now = last_beat(cx);
        still = if now == beat { still + 1 } else { 0 };
        beat = now;
    }
    only_one(cx, &ticker, caller)
}

/// Whether the ticker of a service has the seat.
pub(crate) fn is_held_by_service(cx: &Context<'_>) -> bool {
    let path = cx.layout.keeper_lock(&AgentId::ticker());
    let is_held = Lock::is_held(&path).unwrap_or(false);
    is_held && Lock::noted(&path).is_some_and(|holder: Holder| holder.service)
}

/// Be the one, for as long as the lock is kept.
///
/// # Errors
/// Another process is it. The session that the constellation itself started is never kept from its work by that:
/// whoever holds the lock may be stopped, and time must not stop with it.
pub(crate) fn only_one(cx: &Context<'_>, keeper: &AgentId, caller: &Caller) -> Result<Option<Lock>> {
    let path = cx.layout.keeper_lock(keeper);
    let is_session = is_session_of(keeper, caller);
    if is_session {
        // Whoever types there, it says what it does and goes on.
        let_output_flow();
    }
    if let Some(mut lock) = Lock::take_within(&path, A_LOOK)? {
        lock.note(&process::identity()?)?;
        return Ok(Some(lock));
    }
    if is_session {
        return Ok(None);
    }
    let pid = Lock::noted(&path).map(|holder: ProcessId| holder.pid);
    Err(Error::KeeperRuns { keeper: keeper.clone(), pid })
}

/// Whether the session that the constellation itself started for it is who calls.
fn is_session_of(keeper: &AgentId, caller: &Caller) -> bool {
    matches!(caller, Caller::Inside { agent: Some(agent), .. } if agent == keeper)
}
