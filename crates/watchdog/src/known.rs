//! What the disk knows of a session when no anchor says it: the anchor is dead, stopped or deaf, the agents live on.

use netsky_disk::layout::KernelLayout;
use netsky_disk::lock::Lock;
use netsky_disk::{clock, state};
use netsky_kernel::rpc::{SessionState, SessionView};
use netsky_kernel::session::{Heartbeat, Meta, Phase, heartbeat_period};
use netsky_kernel::settings::Bounds;
use netsky_model::id::AgentId;

use crate::context::Context;
use crate::error::Result;

/// The session of an agent, by its description and its worker's last beat; none where neither was ever written, or the
/// description does not read.
pub(crate) fn session(cx: &Context<'_>, agent: &AgentId) -> Option<SessionView> {
    let layout = KernelLayout::new(cx.layout.kernel_root());
    let meta = Meta::parse(&state::read(layout.meta(agent)).ok()??).ok()?;
    let state = match &meta.phase {
        // Its anchor died before it had a worker; nobody goes on with that.
        Phase::Starting if !may_be_held(layout.lock()) && !is_held(cx, agent) => SessionState::Orphaned,
        Phase::Starting => SessionState::Starting,
        Phase::Running { .. } => beating(&layout.heartbeat(agent), &meta),
        Phase::Ended { how, .. } => how.into(),
        Phase::Inactive { .. } => SessionState::Inactive,
    };
    Some(SessionView::of(&meta, state))
}

/// Everybody who was ever wanted or started here, agent0 first.
pub(crate) fn agents(cx: &Context<'_>) -> Result<Vec<AgentId>> {
    let mut agents = cx.layout.desired_agents()?;
    agents.extend(KernelLayout::new(cx.layout.kernel_root()).described_agents()?);
    agents.sort_by(|one, other| one.place().cmp(&other.place()));
    agents.dedup();
    Ok(agents)
}

/// Whether the worker of an agent lives, by its lock.
pub(crate) fn is_held(cx: &Context<'_>, agent: &AgentId) -> bool {
    may_be_held(KernelLayout::new(cx.layout.kernel_root()).worker_lock(agent))
}

/// What cannot be looked at may be.
fn may_be_held(lock: std::path::PathBuf) -> bool {
    Lock::is_held(lock).unwrap_or(true)
}

fn beating(path: &std::path::Path, meta: &Meta) -> SessionState {
    let beat = state::read(path).ok().flatten();
    let beat: Option<Heartbeat> = beat.and_then(|bytes| serde_json::from_slice(bytes.trim_ascii_end()).ok());
    let Some(beat) = beat.filter(|beat| beat.generation == meta.generation) else {
        return SessionState::Unknown;
    };
    SessionState::after(clock::stamp().since(&beat.at), Bounds::usual(heartbeat_period()))
}
