//! The sessions of a root that no anchor serves, as its files and its workers' locks have them.
//!
//! Promise: nothing is written, started or asked. An anchor that comes may know more: what a worker that died has left.

use std::path::Path;

use netsky_disk::Error;
use netsky_disk::layout::KernelLayout;
use netsky_disk::lock::Lock;
use netsky_disk::process::probe;
use netsky_model::id::AgentId;
use netsky_model::process::Life as Probed;

use super::folded;
use crate::meta_file;
use crate::rpc::{SessionState, SessionView};
use crate::session::{Meta, Phase};

/// What a root knows of its sessions.
#[derive(Debug, Default)]
pub struct Unserved {
    /// By name, without those that were put aside.
    pub sessions: Vec<SessionView>,
    /// Those whose description does not read.
    pub unread: Vec<AgentId>,
}

/// Looks at the sessions of `root`.
///
/// # Errors
/// Its folders cannot be read.
pub fn sessions(root: &Path) -> Result<Unserved, Error> {
    let layout = KernelLayout::new(root);
    let stopped = stopped(&layout);
    let mut known = Unserved::default();
    for name in layout.described_agents()? {
        match meta_file::read(&layout, &name) {
            Ok(Some(meta)) if matches!(meta.phase, Phase::Inactive { .. }) => {}
            Ok(Some(meta)) => {
                let is_down = stopped.iter().any(|down| *down == (name.clone(), meta.generation));
                let state = if is_down { SessionState::Stopped } else { state(&layout, &meta) };
                known.sessions.push(SessionView::of(&meta, state));
            }
            Ok(None) => {}
            Err(_) => known.unread.push(name),
        }
    }
    Ok(known)
}

/// Who was wanted down after it was lost: that stands in the journal alone.
fn stopped(layout: &KernelLayout) -> Vec<(AgentId, netsky_model::id::Generation)> {
    // One that does not read says nothing here; `ostk journal verify` does.
    let rows = folded::sessions(&layout.journal()).unwrap_or_default();
    let down = rows.into_iter().filter(|row| row.state == SessionState::Stopped);
    down.map(|row| (row.name, row.generation)).collect()
}

fn state(layout: &KernelLayout, meta: &Meta) -> SessionState {
    let held = Lock::is_held(layout.worker_lock(&meta.spec.name)).unwrap_or(true);
    let probed = meta.worker.as_ref().map(probe);
    match &meta.phase {
        Phase::Ended { how, .. } => how.into(),
        Phase::Inactive { .. } => SessionState::Inactive,
        _ if probed == Some(Probed::Unknown) => SessionState::Unknown,
        Phase::Starting if held => SessionState::Starting,
        Phase::Running { .. } if held => SessionState::Active,
        Phase::Starting | Phase::Running { .. } => SessionState::Orphaned,
    }
}
