//! `netsky session up`: the new session proves that it runs what it was started for, by handing back
//! the nonce that only this start was given. Whoever started it waits for that here.

use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::env::{self, Caller};
use netsky_disk::watch::Watch;
use netsky_model::id::AgentId;
use netsky_runtime::UpProof;

use crate::context::Context;
use crate::error::{Error, Result};

/// Slow look while waiting for a proof: whether the session died, and for what gave no event.
const RESCAN: Duration = Duration::from_millis(500);

/// Wait until `look` finds a proof or says why none will come: it is asked now, when a proof is written, and
/// every [`RESCAN`].
pub(crate) fn wait_for_proof(
    cx: &Context<'_>,
    agent: &AgentId,
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<UpProof>>,
) -> Result<UpProof> {
    let watch = Watch::new(&[cx.layout.up_folder()])?;
    let until = clock::boot() + limit;
    loop {
        if let Some(proof) = look()? {
            return Ok(proof);
        }
        if clock::boot() >= until {
            return Err(Error::NotProved(agent.clone(), limit));
        }
        watch.wait(RESCAN)?;
    }
}

/// Write the proof; durable when this returns. A repeat writes the same again.
///
/// # Errors
/// Not inside a session that netsky started, or the proof cannot be written.
pub fn session_up(cx: &Context<'_>, caller: &Caller) -> Result<UpProof> {
    let Caller::Inside { agent: Some(agent), generation } = caller else {
        return Err(Error::NoSession { missing: env::AGENT });
    };
    let nonce = env::up_nonce().ok_or(Error::NoSession { missing: env::UP_NONCE })?;
    Ok(UpProof::write(cx.layout, &nonce, agent, *generation)?)
}
