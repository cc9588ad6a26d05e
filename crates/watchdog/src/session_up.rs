//! `netsky session up`: the new session proves that it runs what it was started for, by handing back
//! the nonce that only this start was given. Whoever started it waits for that here.

use std::time::Duration;

use jiff::Timestamp;
use netsky_disk::env::{self, Caller};
use netsky_disk::watch::Watch;
use netsky_disk::{clock, process, state};
use netsky_kernel::rpc::SessionView;
use netsky_model::id::{AgentId, Generation, Nonce};
use netsky_model::process::ProcessId;
use netsky_runtime::TAG_NONCE;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::error::{Error, Result};

/// Slow look while waiting for a proof: whether the session died, and for what gave no event.
const RESCAN: Duration = Duration::from_millis(500);

/// `state/up/<nonce>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpProof {
    /// Format version.
    pub v: u64,
    /// Who is up.
    pub agent: AgentId,
    /// Which incarnation: the session's number, which only rises.
    pub generation: Generation,
    /// When it said so.
    pub at: Timestamp,
    /// The process that said so.
    pub process: ProcessId,
}

impl UpProof {
    /// The line that people read.
    pub fn line(&self) -> String {
        format!("{} session {} starting at {}", self.agent, self.generation, self.at)
    }

    /// The proof of a session's present incarnation; none if it has not come.
    pub(crate) fn of_session(cx: &Context<'_>, session: &SessionView) -> Option<UpProof> {
        let nonce: Nonce = session.tags.get(TAG_NONCE)?.parse().ok()?;
        UpProof::of(cx, &nonce, &session.name, session.generation)
    }

    /// Read the proof of a start; none if there is none, or none that fits.
    pub(crate) fn of(
        cx: &Context<'_>,
        nonce: &Nonce,
        agent: &AgentId,
        generation: Generation,
    ) -> Option<UpProof> {
        UpProof::read(cx, nonce, agent, generation).ok()?
    }

    /// As [`UpProof::of`], for whoever must not take a proof that does not read for one that has not come.
    pub(crate) fn read(
        cx: &Context<'_>,
        nonce: &Nonce,
        agent: &AgentId,
        generation: Generation,
    ) -> Result<Option<UpProof>> {
        let proof: Option<UpProof> = state::read_json(cx.layout.up(nonce))?;
        Ok(proof.filter(|proof| proof.agent == *agent && proof.generation == generation))
    }

    /// Wait until `look` finds a proof or says why none will come: it is asked now, when a proof is written, and
    /// every [`RESCAN`].
    pub(crate) fn wait(
        cx: &Context<'_>,
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
                return Err(Error::NotProved(limit));
            }
            watch.wait(RESCAN)?;
        }
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
    let proof = UpProof {
        v: 1,
        agent: agent.clone(),
        generation: *generation,
        at: clock::wall_seconds(),
        process: process::identity()?,
    };
    state::write_json(cx.layout.up(&nonce), &proof)?;
    Ok(proof)
}
