//! `netsky status`: what should be and what is. Looking starts nothing and changes nothing.

use std::time::Duration;

use netsky_disk::layout::KernelLayout;
use netsky_disk::lock::Lock;
use netsky_disk::process::probe;
use netsky_disk::{clock, state};
use netsky_kernel::client::{Client, ClientError, ROOM};
use netsky_kernel::rpc::{SessionState, SessionView};
use netsky_kernel::session::Keeper;
use netsky_model::backoff::{Attempts, CRASHLOOP};
use netsky_model::desired::{Desired, Want};
use netsky_model::duration::human;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;
use netsky_model::process::{Life, ProcessId};
use netsky_model::restart::{Kind, Phase};
use netsky_model::stamp::Stamp;
use netsky_runtime::Config;
use serde::Serialize;

use crate::context::Context;
use crate::decide::KEPT;
use crate::error::Result;
use crate::known;
use crate::observe;
use crate::session_up::UpProof;
use crate::tick::{self, FailedTick, LastTick};

/// A constellation at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct StatusReport {
    /// Epoch of the anchor that serves; none if nobody does.
    pub anchor_epoch: Option<u64>,
    /// Whether somebody serves and does not answer.
    pub silent_anchor: bool,
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
    /// When it is tried again, while it is down and was tried in vain.
    pub trying: Option<Trying>,
    /// Envelopes that wait in its inbox.
    pub inbox: usize,
    /// Envelopes it was shown and has not finished.
    pub unfinished: usize,
    /// Its dead letters.
    pub poison: usize,
}

/// Starts of what keeps ending.
#[derive(Debug, Clone, Serialize)]
pub struct Trying {
    /// Until the next one, in seconds.
    pub next_in_s: u64,
    /// How many the last half hour saw.
    pub recent: usize,
    /// Whether they came to be a crashloop: one try an hour.
    pub crashloop: bool,
}

impl Trying {
    fn line(&self, agent: &AgentId) -> String {
        let Trying { next_in_s, recent, crashloop } = self;
        match crashloop {
            true => {
                let next = human(Duration::from_secs(*next_in_s));
                format!("{agent}: crashloop: it keeps ending; next try in {next}, `netsky up` tries at once")
            }
            false => {
                // Past the crashloop's number once an agent0 that proved itself has ended it.
                let of = if *recent < CRASHLOOP { format!(" of {CRASHLOOP}") } else { String::new() };
                format!("{agent}: next try in {next_in_s} s, attempt {}{of} in 30 min", recent + 1)
            }
        }
    }
}

fn trying(cx: &Context<'_>, agent: &AgentId) -> Option<Trying> {
    let attempts: Option<Attempts> =
        state::read_json(cx.layout.marker(agent, "restart-attempts")).unwrap_or_default();
    let (attempts, now) = (attempts?, clock::stamp());
    let wait = attempts.wait(&now);
    let trying = Trying {
        next_in_s: wait.as_millis().div_ceil(1000) as u64,
        recent: attempts.recent(&now),
        crashloop: attempts.crashloop,
    };
    (!wait.is_zero() || attempts.crashloop).then_some(trying)
}

/// Whether the disk is too full to start who is down: no tick may have come since that could say so.
fn no_room_for(cx: &Context<'_>, down: &[String]) -> Option<String> {
    if down.is_empty() {
        return None;
    }
    let home = cx.layout.home();
    let left = netsky_disk::room(home).ok().filter(|left| *left < ROOM)?;
    let why = format!("the disk of {} is full ({left} bytes left)", home.display());
    let todo = "nothing was lost, make room and the next tick starts what is down";
    Some(format!("{} cannot be started: {why}; {todo}", down.join(", ")))
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
    let mut problems = Vec::new();
    let mut answer = Client::connect(&cx.layout.kernel_root())
        .and_then(|mut client| Ok((client.hello().epoch, client.list()?)));
    let silent_anchor = answer.as_ref().is_err_and(|error| !matches!(error, ClientError::NotServing { .. }));
    if let Err(error) = answer.as_mut().map_err(|error| error.to_string())
        && silent_anchor
    {
        let holder: Option<ProcessId> = Lock::noted(KernelLayout::new(cx.layout.kernel_root()).lock());
        let pid = holder.map_or_else(String::new, |holder| format!(" (pid {})", holder.pid));
        let what = "what stands here of the agents is what the disk knows";
        problems.push(format!("the anchor{pid} does not answer: {error}; {what}"));
    }
    let (anchor_epoch, sessions) = answer.map(|(epoch, list)| (Some(epoch), list)).unwrap_or_default();
    let restarting = state::exists(cx.layout.restart_inflight())?;
    let (mut agents, mut down) = (Vec::new(), Vec::new());
    for desired in observe::wishes(cx, &mut problems)? {
        let listed = sessions.iter().find(|session| session.name == desired.agent).cloned();
        let known = || anchor_epoch.is_none().then(|| known::session(cx, &desired.agent)).flatten();
        let session = listed.or_else(known);
        let mut agent = agent_status(cx, &desired, session.as_ref())?;
        let started = agent.pid.is_some() || agent.state.as_deref() == Some(SessionState::Starting.word());
        let comes = started || restarting && desired.agent == AgentId::root();
        if desired.want == Want::Up && !started {
            down.push(agent.id.to_string());
        }
        if desired.want == Want::Up && !comes {
            agent.trying = trying(cx, &desired.agent);
        }
        problems.extend(agent.trying.as_ref().map(|trying| trying.line(&agent.id)));
        let is_kept =
            anchor_epoch.is_some() && session.is_some_and(|session| session.keeper == Keeper::Anchor);
        if is_kept && desired.want == Want::Up && !started {
            problems.push(format!("{}: {KEPT}", agent.id));
        }
        agents.push(agent);
    }
    problems.extend(no_room_for(cx, &down));
    let last_tick: Option<LastTick> = state::read_json(cx.layout.tick("watchdog")).unwrap_or_default();
    // What the last tick told stands there already.
    let told = |what: &String| last_tick.as_ref().is_some_and(|last| last.problems.contains(what));
    let trouble = Config::trouble(cx.layout).map(|trouble| trouble.to_string());
    problems.extend(trouble.filter(|trouble| !told(trouble)));
    // In the order of its way: whoever looks at the request first cannot miss a restart that moves on meanwhile.
    let restart_queued =
        state::exists(cx.layout.restart_request())? || state::exists(cx.layout.restart_processing())?;
    let underway = observe::underway(cx)?;
    Ok(StatusReport {
        anchor_epoch,
        silent_anchor,
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
        last_tick,
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
        trying: None,
        started_at: alive.and_then(|session| session.started_at.clone()),
        inbox: count(State::Written)?,
        unfinished: count(State::Delivered)?,
        poison: count(State::Poisoned)?,
    })
}
