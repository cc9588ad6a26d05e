//! `netsky status`: what should be and what is. Looking starts nothing and changes nothing.

use std::time::Duration;

use netsky_disk::layout::KernelLayout;
use netsky_disk::lock::Lock;
use netsky_disk::process::probe;
use netsky_disk::{clock, state};
use netsky_kernel::client::{Client, ClientError};
use netsky_kernel::rpc::{SessionState, SessionView};
use netsky_model::backoff::CRASHLOOP;
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
use crate::error::Result;
use crate::known;
use crate::observe::{self, Underway};
use crate::perform;
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
    /// Mail of who never was.
    pub others: Vec<Mailbox>,
    /// The restart that is under way.
    pub restart: Option<RestartView>,
    /// Whether a planned restart was asked for and is not verified.
    pub restart_queued: bool,
    /// How often the ticker ticks, in milliseconds.
    pub interval_ms: u64,
    /// The last tick; of its problems those that can still be true and are not said here better.
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

/// Mail that nobody was ever wanted for.
#[derive(Debug, Clone, Serialize)]
pub struct Mailbox {
    /// Whose.
    pub id: AgentId,
    /// Envelopes that wait in its inbox.
    pub inbox: usize,
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
    /// `soon` is said where the wait is over.
    fn line(&self, soon: &str) -> String {
        let Trying { next_in_s, recent, crashloop } = self;
        let next = match next_in_s {
            0 => format!("next try {soon}"),
            s if *crashloop => format!("next try in {}", human(Duration::from_secs(*s))),
            s => format!("next try in {s} s"),
        };
        if *crashloop {
            return format!("crashloop: it keeps ending; {next}, `netsky up` tries at once");
        }
        // Past the crashloop's number once an agent0 that proved itself has ended it.
        let of = if *recent < CRASHLOOP { format!(" of {CRASHLOOP}") } else { String::new() };
        format!("{next}, attempt {}{of} in 30 min", recent + 1)
    }
}

fn trying(cx: &Context<'_>, agent: &AgentId) -> Option<Trying> {
    let (attempts, now) = (observe::attempts(cx.layout, agent)?, clock::stamp());
    let trying = Trying {
        next_in_s: attempts.wait(&now).as_millis().div_ceil(1000) as u64,
        recent: attempts.recent(&now),
        crashloop: attempts.crashloop,
    };
    (trying.recent > 0 || trying.crashloop).then_some(trying)
}

/// Why somebody wanted does not run, as far as that can be known, and when it is tried again.
fn plight(
    cx: &Context<'_>,
    desired: &Desired,
    trying: Option<&Trying>,
    soon: &str,
    underway: Option<&Underway>,
) -> String {
    let next = trying.map_or_else(|| format!("it is down; next try {soon}"), |trying| trying.line(soon));
    let last_restart = || {
        let failed = underway.and_then(|under| under.status.as_ref()?.error.clone());
        let failed = failed.or_else(|| observe::revive_failed(cx.layout).map(|failed| failed.why));
        failed
            .filter(|_| desired.agent == AgentId::root())
            .map(|why| format!("the last restart failed: {why}"))
    };
    let why = perform::not_startable(cx, desired).or_else(last_restart);
    format!("{}: {}{next}", desired.agent, why.map_or_else(String::new, |why| format!("{why}; ")))
}

/// Whether the child of a restart is at work, which starts this agent.
fn is_in_hands(agent: &AgentId, underway: Option<&Underway>) -> bool {
    underway.is_some_and(|under| {
        let all = under.inflight.kind == Kind::Planned && agent.number().is_some();
        under.child_alive && (all || *agent == AgentId::root())
    })
}

/// Whether the disk is too full to start who is down: no tick may have come since that could say so.
fn no_room_for(cx: &Context<'_>, down: &[AgentId]) -> Option<String> {
    if down.is_empty() {
        return None;
    }
    let why = perform::no_room(cx)?;
    let todo = "nothing was lost, make room and the next tick starts what is down";
    let down: Vec<&str> = down.iter().map(AgentId::as_str).collect();
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
    // In the order of its way: whoever looks at the request first cannot miss a restart that moves on meanwhile.
    let restart_queued =
        state::exists(cx.layout.restart_request())? || state::exists(cx.layout.restart_processing())?;
    let underway = observe::underway(cx)?;
    let interval = observe::interval(cx);
    let ticks = |agent: AgentId| sessions.iter().any(|kept| kept.name == agent && kept.state.may_live());
    let soon = match ticks(AgentId::ticker()) || ticks(AgentId::infinity()) {
        true => format!("with the next tick, at most {} from now", human(interval)),
        false => "with the next tick, which nobody wakes: `netsky up` does".to_owned(),
    };
    let (mut agents, mut down) = (Vec::new(), Vec::new());
    for desired in observe::wishes(cx, &mut problems)? {
        let listed = sessions.iter().find(|session| session.name == desired.agent).cloned();
        let known = || anchor_epoch.is_none().then(|| known::session(cx, &desired.agent)).flatten();
        let mut agent = agent_status(cx, &desired, listed.or_else(known).as_ref())?;
        let started = agent.pid.is_some() || agent.state.as_deref() == Some(SessionState::Starting.word());
        if desired.want == Want::Up && !started {
            down.push(agent.id.clone());
            if !is_in_hands(&agent.id, underway.as_ref()) {
                agent.trying = trying(cx, &agent.id);
                problems.push(plight(cx, &desired, agent.trying.as_ref(), &soon, underway.as_ref()));
            }
        }
        agents.push(agent);
    }
    problems.extend(no_room_for(cx, &down));
    let last_tick = last_tick(cx, &agents, &down, &problems);
    // What the last tick told stands there already.
    let told = |what: &String| last_tick.as_ref().is_some_and(|last| last.problems.contains(what));
    let trouble = Config::trouble(cx.layout).map(|trouble| trouble.to_string());
    problems.extend(trouble.filter(|trouble| !told(trouble)));
    Ok(StatusReport {
        anchor_epoch,
        silent_anchor,
        others: others(cx, &agents)?,
        agents,
        restart: underway.map(|under| RestartView {
            id: under.inflight.id.to_string(),
            kind: under.inflight.kind,
            phase: under.status.map(|status| status.phase),
            epoch: under.inflight.epoch,
            watched_ms: under.inflight.observed.map_or(0, |observed| observed.watched_ms),
        }),
        restart_queued,
        interval_ms: interval.as_millis() as u64,
        last_tick,
        failed_tick: tick::failed(cx),
        problems,
    })
}

/// The last tick, without what it told of the start of an agent that is not wanted or not down any more, or that
/// stands in `problems` already.
fn last_tick(
    cx: &Context<'_>,
    agents: &[AgentStatus],
    down: &[AgentId],
    problems: &[String],
) -> Option<LastTick> {
    let mut last: LastTick = state::read_json(cx.layout.tick("watchdog")).ok()??;
    last.problems.retain(|told| {
        let is_about = |agent: &&AgentStatus| told.starts_with(&format!("{}: ", agent.id));
        let is_said = || problems.iter().any(|said| said.starts_with(told));
        agents.iter().find(is_about).is_none_or(|agent| down.contains(&agent.id) && !is_said())
    });
    Some(last)
}

fn count(cx: &Context<'_>, agent: &AgentId, state: State) -> Result<usize> {
    if cx.bus.knows(agent) { Ok(cx.bus.count(agent, state)?) } else { Ok(0) }
}

fn others(cx: &Context<'_>, agents: &[AgentStatus]) -> Result<Vec<Mailbox>> {
    let mut others = Vec::new();
    for id in cx.bus.agents()?.into_iter().filter(|id| agents.iter().all(|agent| agent.id != *id)) {
        let inbox = count(cx, &id, State::Written)?;
        let poison = count(cx, &id, State::Poisoned)?;
        if inbox + poison > 0 {
            others.push(Mailbox { id, inbox, poison });
        }
    }
    Ok(others)
}

fn agent_status(cx: &Context<'_>, desired: &Desired, session: Option<&SessionView>) -> Result<AgentStatus> {
    let agent = &desired.agent;
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
        inbox: count(cx, agent, State::Written)?,
        unfinished: count(cx, agent, State::Delivered)?,
        poison: count(cx, agent, State::Poisoned)?,
    })
}
