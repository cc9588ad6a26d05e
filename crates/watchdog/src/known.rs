//! What the disk knows of sessions when no anchor says it: the anchor is dead, stopped or deaf, the agents live on.

use std::collections::BTreeMap;

use netsky_disk::layout::{KernelLayout, Layout};
use netsky_disk::lock::Lock;
use netsky_disk::state;
use netsky_kernel::anchor;
use netsky_kernel::rpc::SessionView;
use netsky_model::desired::{Desired, Want};
use netsky_model::id::AgentId;

use crate::context::Context;
use crate::error::Result;

/// Every session of which the kernel's files say something that reads.
pub(crate) fn sessions(cx: &Context<'_>) -> Result<BTreeMap<AgentId, SessionView>> {
    let known = anchor::unserved(&cx.layout.kernel_root())?.sessions;
    Ok(known.into_iter().map(|session| (session.name.clone(), session)).collect())
}

/// Everybody who was ever wanted or started here, agent0 first.
pub(crate) fn agents(cx: &Context<'_>) -> Result<Vec<AgentId>> {
    let mut agents = cx.layout.desired_agents()?;
    agents.extend(KernelLayout::new(cx.layout.kernel_root()).described_agents()?);
    agents.sort_by(|one, other| one.place().cmp(&other.place()));
    agents.dedup();
    Ok(agents)
}

/// The wish of an agent that is wanted; none of one that is not.
///
/// # Errors
/// It does not read.
pub fn wanted(layout: &Layout, agent: &AgentId) -> netsky_disk::Result<Option<Desired>> {
    let wish: Option<Desired> = state::read_json(layout.desired(agent))?;
    Ok(wish.filter(|wish| wish.want == Want::Up))
}

/// Whether the worker of an agent lives, by its lock; what cannot be looked at may be.
pub(crate) fn is_held(cx: &Context<'_>, agent: &AgentId) -> bool {
    Lock::is_held(KernelLayout::new(cx.layout.kernel_root()).worker_lock(agent)).unwrap_or(true)
}
