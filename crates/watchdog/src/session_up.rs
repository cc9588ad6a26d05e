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

/// Longest that one look and the wait for the next may take; what is longer was no wait: the machine slept, or this did.
const LOOK: Duration = Duration::from_secs(10);

/// How long is waited yet, by the boot clock and only while this ran.
struct Patience {
    left: Duration,
    last: Duration,
}

impl Patience {
    fn is_over(&mut self, now: Duration) -> bool {
        self.left = self.left.saturating_sub(now.saturating_sub(self.last).min(LOOK));
        self.last = now;
        self.left.is_zero()
    }
}

/// Wait until `look` finds a proof or says why none will come: it is asked now, when a proof is written, and
/// every [`RESCAN`].
pub(crate) fn wait_for_proof(
    cx: &Context<'_>,
    agent: &AgentId,
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<UpProof>>,
) -> Result<UpProof> {
    let watch = Watch::new(&[cx.layout.up_folder()])?;
    let mut patience = Patience { left: limit, last: clock::boot() };
    loop {
        if let Some(proof) = look()? {
            return Ok(proof);
        }
        if patience.is_over(clock::boot()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t9_a_machine_that_sleeps_takes_little_from_the_time_of_a_start() {
        let at = Duration::from_secs;
        let mut patience = Patience { left: at(60), last: at(100) };
        let over = [105, 7305, 7310, 7340, 7344].map(|now| (now, patience.is_over(at(now))));
        assert!(over.iter().all(|(_, over)| !over), "{over:?}");
        assert_eq!(patience.left, at(26));
        for now in [7350, 7355, 7360, 7365] {
            assert!(!patience.is_over(at(now)));
        }
        assert!(patience.is_over(at(7370)));
    }
}
