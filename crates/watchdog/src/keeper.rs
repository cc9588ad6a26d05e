//! One ticker and one agentinfinity a home, as far as a hand may start another.

use std::time::Duration;

use netsky_disk::env::Caller;
use netsky_disk::lock::Lock;
use netsky_disk::process;
use netsky_model::id::AgentId;
use netsky_model::process::ProcessId;

use crate::context::Context;
use crate::error::{Error, Result};

/// Longest wait for a lock: whoever looks at one holds it for a moment.
const A_LOOK: Duration = Duration::from_millis(500);

/// Be the one, for as long as the lock is kept.
///
/// # Errors
/// Another process is it. The session that the constellation itself started is never kept from its work by that:
/// whoever holds the lock may be stopped, and time must not stop with it.
pub(crate) fn only_one(cx: &Context<'_>, keeper: &AgentId, caller: &Caller) -> Result<Option<Lock>> {
    let path = cx.layout.keeper_lock(keeper);
    if let Some(mut lock) = Lock::take_within(&path, A_LOOK)? {
        lock.note(&process::identity()?)?;
        return Ok(Some(lock));
    }
    match caller {
        Caller::Inside { agent: Some(agent), .. } if agent == keeper => Ok(None),
        _ => {
            let pid = Lock::noted(&path).map(|holder: ProcessId| holder.pid);
            Err(Error::KeeperRuns { keeper: keeper.clone(), pid })
        }
    }
}
