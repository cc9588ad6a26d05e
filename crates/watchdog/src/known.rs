//! What the disk knows of a session when no anchor says it: the anchor is dead, stopped or deaf, the agents live on.

use std::time::Duration;

use netsky_disk::{clock, state};
use netsky_kernel::rpc::{SessionState, SessionView};
use netsky_kernel::session::{Heartbeat, Meta, Phase};
use netsky_model::id::AgentId;

use crate::context::Context;

/// Beats of a worker older than these: idle, hung; three and nine of the usual ones.
const IDLE: Duration = Duration::from_secs(30);
const HUNG: Duration = Duration::from_secs(90);

/// The session of an agent, by its description and its worker's last beat; none where neither was ever written, or the
/// description does not read.
pub(crate) fn session(cx: &Context<'_>, agent: &AgentId) -> Option<SessionView> {
    let layout = netsky_disk::layout::KernelLayout::new(cx.layout.kernel_root());
    let meta = Meta::parse(&state::read(layout.meta(agent)).ok()??).ok()?;
    let (state, started_at, ended_at, end) = match meta.phase.clone() {
        Phase::Starting => (SessionState::Starting, None, None, None),
        Phase::Running { started_at } => {
            (beating(&layout.heartbeat(agent), &meta), Some(started_at), None, None)
        }
        Phase::Ended { how, at, started_at } => ((&how).into(), started_at, Some(at), Some(how)),
        Phase::Inactive { how, at } => (SessionState::Inactive, None, Some(at), Some(how)),
    };
    Some(SessionView {
        state,
        pid: meta.program.as_ref().map(|program| program.pid).filter(|_| state.may_live()),
        started_at,
        ended_at,
        end,
        heartbeat: None,
        name: meta.spec.name,
        lineage: meta.lineage,
        generation: meta.generation,
        runtime: meta.spec.runtime,
        model: meta.spec.model,
        keeper: meta.spec.keeper,
        program: meta.program,
        worker: meta.worker,
        tags: meta.spec.tags,
        socket: meta.socket,
        argv: Vec::new(),
        cwd: None,
    })
}

fn beating(path: &std::path::Path, meta: &Meta) -> SessionState {
    let beat = state::read(path).ok().flatten();
    let beat: Option<Heartbeat> = beat.and_then(|bytes| serde_json::from_slice(bytes.trim_ascii_end()).ok());
    let Some(beat) = beat.filter(|beat| beat.generation == meta.generation) else {
        return SessionState::Unknown;
    };
    match clock::stamp().since(&beat.at) {
        age if age < IDLE => SessionState::Active,
        age if age < HUNG => SessionState::Idle,
        _ => SessionState::Hung,
    }
}
