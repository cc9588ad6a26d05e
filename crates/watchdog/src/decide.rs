//! From one observation to effects: pure, so that every case can be put on a table.

use std::time::Duration;

use netsky_kernel::rpc::{SessionState, SessionView};
use netsky_kernel::session::Keeper;
use netsky_model::desired::{Desired, Want};
use netsky_model::id::{AgentId, Generation, RestartId};
use netsky_model::lifecycle::LifecycleState;
use netsky_model::restart::{self, Inflight, Kind, Looked, Phase, Seen, Verdict};
use netsky_model::stamp::Stamp;
use netsky_runtime::TAG_SINCE;

use crate::observe::{Observed, Request, Underway};

/// How long the anchor may take to revive what it keeps itself before the tick asks it to.
const ANCHORS_OWN: Duration = Duration::from_secs(120);

/// A context that is used up sooner than that came to nothing: whoever says so in each turn costs no more than whoever
/// crashes.
const SOON: Duration = Duration::from_secs(60);

/// What is said until then.
pub(crate) const KEPT: &str = "it has ended; the anchor or a later tick starts it";

/// What a tick does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Take the queued request.
    ClaimRequest,
    /// Put a request away that nobody has begun with for too long.
    ExpireRequest,
    /// Begin a restart of agent0.
    BeginRestart {
        /// Asked for or not.
        kind: Kind,
        /// What is known of the reason.
        why: String,
    },
    /// Start the next child of the restart under way.
    StartChild(Inflight),
    /// End a child that is past its deadline.
    KillChild(Inflight),
    /// Watch the new agent0 one look longer.
    Watch(Inflight),
    /// The child works; note that somebody looked.
    Look(Inflight),
    /// The restart is proved.
    Verified(RestartId),
    /// The restart is not going to be.
    Failed {
        /// Which.
        id: RestartId,
        /// Why.
        why: String,
    },
    /// Start an agent whose newest generation is `after`.
    Start {
        /// Which.
        agent: AgentId,
        /// The generation that this look saw.
        after: Generation,
        /// Whether it had run for the present wish before.
        again: bool,
    },
    /// End an agent that should not run.
    Stop {
        /// Which.
        agent: AgentId,
        /// The generation that this look saw.
        generation: Generation,
    },
    /// End an agent whose context is used up, and start its successor.
    Succeed {
        /// Which.
        agent: AgentId,
        /// The generation that this look saw.
        generation: Generation,
        /// Whether it was used up so soon that this counts as a start that came to nothing.
        soon: bool,
    },
    /// An agent has lived for long: what was counted against it is forgotten.
    Settled(AgentId),
    /// Nothing now; say why.
    Wait {
        /// Which.
        agent: AgentId,
        /// Why.
        why: String,
    },
}

/// Decide.
pub(crate) fn decide(seen: &Observed) -> Vec<Effect> {
    let root = AgentId::root();
    let wish = seen.desired.iter().find(|desired| desired.agent == root && desired.want == Want::Up);
    let (numbered, keepers): (Vec<&Desired>, Vec<&Desired>) =
        seen.desired.iter().partition(|desired| desired.agent.number().is_some());
    // Who keeps the rest first: an `up` that is killed in the middle leaves somebody who goes on with it.
    let mut effects: Vec<Effect> =
        keepers.into_iter().filter_map(|desired| decide_other(seen, desired)).collect();
    effects.extend(wish.map_or_else(Vec::new, |desired| decide_root(seen, desired)));
    // Where agent0's wish does not read nobody judges its restart; the kernel refuses whoever comes second all the same.
    let underway = seen.restart.as_ref().filter(|_| wish.is_some());
    let takes_all = underway.is_some_and(|under| under.inflight.takes_all())
        || effects
            .iter()
            .any(|effect| matches!(effect, Effect::BeginRestart { kind, .. } if kind.takes_all(seen.clones)));
    // All numbered sessions are in the hands of such a restart's child, but for who was never started: whichever of the two
    // comes second is refused by the kernel, and neither has to be waited for.
    let is_new = |desired: &Desired| {
        let session = seen.sessions.get(&desired.agent);
        session.is_none_or(|session| !session.state.may_live() && !is_for(session, desired))
    };
    let others = numbered.into_iter().filter(|desired| desired.agent != root || wish.is_none());
    let others = others.filter(|desired| !takes_all || is_new(desired));
    effects.extend(others.filter_map(|desired| decide_other(seen, desired)));
    // Whoever would not end takes long to be ended.
    effects.sort_by_key(stop_order);
    // Who keeps the others ends behind the last of them: the ticker takes the tick with it that ends it.
    let slots =
        seen.desired.iter().filter(|wish| wish.want == Want::Stopped && wish.agent.number().is_some());
    let is_slot_left = slots.filter_map(|wish| seen.sessions.get(&wish.agent)).any(|s| s.state.may_live());
    effects.retain(|effect| !is_slot_left || stop_order(effect) < 2);
    effects
}

/// Which come behind everything else, and in what order.
fn stop_order(effect: &Effect) -> u8 {
    match effect {
        Effect::Stop { agent, .. } if agent.number().is_some() => 1,
        Effect::Stop { agent, .. } if *agent == AgentId::ticker() => 3,
        Effect::Stop { .. } => 2,
        _ => 0,
    }
}

fn decide_root(seen: &Observed, desired: &Desired) -> Vec<Effect> {
    if let Some(why) = &seen.restart_unread {
        return vec![wait(&desired.agent, &unread(why))];
    }
    if let Some(underway) = &seen.restart {
        let judged = judge(seen, underway);
        // Whoever is proved may be at its end by then, and no later look is due for that.
        let session = seen.sessions.get(&desired.agent).filter(|_| matches!(judged, Effect::Verified(_)));
        let succeeds = session.and_then(|session| lives_on(seen, desired, session));
        let succeeds = succeeds.filter(|effect| matches!(effect, Effect::Succeed { .. }));
        return [judged].into_iter().chain(succeeds).collect();
    }
    let session = seen.sessions.get(&desired.agent);
    let Some(session) = session.filter(|session| session.state.may_live() || is_for(session, desired)) else {
        // Never started for this wish: nothing died, so there is nothing to hand over.
        return vec![start(desired, session, false)];
    };
    // A request whose agent0 is gone is a crash restart that has a handoff.
    let lives = session.state.may_live();
    if lives && seen.request == Request::Past {
        return vec![Effect::ExpireRequest];
    }
    let begin = match (lives, seen.request) {
        (true, Request::None) if is_unproved(seen, session) => {
            begin(Kind::Crash, "it never said that it is up")
        }
        (true, Request::None) => return lives_on(seen, desired, session).into_iter().collect(),
        (true, _) => begin(Kind::Planned, "asked for"),
        (false, _) => begin(Kind::Crash, &how_it_ended(session)),
    };
    let queued = matches!(seen.request, Request::Queued | Request::Past);
    // Somebody asks for it now, and agent0 lives: what it died of before is no reason to wait.
    if !(lives && (queued || seen.request == Request::Claimed))
        && let Some(wait) = backoff(seen, desired)
    {
        return vec![wait];
    }
    let claim = queued.then_some(Effect::ClaimRequest);
    claim.into_iter().chain([begin]).collect()
}

/// What keeps agent0 from being seen to, with the way out.
pub(crate) fn unread(why: &str) -> String {
    format!(
        "whether a restart of it is under way is not known, and it is left alone; mend or move away what is there: {why}"
    )
}

/// Whether agent0 is the one that a restart started and gave up on: it lives, and nobody knows what it does.
fn is_unproved(seen: &Observed, session: &SessionView) -> bool {
    let unproved = seen.unproved.as_ref();
    runs(session) && unproved.is_some_and(|started| started.generation == session.generation)
}

/// Whether a session is seen to run, not only not seen to have ended.
pub(crate) fn runs(session: &SessionView) -> bool {
    matches!(session.state, SessionState::Active | SessionState::Idle | SessionState::Hung)
}

/// What is due to somebody who is wanted and lives.
fn lives_on(seen: &Observed, desired: &Desired, session: &SessionView) -> Option<Effect> {
    if !is_used_up(seen, session) {
        return settled(seen, desired, session);
    }
    // However late this look is: by when its last turn was over, where that is known.
    let over = told_used_up(seen, session).and_then(|(_, over)| over.as_ref()).unwrap_or(&seen.now);
    let lasted = session.started_at.as_ref().map(|started| over.since(started));
    let soon = lasted.is_some_and(|lasted| lasted < SOON);
    let succeed = Effect::Succeed { agent: desired.agent.clone(), generation: session.generation, soon };
    Some(backoff(seen, desired).unwrap_or(succeed))
}

/// Whether nothing goes into its context any more, as it told the kernel, or as its driver knows where that was not heard. Of
/// those that the anchor keeps it sees to that itself.
fn is_used_up(seen: &Observed, session: &SessionView) -> bool {
    let is_over = session.progress.lifecycle == LifecycleState::Dead || told_used_up(seen, session).is_some();
    session.keeper == Keeper::Watchdog && runs(session) && is_over
}

/// What its driver says of a context that is used up.
fn told_used_up<'a>(seen: &'a Observed, session: &SessionView) -> Option<&'a (Generation, Option<Stamp>)> {
    seen.used_up.get(&session.name).filter(|(generation, _)| *generation == session.generation)
}

fn lived(seen: &Observed, session: &SessionView) -> Option<Duration> {
    Some(seen.now.since(session.started_at.as_ref()?))
}

fn settled(seen: &Observed, desired: &Desired, session: &SessionView) -> Option<Effect> {
    let lived = lived(seen, session)?;
    let outlived = seen.attempts.get(&desired.agent)?.is_outlived(&seen.now, lived);
    outlived.then(|| Effect::Settled(desired.agent.clone()))
}

fn begin(kind: Kind, why: &str) -> Effect {
    Effect::BeginRestart { kind, why: why.to_owned() }
}

fn how_it_ended(session: &SessionView) -> String {
    session.end.as_ref().map_or_else(|| session.state.to_string(), ToString::to_string)
}

fn is_for(session: &SessionView, desired: &Desired) -> bool {
    session.tags.get(TAG_SINCE) == Some(&desired.since.to_string())
}

fn start(desired: &Desired, session: Option<&SessionView>, again: bool) -> Effect {
    let after = session.map_or(Generation::NONE, |session| session.generation);
    Effect::Start { agent: desired.agent.clone(), after, again }
}

/// Judge the restart under way.
pub(crate) fn judge(seen: &Observed, underway: &Underway) -> Effect {
    let Underway { inflight, status, child_alive, handoff_there } = underway;
    let phase = status.as_ref().map(|status| status.phase);
    // The watch begins when a tick first sees the end of the child's work.
    let observed = (phase == Some(Phase::HandedOff))
        .then(|| restart::Observed::look(inflight.observed.as_ref(), &seen.now, pace(seen, inflight)));
    let looked = Looked::look(inflight.looked.as_ref(), &inflight.began, &seen.now, seen.interval);
    let watched = observed.as_ref().map_or(Duration::ZERO, |o| Duration::from_millis(o.watched_ms));
    let verdict = restart::judge(&Seen {
        phase,
        child_alive: *child_alive,
        step_age: step_age(&looked, underway),
        age: looked.age(&inflight.began),
        agent0_alive: is_new_root_alive(seen, underway),
        // agent0 is watched meanwhile; proved is what is known only.
        handoff_there: *handoff_there.as_ref().unwrap_or(&true),
        watched,
        interval: seen.interval,
        epoch: inflight.epoch,
    });
    let id = inflight.id.clone();
    let inflight = Inflight { looked: Some(looked), ..inflight.clone() };
    match verdict {
        Verdict::Wait => Effect::Look(inflight),
        Verdict::Watch => Effect::Watch(Inflight { observed, ..inflight }),
        Verdict::Verified if handoff_there.is_err() => {
            wait(&AgentId::root(), "whether its handoff was delivered is not known")
        }
        Verdict::Verified => Effect::Verified(id),
        Verdict::KillChild => Effect::KillChild(inflight),
        Verdict::StartChild => Effect::StartChild(inflight),
        Verdict::Failed => Effect::Failed { id, why: why_failed(seen, underway) },
    }
}

/// How far apart looks at a restart are.
pub(crate) fn pace(seen: &Observed, inflight: &Inflight) -> Duration {
    inflight.looked.as_ref().map_or(seen.interval, |looked| looked.pace(seen.interval))
}

/// Time since the present child's last word, or since its start.
fn step_age(looked: &Looked, underway: &Underway) -> Duration {
    let start = looked.step_age(&underway.inflight.child_since);
    let word = underway.status.as_ref().filter(|status| status.epoch == underway.inflight.epoch);
    word.map_or(start, |status| start.min(looked.step_age(&status.updated_at)))
}

fn why_failed(seen: &Observed, underway: &Underway) -> String {
    match &underway.status {
        Some(status) if status.phase == Phase::Failed => status.error.clone().unwrap_or_default(),
        Some(status) if status.phase == Phase::HandedOff && is_new_root_alive(seen, underway) => {
            "its handoff is not in agent0's mailbox any more".to_owned()
        }
        Some(status) if status.phase == Phase::HandedOff => {
            "agent0 did not stay up until it was verified".to_owned()
        }
        _ => format!("{} children of it ended before their work did", underway.inflight.epoch),
    }
}

/// The very incarnation that this restart started, not just any agent0.
fn is_new_root_alive(seen: &Observed, underway: &Underway) -> bool {
    let root = AgentId::root();
    let started =
        underway.status.iter().flat_map(|status| &status.agents).find(|started| started.name == root);
    let session = seen.sessions.get(&root);
    started
        .zip(session)
        .is_some_and(|(started, session)| session.generation == started.generation && runs(session))
}

fn decide_other(seen: &Observed, desired: &Desired) -> Option<Effect> {
    let session = seen.sessions.get(&desired.agent);
    let lives = session.is_some_and(|session| session.state.may_live());
    match desired.want {
        // Whoever is being ended is ended once, with the grace that it was given then.
        Want::Stopped => session
            .filter(|session| lives && session.state != SessionState::Ending)
            .map(|session| Effect::Stop { agent: desired.agent.clone(), generation: session.generation }),
        Want::Up if lives => session.and_then(|session| lives_on(seen, desired, session)),
        Want::Up => match session.filter(|session| is_for(session, desired)) {
            None => Some(start(desired, session, false)),
            Some(session) if session.keeper == Keeper::Anchor => Some(decide_kept(seen, desired, session)),
            Some(_) => backoff(seen, desired).or_else(|| Some(start(desired, session, true))),
        },
    }
}

/// agentinfinity and the ticker are revived by the anchor; the tick steps in only when it does not.
fn decide_kept(seen: &Observed, desired: &Desired, session: &SessionView) -> Effect {
    let is_over = |ended| seen.now.age_of(ended).is_none_or(|age| age > ANCHORS_OWN);
    let overdue = session.ended_at.as_ref().is_some_and(is_over);
    if overdue || !session.kept { start(desired, Some(session), true) } else { wait(&desired.agent, KEPT) }
}

fn backoff(seen: &Observed, desired: &Desired) -> Option<Effect> {
    let attempts = seen.attempts.get(&desired.agent)?;
    let left = attempts.wait(&seen.now);
    let loops = if attempts.crashloop { "it keeps dying; " } else { "" };
    (!left.is_zero()).then(|| wait(&desired.agent, &format!("{loops}next start in {} s", left.as_secs() + 1)))
}

fn wait(agent: &AgentId, why: &str) -> Effect {
    Effect::Wait { agent: agent.clone(), why: why.to_owned() }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
pub(crate) mod tests;
