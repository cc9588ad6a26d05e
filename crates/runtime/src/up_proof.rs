//! `state/up/<nonce>`: what a new session hands back to prove that it runs what it was started for.

use std::time::Duration;

use jiff::Timestamp;
use netsky_disk::layout::{KernelLayout, Layout};
use netsky_disk::{clock, process, state};
use netsky_kernel::rpc::SessionView;
use netsky_kernel::session::Meta;
use netsky_model::id::{AgentId, Generation, Nonce};
use netsky_model::process::ProcessId;
use serde::{Deserialize, Serialize};

use crate::launch::TAG_NONCE;

/// The proof.
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
    /// The process that said so: the session's own, or the one that speaks for it.
    pub process: ProcessId,
}

impl UpProof {
    /// How old the proof of a session that has ended may become, as long as nobody came after it: an `up` that waits for it
    /// tells an end behind a proof from one before it.
    pub const KEPT: Duration = Duration::from_secs(10 * 60);

    /// The line that people read.
    pub fn line(&self) -> String {
        format!("{} session {} starting at {}", self.agent, self.generation, self.at)
    }

    /// The proof of a session's present incarnation; none if it has not come.
    pub fn of_session(layout: &Layout, session: &SessionView) -> Option<UpProof> {
        let nonce: Nonce = session.tags.get(TAG_NONCE)?.parse().ok()?;
        UpProof::of(layout, &nonce, &session.name, session.generation)
    }

    /// Read the proof of a start; none if there is none, or none that fits.
    pub fn of(layout: &Layout, nonce: &Nonce, agent: &AgentId, generation: Generation) -> Option<UpProof> {
        UpProof::read(layout, nonce, agent, generation).ok()?
    }

    /// As [`UpProof::of`], for whoever must not take a proof that does not read for one that has not come.
    ///
    /// # Errors
    /// The file is there and does not read.
    pub fn read(
        layout: &Layout,
        nonce: &Nonce,
        agent: &AgentId,
        generation: Generation,
    ) -> netsky_disk::Result<Option<UpProof>> {
        let proof: Option<UpProof> = state::read_json(layout.up(nonce))?;
        Ok(proof.filter(|proof| proof.agent == *agent && proof.generation == generation))
    }

    /// Write the proof of a start; durable when this returns. A repeat writes the same again.
    ///
    /// # Errors
    /// The system refuses.
    pub fn write(
        layout: &Layout,
        nonce: &Nonce,
        agent: &AgentId,
        generation: Generation,
    ) -> netsky_disk::Result<UpProof> {
        let proof = UpProof {
            v: 1,
            agent: agent.clone(),
            generation,
            at: clock::wall_seconds(),
            process: process::identity()?,
        };
        state::write_json(layout.up(nonce), &proof)?;
        Ok(proof)
    }
}

/// Hand back the nonce of a session for it: its program has said, in its own protocol, that it takes messages. Once: a
/// proof that is there stays.
pub(crate) fn hand_back(
    layout: &Layout,
    kernel: &KernelLayout,
    agent: &AgentId,
    generation: Generation,
) -> netsky_disk::Result<()> {
    let Some(meta) = state::read(kernel.meta(agent))?.and_then(|bytes| Meta::parse(&bytes).ok()) else {
        return Ok(());
    };
    let nonce = meta.spec.tags.get(TAG_NONCE).and_then(|text| text.parse::<Nonce>().ok());
    let Some(nonce) = nonce.filter(|_| meta.generation == generation) else { return Ok(()) };
    if !state::exists(layout.up(&nonce))? {
        UpProof::write(layout, &nonce, agent, generation)?;
    }
    Ok(())
}
