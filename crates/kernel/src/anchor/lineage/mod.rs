//! Lineages: listed, shown, resolved.

mod list;
mod resolve;
mod show;

pub(super) use list::list;
pub(super) use resolve::resolve;
pub(super) use show::show;

use netsky_model::id::{AgentId, LineageId};

use super::state::Anchor;
use crate::rpc::{Refusal, RefusalKind};

/// The session that carries a lineage.
pub(super) fn carrier(anchor: &Anchor, id: &LineageId) -> Result<AgentId, Refusal> {
    let carries = |name: &AgentId| anchor.entry(name, |entry| entry.meta.lineage == *id) == Some(true);
    let carrier = anchor.names().into_iter().find(carries);
    carrier.ok_or_else(|| Refusal::new(RefusalKind::NotFound, format!("no lineage {id}")))
}
