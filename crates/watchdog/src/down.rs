//! `netsky down`: first nothing is wanted any more, then everything ends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use netsky_disk::env::Caller;
use netsky_disk::layout::KernelLayout;
use netsky_disk::lock::Lock;
use netsky_disk::{clock, fault, process, random, state};
use netsky_kernel::client::{Client, ClientError};
use netsky_model::desired::{Desired, Want};
use netsky_model::id::{AgentId, Generation, RestartId};
use netsky_model::restart::Inflight;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::tick::Held;
use crate::{handoff, known, observe, perform, reserve};

/// Longest wait for a killed restart child.
const CHILD_END: Duration = Duration::from_secs(5);
/// Longest wait for the workers whose programs were ended.
const WORKER_END: Duration = Duration::from_secs(15);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What went down.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Downed {
    /// Sessions that were ended.
    pub ended: Vec<AgentId>,
    /// Whether an anchor served, which was stopped.
    pub anchor_stopped: bool,
    /// Whether the handoff of a restart that does not come any more was put into agent0's inbox.
    pub handed_over: bool,
    /// What did not read on the way.
    pub problems: Vec<String>,
}

/// Stop a constellation. Its mail, its desired programs and its record stay; the handoff of a restart that was
/// asked for waits in agent0's inbox for the next `up`.
///
/// # Errors
/// Called inside a session, or a session would not end; it can be repeated.
pub fn down(cx: &Context<'_>, caller: &Caller) -> Result<Downed> {
    if *caller != Caller::Outside {
        return Err(Error::OwnerOnly { verb: "down" });
    }
    let _held = Held::take(cx)?;
    let mut problems = Vec::new();
    let mut wishes = observe::wishes(cx, &mut problems)?.read;
    let mut evicted = Evicted::default();
    if let Err(error) = stop_wanting(cx, &mut wishes) {
        if !error.is_full() {
            return Err(error.into());
        }
        // Where nothing was set aside nobody is ended in vain.
        if !reserve::is_there(cx)? {
            return Err(Error::PartlyWanted { why: error, wanted: still_wanted(&wishes) });
        }
        evict(cx, &mut evicted)?;
        make_room(cx, &wishes, &evicted)?;
        stop_wanting(cx, &mut wishes).map_err(|why| match why.is_full() {
            true => Error::StillWanted { why, wanted: still_wanted(&wishes) },
            false => why.into(),
        })?;
    }
    let underway = stop_restart(cx)?;
    let Ends { mut ended, anchor_stopped, mut left, stopped } = end_sessions(cx, &wishes, &mut evicted)?;
    fault::point("watchdog.down.ended").map_err(|e| netsky_disk::Error::new("end", cx.layout.home(), e))?;
    left.extend(evicted.left.iter().cloned());
    ended.extend(evicted.ended.keys().cloned());
    for names in [&mut ended, &mut left] {
        names.sort();
        names.dedup();
    }
    for desired in wishes.iter().filter(|desired| !left.contains(&desired.agent)) {
        if cx.bus.knows(&desired.agent) {
            let stopped = stopped.get(&desired.agent).copied().or_else(|| evicted.generation(&desired.agent));
            if let Err(error) = perform::return_mail(cx, desired, stopped, |_| true) {
                let agent = &desired.agent;
                problems.push(format!("mail of {agent}: {error}; it is looked at again with the next `up`"));
            }
        }
    }
    let handed_over = hand_over(cx, &wishes, underway.as_ref(), &mut problems)?;
    // Last: until then a repeat finds whose handoff it was.
    if handed_over.is_some() {
        state::remove(cx.layout.restart_inflight())?;
    }
    let handed_over = handed_over.unwrap_or_default();
    if left.is_empty() {
        return Ok(Downed { ended, anchor_stopped, handed_over, problems });
    }
    Err(Error::NotEnded(left.iter().map(ToString::to_string).collect()))
}

/// What came of ending by what the programs bear.
#[derive(Default)]
struct Evicted {
    /// Who was ended, with its generation where that is known.
    ended: BTreeMap<AgentId, Option<Generation>>,
    /// Who would not end.
    left: BTreeSet<AgentId>,
}

impl Evicted {
    fn generation(&self, agent: &AgentId) -> Option<Generation> {
        self.ended.get(agent).copied().flatten()
    }
}

/// End everybody by their environment, for which no anchor and no room is needed; for whom no wish reads, too.
fn evict(cx: &Context<'_>, evicted: &mut Evicted) -> Result<()> {
    for agent in cx.layout.desired_agents()? {
        let session = known::session(cx, &agent).filter(|session| session.state.may_live());
        match perform::evict(cx, &agent) {
            Ok(any) => {
                // It may have needed longer than the first time waited.
                if evicted.left.remove(&agent) || any {
                    evicted.ended.entry(agent).or_insert(session.map(|session| session.generation));
                }
            }
            // The others end all the same.
            Err(_) => drop(evicted.left.insert(agent)),
        }
    }
    Ok(())
}

/// Give up the room that was set aside for this, once all are evicted: whoever fills the disk may be one of them, and would
/// take it.
fn make_room(cx: &Context<'_>, wishes: &[Desired], evicted: &Evicted) -> Result<()> {
    reserve::give_up(cx)?;
    // Now: to whoever looks later, should this be killed, they are some that died. What does not go back is tried again.
    for wish in wishes {
        let _ = perform::return_mail(cx, wish, evicted.generation(&wish.agent), |_| false);
    }
    fault::point("watchdog.down.room")
        .map_err(|e| netsky_disk::Error::new("make room in", cx.layout.home(), e))?;
    Ok(())
}

fn still_wanted(wishes: &[Desired]) -> Vec<AgentId> {
    wishes.iter().filter(|wish| wish.want == Want::Up).map(|wish| wish.agent.clone()).collect()
}

fn stop_wanting(cx: &Context<'_>, wishes: &mut [Desired]) -> netsky_disk::Result<()> {
    for wish in wishes.iter_mut().filter(|wish| wish.want == Want::Up) {
        let stopped =
            Desired { want: Want::Stopped, by: "down".to_owned(), since: clock::wall(), ..wish.clone() };
        state::write_json(cx.layout.desired(&wish.agent), &stopped)?;
        *wish = stopped;
    }
    Ok(())
}

/// The child of a restart under way must not bring back what goes down. That restart.
fn stop_restart(cx: &Context<'_>) -> Result<Option<Inflight>> {
    let inflight = observe::inflight(cx).unwrap_or_default();
    if let Some(inflight) = &inflight {
        // A child that nobody has noted yet is not the one of this epoch, and does nothing.
        let next = Inflight { epoch: inflight.epoch + 1, child: None, ..inflight.clone() };
        match state::write_json(cx.layout.restart_inflight(), &next) {
            Err(error) if error.is_full() => drop(state::remove(cx.layout.restart_inflight())?),
            written => written?,
        }
    }
    if let Some(child) = inflight.as_ref().and_then(|inflight| inflight.child.as_ref())
        && let Some(held) = process::PidFd::open(child)?
    {
        held.signal(process::Signal::KILL)?;
        held.wait(CHILD_END)?;
    }
    Ok(inflight)
}

/// What somebody left to the agent0 of a restart is for whoever is agent0 next; whether it was delivered only now. None
/// where its mailbox does not say whether it is there: the next `down` asks again, or the restart goes on after an `up`.
fn hand_over(
    cx: &Context<'_>,
    wishes: &[Desired],
    inflight: Option<&Inflight>,
    problems: &mut Vec<String>,
) -> Result<Option<bool>> {
    let claimed = state::exists(cx.layout.restart_processing())?;
    if !claimed {
        // Before: a repeat would take what is claimed here for the request of that restart.
        state::remove(cx.layout.restart_inflight())?;
        if !state::claim(cx.layout.restart_request(), cx.layout.restart_processing())? {
            return Ok(Some(false));
        }
    }
    // One that no restart has begun with is told apart by when agent0 went down, which a repeat of this finds as it is.
    let root = wishes.iter().find(|wish| wish.agent == AgentId::root());
    let id = match (inflight.filter(|_| claimed), root) {
        (Some(inflight), _) => inflight.id.clone(),
        (None, Some(root)) => went_down(root),
        (None, None) => random::restart_id(),
    };
    let waits = |error: &dyn std::fmt::Display| {
        let place = cx.layout.restart_processing();
        format!("the message of the restart that was asked for waits in {}: {error}", place.display())
    };
    let there =
        cx.bus.create(&AgentId::root()).and_then(|()| cx.bus.has(&AgentId::root(), &handoff::id(&id)));
    let there = match there {
        Ok(there) => there,
        Err(error) => {
            problems.push(waits(&error));
            return Ok(None);
        }
    };
    if let Err(error) = handoff::source(cx, &id) {
        // It would not read the next time either; out of the way it can still be looked into.
        problems.push(format!("{error}; the restart that was asked for is set aside"));
        perform::archive_request(cx, &id, "refused")?;
        return Ok(Some(false));
    }
    if let Err(error) = handoff::deliver(cx, &id) {
        if cx.bus.has(&AgentId::root(), &handoff::id(&id))? {
            // Under another id it would be there twice: who repeats this must find this one.
            return Err(error);
        }
        // Everything has ended all the same; the next `down` delivers it, or the restart after the next `up`.
        problems.push(waits(&error));
        return Ok(Some(false));
    }
    perform::archive_request(cx, &id, "stopped")?;
    Ok(Some(!there))
}

fn went_down(root: &Desired) -> RestartId {
    let (second, nano) = (root.since.as_second(), root.since.subsec_nanosecond());
    format!("restart-{second}-{nano:08x}").parse().expect("lower case and digits")
}

/// What became of the sessions.
#[derive(Default)]
struct Ends {
    ended: Vec<AgentId>,
    anchor_stopped: bool,
    left: Vec<AgentId>,
    /// Generations that ended because somebody wanted it, by this call or before.
    stopped: BTreeMap<AgentId, Generation>,
}

fn end_sessions(cx: &Context<'_>, wishes: &[Desired], evicted: &mut Evicted) -> Result<Ends> {
    let served = Client::connect(&cx.layout.kernel_root());
    let anchor_stopped = served.is_ok();
    let mut client = match served {
        // A wish that does not read is one all the same: who was started for it may live.
        Err(ClientError::NotServing { .. }) if cx.layout.desired_agents()?.is_empty() => {
            return Ok(Ends::default());
        }
        // Nobody serves: live workers are only known once an anchor has adopted them.
        Err(ClientError::NotServing { .. }) => match cx.anchor() {
            // Nothing is wanted any more: whoever lives can be ended. To note it is worth the room, if there is any.
            Err(error) if error.is_full() => {
                evict(cx, evicted)?;
                let without = |left| Ends { stopped: known_stopped(cx, wishes), left, ..Ends::default() };
                if evicted.ended.is_empty() && held(cx, Duration::ZERO)?.is_empty() {
                    return Ok(without(Vec::new()));
                }
                make_room(cx, wishes, evicted)?;
                match cx.anchor() {
                    Err(error) if error.is_full() => return Ok(without(held(cx, WORKER_END)?)),
                    started => started?,
                }
            }
            started => started?,
        },
        connected => connected?,
    };
    let stopped = client
        .list()?
        .into_iter()
        .filter(|session| session.state.may_live() || perform::stopped(session).is_some())
        .map(|session| (session.name, session.generation))
        .collect();
    let answer = client.shutdown(true)?;
    Ok(Ends { ended: answer.ended, anchor_stopped, left: answer.left, stopped })
}

/// Whose worker lives, by its lock: what it holds may bear no mark that it could be ended by.
fn held(cx: &Context<'_>, patience: Duration) -> Result<Vec<AgentId>> {
    let kernel = KernelLayout::new(cx.layout.kernel_root());
    let mut held = cx.layout.desired_agents()?;
    let until = clock::boot() + patience;
    held.retain(|agent| {
        loop {
            if !Lock::is_held(kernel.worker_lock(agent)).unwrap_or(true) {
                return false;
            }
            if clock::boot() >= until {
                return true;
            }
            clock::pause(LOOK_AGAIN);
        }
    });
    Ok(held)
}

/// Whose last generation was ended on purpose, by the `down` before this one, say.
fn known_stopped(cx: &Context<'_>, wishes: &[Desired]) -> BTreeMap<AgentId, Generation> {
    let known = wishes.iter().filter_map(|wish| known::session(cx, &wish.agent));
    known.filter_map(|session| Some((session.name.clone(), perform::stopped(&session)?))).collect()
}
