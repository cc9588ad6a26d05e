//! `netsky status`: what should be and what is. Looking starts nothing and changes nothing.

use netsky_disk::process::probe;
use netsky_disk::state;
use netsky_kernel::client::{Client, ClientError};
use netsky_kernel::rpc::SessionView;
use netsky_model::desired::{Desired, Want};
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;
use netsky_model::process::Life;
use netsky_model::restart::{Kind, Phase};
use netsky_model::stamp::Stamp;
use serde::Serialize;

use crate::context::Context;
use crate::error::Result;
use crate::observe;
use crate::session_up::UpProof;
use crate::tick::{self, FailedTick, LastTick};

/// A constellation at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct StatusReport {
    /// Epoch of the anchor that serves; none if nobody does.
    pub anchor_epoch: Option<u64>,
    /// Everybody who is wanted or was.
    pub agents: Vec<AgentStatus>,
    /// The restart that is under way.
    pub restart: Option<RestartView>,
    /// Whether a planned restart was asked for and is not verified.
    pub restart_queued: bool,
    /// How often the ticker ticks, in milliseconds.
    pub interval_ms: u64,
    /// The last tick.
    pub last_tick: Option<LastTick>,
    /// The tick after that, if it failed.
    pub failed_tick: Option<FailedTick>,
    /// What does not read.
    pub problems: Vec<String>,
}

/// One agent.
#[derive(Debug, Clone, Serialize)]
pub struct AgentStatus {
    /// Its id.
    pub id: AgentId,
    /// What should be.
    pub want: Want,
    /// What is: the kernel's word; none if it never ran or nobody serves.
    pub state: Option<String>,
    /// The program's pid while it lives.
    pub pid: Option<u32>,
    /// The process that holds it, while it lives.
    pub worker_pid: Option<u32>,
    /// Its incarnation.
    pub generation: Option<Generation>,
    /// Whether this incarnation proved that it is up.
    pub up: bool,
    /// When it was started.
    pub started_at: Option<Stamp>,
    /// Envelopes that wait in its inbox.
    pub inbox: usize,
    /// Envelopes it was shown and has not finished.
    pub unfinished: usize,
    /// Its dead letters.
    pub poison: usize,
}

/// The restart that is under way.
#[derive(Debug, Clone, Serialize)]
pub struct RestartView {
    /// Its id.
    pub id: String,
    /// Asked for or not.
    pub kind: Kind,
    /// How far its child got.
    pub phase: Option<Phase>,
    /// Which child.
    pub epoch: u64,
    /// Milliseconds that the new agent0 was watched.
    pub watched_ms: u64,
}

/// Look.
///
/// # Errors
/// The home cannot be read.
pub fn status(cx: &Context<'_>) -> Result<StatusReport> {
    let (anchor_epoch, sessions) = match Client::connect(&cx.layout.kernel_root()) {
        Ok(mut client) => (Some(client.hello().epoch), client.list()?),
        Err(ClientError::NotServing { .. }) => (None, Vec::new()),
        Err(other) => return Err(other.into()),
    };
    let mut problems = Vec::new();
    let mut agents = Vec::new();
    for desired in observe::wishes(cx, &mut problems)? {
        let session = sessions.iter().find(|session| session.name == desired.agent);
        agents.push(agent_status(cx, &desired, session)?);
    }
    // In the order of its way: whoever looks at the request first cannot miss a restart that moves on meanwhile.
    let restart_queued =
        state::exists(cx.layout.restart_request())? || state::exists(cx.layout.restart_processing())?;
    let underway = observe::underway(cx)?;
    Ok(StatusReport {
        anchor_epoch,
        agents,
        restart: underway.map(|under| RestartView {
            id: under.inflight.id.to_string(),
            kind: under.inflight.kind,
            phase: under.status.map(|status| status.phase),
            epoch: under.inflight.epoch,
            watched_ms: under.inflight.observed.map_or(0, |observed| observed.watched_ms),
        }),
        restart_queued,
        interval_ms: observe::interval(cx).as_millis() as u64,
        last_tick: state::read_json(cx.layout.tick("watchdog")).unwrap_or_default(),
        failed_tick: tick::failed(cx),
        problems,
    })
}

fn agent_status(cx: &Context<'_>, desired: &Desired, session: Option<&SessionView>) -> Result<AgentStatus> {
    let agent = &desired.agent;
    let count = |state| -> Result<usize> {
        if cx.bus.knows(agent) { Ok(cx.bus.count(agent, state)?) } else { Ok(0) }
    };
    // The kernel's word may be older than the death of what it speaks of.
    let is_gone = |session: &SessionView| session.program.as_ref().is_some_and(|id| probe(id) == Life::Dead);
    let gone = session.is_some_and(|session| session.state.may_live() && is_gone(session));
    let alive = session.filter(|session| session.state.may_live() && !gone);
    let up = alive.is_some_and(|session| UpProof::of_session(cx, session).is_some());
    Ok(AgentStatus {
        id: agent.clone(),
        want: desired.want,
        state: session.map(|session| if gone { "gone".to_owned() } else { session.state.to_string() }),
        pid: alive.and_then(|session| session.pid),
        worker_pid: alive.and_then(|session| session.worker.as_ref()).map(|worker| worker.pid),
        generation: session.map(|session| session.generation),
        up,
        started_at: alive.and_then(|session| session.started_at.clone()),
        inbox: count(State::Written)?,
        unfinished: count(State::Delivered)?,
        poison: count(State::Poisoned)?,
    })
}
