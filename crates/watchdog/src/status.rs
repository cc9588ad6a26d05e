//! `netsky status`: what should be and what is. Looking starts nothing and changes nothing.

use std::path::PathBuf;
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
use crate::decide::KEPT;
use crate::error::Result;
use crate::known;
use crate::observe::{self, Underway};
use crate::perform;
use crate::session_up::UpProof;
use crate::tick::{self, FailedTick, LastTick};
use crate::up::UP_LIMIT;

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

impl AgentStatus {
    fn is_there(&self) -> bool {
        self.pid.is_some() || self.state.as_deref() == Some(SessionState::Starting.word())
    }
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
    /// The `tick` is said where the wait is over.
    fn line(&self, tick: &NextTick) -> String {
        let Trying { next_in_s, recent, crashloop } = self;
        let next = match next_in_s {
            0 => format!("next try {tick}"),
            _ if *tick == NextTick::Never => format!("next try {tick}"),
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
    tick: &NextTick,
    underway: Option<&Underway>,
) -> String {
    let next = trying.map_or_else(|| format!("it is down; next try {tick}"), |trying| trying.line(tick));
    let last_restart = || failed_restart(cx, underway).filter(|_| desired.agent == AgentId::root());
    let why = perform::not_startable(cx, desired).or_else(last_restart);
    format!("{}: {}{next}", desired.agent, why.map_or_else(String::new, |why| format!("{why}; ")))
}

fn failed_restart(cx: &Context<'_>, underway: Option<&Underway>) -> Option<String> {
    let failed = underway.and_then(|under| under.status.as_ref()?.error.clone());
    let failed = failed.or_else(|| observe::revive_failed(cx.layout).map(|failed| failed.why))?;
    Some(format!("the last restart failed: {failed}"))
}

/// The last restart, where agent0 runs on all the same.
fn in_vain(cx: &Context<'_>, underway: Option<&Underway>, queued: bool) -> Option<String> {
    let failed = failed_restart(cx, underway)?;
    let kept = match queued {
        true => ", and what was asked for waits for the next tick".to_owned(),
        false => kept_request(cx).map_or_else(String::new, |kept| {
            format!(", and what it was asked with is kept in {}", kept.display())
        }),
    };
    Some(format!("{failed}; agent0 runs on{kept}"))
}

/// What the last restart was asked with, where it failed and left that to people.
fn kept_request(cx: &Context<'_>) -> Option<PathBuf> {
    let why = observe::revive_failed(cx.layout)?.why;
    let kept = cx.layout.archived_request(&why.split_once(':')?.0.parse().ok()?, "failed");
    state::exists(&kept).unwrap_or(false).then_some(kept)
}

/// Who starts somebody that is down.
#[derive(PartialEq)]
enum Care {
    /// The anchor, which keeps it.
    Anchor,
    /// The child of a restart, which is at work.
    Child,
    Tick,
}

impl Care {
    /// `session` is what an anchor that serves says of it.
    fn of(agent: &AgentId, session: Option<SessionView>, underway: Option<&Underway>) -> Care {
        let in_hands = underway.is_some_and(|under| {
            let all = under.inflight.kind == Kind::Planned && agent.number().is_some();
            under.child_alive && (all || *agent == AgentId::root())
        });
        match session.is_some_and(|session| session.kept) {
            true => Care::Anchor,
            false if in_hands => Care::Child,
            false => Care::Tick,
        }
    }
}

/// What is wrong with an agent0 that lives longer than an `up` waits for it, and proved nothing.
fn unproved(agent: &AgentStatus, now: &Stamp) -> Option<String> {
    let lives = now.since(agent.started_at.as_ref()?);
    let is_late = agent.id == AgentId::root() && !agent.up && lives > UP_LIMIT;
    is_late.then(|| {
        let lives = human(lives);
        format!("{}: runs for {lives} and never called `netsky session up`: no start of it counts", agent.id)
    })
}

/// When a tick looks at who is down.
#[derive(PartialEq)]
enum NextTick {
    Within(Duration),
    /// When something happens, or once the ticker is back.
    Later,
    Never,
}

impl NextTick {
    /// `kept` says whether the anchor brings anybody back who would wake one.
    fn of(agents: &[AgentStatus], kept: bool, interval: Duration) -> NextTick {
        let lives = |id: AgentId| agents.iter().any(|agent| agent.id == id && agent.is_there());
        match lives(AgentId::ticker()) {
            true => NextTick::Within(interval),
            false if kept || lives(AgentId::infinity()) => NextTick::Later,
            false => NextTick::Never,
        }
    }
}

impl std::fmt::Display for NextTick {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NextTick::Within(limit) => write!(f, "with the next tick, at most {} from now", human(*limit)),
            NextTick::Later => f.write_str("with the next tick"),
            NextTick::Never => f.write_str("with the next tick, which nobody wakes: repeat your `netsky up`"),
        }
    }
}

/// What a `down` or an `up` that was killed left in the middle, which no tick takes up; one at work holds the lock.
fn cut_short(cx: &Context<'_>, agents: &[AgentStatus]) -> Result<Option<String>> {
    let is_wanted = |agent: &&AgentStatus| agent.want == Want::Up;
    let rootless = agents.iter().any(|agent| agent.id == AgentId::root() && agent.want == Want::Stopped);
    let wanted =
        agents.iter().filter(|agent| rootless && is_wanted(agent)).map(|agent| (agent, "still wanted"));
    let alive = agents.iter().filter(|agent| !is_wanted(agent) && agent.is_there());
    let left: Vec<String> = wanted
        .chain(alive.map(|agent| (agent, "not wanted and runs on")))
        .map(|(agent, how)| format!("{} is {how}", agent.id))
        .collect();
    if left.is_empty() || Lock::is_held(cx.layout.watchdog_lock())? {
        return Ok(None);
    }
    Ok(Some(format!("an `up` or a `down` was cut short: {}; repeat it", left.join(", "))))
}

/// Whether the disk is too full to start who is down, or an anchor: no tick may have come since that could say so.
fn no_room_for(cx: &Context<'_>, down: &[AgentId], no_anchor: bool, next: &NextTick) -> Option<String> {
    let missing: Vec<&str> =
        down.iter().map(AgentId::as_str).chain(no_anchor.then_some("the anchor")).collect();
    if missing.is_empty() {
        return None;
    }
    let why = perform::no_room(cx)?;
    let todo = match next {
        NextTick::Never => "repeat your `netsky up`",
        _ => "the next tick starts what is down",
    };
    Some(format!("{} cannot be started: {why}; nothing was lost, make room and {todo}", missing.join(", ")))
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
        problems.push(silence(cx, &error));
    }
    let (anchor_epoch, sessions) = answer.map(|(epoch, list)| (Some(epoch), list)).unwrap_or_default();
    // In the order of its way: whoever looks at the request first cannot miss a restart that moves on meanwhile.
    let restart_queued =
        state::exists(cx.layout.restart_request())? || state::exists(cx.layout.restart_processing())?;
    let underway = observe::underway(cx).unwrap_or_else(|error| {
        problems.push(format!("the restart that is under way: {error}"));
        None
    });
    let interval = observe::interval(cx);
    let (mut agents, mut cares) = (Vec::new(), Vec::new());
    for desired in observe::wishes(cx, &mut problems)? {
        let listed = sessions.iter().find(|session| session.name == desired.agent).cloned();
        let known = || anchor_epoch.is_none().then(|| known::session(cx, &desired.agent)).flatten();
        let session = listed.or_else(known);
        let mut agent = agent_status(cx, &desired, session.as_ref(), &mut problems);
        problems.extend(unproved(&agent, &clock::stamp()));
        if desired.want == Want::Up && !agent.is_there() {
            let care = Care::of(&agent.id, session.filter(|_| anchor_epoch.is_some()), underway.as_ref());
            agent.trying = (care == Care::Tick).then(|| trying(cx, &agent.id)).flatten();
            cares.push((desired, agent.trying.clone(), care));
        }
        agents.push(agent);
    }
    let next = NextTick::of(&agents, cares.iter().any(|(.., care)| *care == Care::Anchor), interval);
    problems.extend(cares.iter().filter_map(|(desired, trying, care)| match care {
        Care::Anchor => Some(format!("{}: {KEPT}", desired.agent)),
        Care::Child => None,
        Care::Tick => Some(plight(cx, desired, trying.as_ref(), &next, underway.as_ref())),
    }));
    let down: Vec<AgentId> = cares.into_iter().map(|(desired, ..)| desired.agent).collect();
    let runs_on = agents.iter().any(|agent| agent.id == AgentId::root() && agent.is_there());
    problems.extend(in_vain(cx, underway.as_ref(), restart_queued).filter(|_| runs_on));
    let no_anchor =
        anchor_epoch.is_none() && !silent_anchor && agents.iter().any(|agent| agent.want == Want::Up);
    let is_down = || no_anchor.then(|| format!("the anchor: nobody serves; it is started {next}"));
    problems.extend(no_room_for(cx, &down, no_anchor, &next).or_else(is_down));
    problems.extend(cut_short(cx, &agents)?);
    let last_tick = last_tick(cx, &agents, &down, &problems);
    // What the last tick told stands there already.
    let told = |what: &String| last_tick.as_ref().is_some_and(|last| last.problems.contains(what));
    let trouble = Config::trouble(cx.layout).map(|trouble| trouble.to_string());
    problems.extend(trouble.filter(|trouble| !told(trouble)));
    Ok(StatusReport {
        anchor_epoch,
        silent_anchor,
        others: others(cx, &agents, &mut problems),
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

fn silence(cx: &Context<'_>, error: &str) -> String {
    let holder: Option<ProcessId> = Lock::noted(KernelLayout::new(cx.layout.kernel_root()).lock());
    let pid = holder.map_or_else(String::new, |holder| format!(" (pid {})", holder.pid));
    format!("the anchor{pid} does not answer: {error}; what stands here of the agents is what the disk knows")
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
        let is_said = problems.iter().any(|said| said.contains(told.as_str()));
        !is_said && agents.iter().find(is_about).is_none_or(|agent| down.contains(&agent.id))
    });
    Some(last)
}

/// How much mail is in each of these states. What cannot be looked into is none, and a problem: one mailbox that somebody
/// broke hides no other.
fn counts<const N: usize>(
    cx: &Context<'_>,
    agent: &AgentId,
    states: [State; N],
    problems: &mut Vec<String>,
) -> [usize; N] {
    let mut why = None;
    let counted = states.map(|state| match cx.bus.count(agent, state) {
        Ok(count) => count,
        Err(error) => {
            why.get_or_insert_with(|| format!("mail of {agent}: {error}"));
            0
        }
    });
    problems.extend(why);
    counted
}

fn others(cx: &Context<'_>, agents: &[AgentStatus], problems: &mut Vec<String>) -> Vec<Mailbox> {
    let mut others = Vec::new();
    let all = cx.bus.agents().unwrap_or_else(|error| {
        problems.push(format!("mail: {error}"));
        Vec::new()
    });
    for id in all.into_iter().filter(|id| agents.iter().all(|agent| agent.id != *id)) {
        let [inbox, poison] = counts(cx, &id, [State::Written, State::Poisoned], problems);
        if inbox + poison > 0 {
            others.push(Mailbox { id, inbox, poison });
        }
    }
    others
}

fn agent_status(
    cx: &Context<'_>,
    desired: &Desired,
    session: Option<&SessionView>,
    problems: &mut Vec<String>,
) -> AgentStatus {
    let agent = &desired.agent;
    // The kernel's word may be older than the death of what it speaks of.
    let is_gone = |session: &SessionView| session.program.as_ref().is_some_and(|id| probe(id) == Life::Dead);
    let gone = session.is_some_and(|session| session.state.may_live() && is_gone(session));
    let alive = session.filter(|session| session.state.may_live() && !gone);
    let up = alive.is_some_and(|session| UpProof::of_session(cx, session).is_some());
    let states = [State::Written, State::Delivered, State::Poisoned];
    let [inbox, unfinished, poison] = match state::exists(cx.layout.channel(agent)) {
        // Who was never started has none, and to these two a send makes one.
        Ok(false) => {
            if desired.want == Want::Up && !cx.bus.knows(agent) {
                problems.push(format!("mail of {agent}: it has no channel; `netsky up` once more makes it"));
            }
            [0; 3]
        }
        _ => counts(cx, agent, states, problems),
    };
    AgentStatus {
        id: agent.clone(),
        want: desired.want,
        state: session.map(|session| if gone { "gone".to_owned() } else { session.state.to_string() }),
        pid: alive.and_then(|session| session.pid),
        worker_pid: alive.and_then(|session| session.worker.as_ref()).map(|worker| worker.pid),
        generation: session.map(|session| session.generation),
        up,
        trying: None,
        started_at: alive.and_then(|session| session.started_at.clone()),
        inbox,
        unfinished,
        poison,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent0_that_proves_nothing_in_time_is_told_of() {
        let started_at = clock::stamp();
        let root = AgentStatus {
            id: AgentId::root(),
            want: Want::Up,
            state: None,
            pid: Some(2),
            worker_pid: None,
            generation: None,
            up: false,
            started_at: Some(started_at.clone()),
            trying: None,
            inbox: 0,
            unfinished: 0,
            poison: 0,
        };
        let later = |s: u64| Stamp { boot_ms: started_at.boot_ms + s * 1000, ..started_at.clone() };
        let told = unproved(&root, &later(61)).expect("it is late");
        assert!(told.starts_with("agent0: runs for 1m 1s and never called `netsky session up`"), "{told}");
        assert_eq!(unproved(&root, &later(59)), None);
        assert_eq!(unproved(&AgentStatus { up: true, ..root.clone() }, &later(61)), None);
        assert_eq!(unproved(&AgentStatus { id: AgentId::numbered(1), ..root }, &later(61)), None);
    }
}
