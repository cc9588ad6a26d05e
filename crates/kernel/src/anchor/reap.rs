//! `kernel/reap`: put ended sessions aside and remove what they left.
//!
//! Promise: only what is gone is reaped, so its lineage and generation stay in its meta: a later start goes on counting.

use netsky_model::id::AgentId;

use super::state::{Anchor, about, internal};
use super::table::Life;
use super::{revive, settle};
use crate::journal::About;
use crate::rpc::reap::Answer;
use crate::rpc::{EventKind, Refusal, event_data};
use crate::session::{Phase, PhaseEvent};

pub(super) fn reap(anchor: &Anchor) -> Result<Answer, Refusal> {
    let mut reaped = Vec::new();
    for name in anchor.names() {
        if one(anchor, &name)? {
            reaped.push(name);
        }
    }
    Ok(Answer { reaped })
}

fn one(anchor: &Anchor, name: &AgentId) -> Result<bool, Refusal> {
    let Some((Life::Gone, meta)) = anchor.entry(name, |entry| (entry.life, entry.meta.clone())) else {
        return Ok(false);
    };
    // A session in the pause before its revival is not over, and one that waits to be told least of all.
    if !matches!(meta.phase, Phase::Ended { .. }) || revive::wanted(anchor, &about(&meta)) {
        return Ok(false);
    }
    put_aside(anchor, &about(&meta))
}

/// Puts a session aside whose program is gone; false if its lock says that somebody is at it, or another generation is.
pub(super) fn put_aside(anchor: &Anchor, about: &About) -> Result<bool, Refusal> {
    let name = &about.session;
    let found = anchor.entry(name, |entry| (entry.life, entry.meta.clone()));
    let Some((Life::Gone, mut meta)) = found.filter(|(_, meta)| meta.generation == about.generation) else {
        return Ok(false);
    };
    let Some(_held) = settle::hold(anchor, name) else { return Ok(false) };
    let now = netsky_disk::clock::stamp();
    meta.phase = meta.phase.next(PhaseEvent::Reaped(now.clone())).map_err(internal)?;
    meta.written_at = now;
    // Before it counts as put aside: then nobody looks for them any more.
    for left in [anchor.layout.heartbeat(name), anchor.layout.worker_sock(name)] {
        netsky_disk::state::remove(left).map_err(internal)?;
    }
    anchor.write_meta(&meta).map_err(internal)?;
    anchor.entry(name, |entry| {
        entry.meta = meta;
        entry.asking = false;
    });
    anchor.register(std::slice::from_ref(name));
    anchor.observe(EventKind::Reaped, Some(about.clone()), event_data::Reaped { acknowledged_by: None });
    Ok(true)
}
