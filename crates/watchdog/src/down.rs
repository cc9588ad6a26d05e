//! `netsky down`: first nothing is wanted any more, then everything ends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use netsky_disk::env::Caller;
use netsky_disk::{clock, fault, process, random, state};
use netsky_kernel::client::{Client, ClientError};
use netsky_model::desired::{Desired, Want};
use netsky_model::id::{AgentId, Generation, RestartId};
use netsky_model::restart::Inflight;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::held::Held;
use crate::{handoff, known, observe, perform, prune, request, reserve};

/// Longest wait for a killed restart child.
const CHILD_END: Duration = Duration::from_secs(5);
/// Longest wait for the workers whose programs were ended.
const WORKER_END: Duration = Duration::from_secs(15);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How a request is archived whose message was handed over …
const STOPPED: &str = "stopped";
/// … and one that does not read.
const REFUSED: &str = "refused";

/// What went down.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Downed {
    /// Sessions that were ended.
    pub ended: Vec<AgentId>,
    /// Those that would not end.
    pub left: Vec<AgentId>,
    /// Whether an anchor served, which was stopped.
    pub anchor_stopped: bool,
    /// How many restarts do not come any more whose message was put into agent0's inbox: one that was under way, one that was
    /// queued behind it.
    pub handed_over: usize,
    /// What did not work on the way.
    pub problems: Vec<String>,
}

/// Stop a constellation. Its mail, its desired programs and its record stay; the handoff of a restart that was
/// asked for waits in agent0's inbox for the next `up`. It can be repeated.
///
/// # Errors
/// Called inside a session, or it cannot be noted that nobody is wanted any more. Who would not end is no error but said
/// in the result.
pub fn down(cx: &Context<'_>, caller: &Caller) -> Result<Downed> {
    if *caller != Caller::Outside {
        return Err(Error::OwnerOnly { verb: "down" });
    }
    let mut held = Held::take(cx)?;
    let (mut problems, mut ends) = (Vec::new(), Ends::default());
    let mut wishes = observe::wishes(cx, &mut problems)?.read;
    if let Err(error) = stop_wanting(cx, &mut wishes) {
        if !error.is_full() {
            return Err(error.into());
        }
        // Where nothing was set aside nobody is ended in vain.
        if !reserve::is_there(cx)? {
            return Err(Error::PartlyWanted { why: error, wanted: still_wanted(&wishes) });
        }
        evict(cx, &mut held, &wishes, &mut ends)?;
        if !ends.left.is_empty() {
            // Whoever fills the disk may be among them: what was set aside is kept for the `down` that finds them ended.
            problems.push(format!("{error}; whoever was wanted still is"));
            return Ok(ends.told(problems, 0));
        }
        make_room(cx, &wishes, &ends)?;
        stop_wanting(cx, &mut wishes).map_err(|why| match why.is_full() {
            true => Error::StillWanted { why, wanted: still_wanted(&wishes) },
            false => why.into(),
        })?;
    }
    // A step each: no tick that waits for this takes it for one that hangs, however many there are to end.
    held.got_on()?;
    let underway = stop_restart(cx)?;
    end_sessions(cx, &mut held, &wishes, &mut ends)?;
    held.got_on()?;
    fault::point("watchdog.down.ended").map_err(|e| netsky_disk::Error::new("end", cx.layout.home(), e))?;
    for desired in wishes.iter().filter(|desired| !ends.left.contains_key(&desired.agent)) {
        let agent = &desired.agent;
        if !cx.bus.knows(agent) {
            continue;
        }
        held.got_on()?;
        let left = perform::return_mail(cx, desired, ends.stopped.get(agent).copied(), |_| true)
            .unwrap_or_else(|error| vec![error.to_string()]);
        let again = "it is looked at again with the next `up`";
        problems.extend(left.iter().map(|what| format!("mail of {agent}: {what}; {again}")));
    }
    if ends.left.is_empty()
        && let Err(error) = prune::prune_all_proofs(cx)
    {
        problems.push(format!("proofs of sessions that have ended are left: {error}"));
    }
    let handed_over = settle_restarts(cx, &wishes, underway.as_ref(), &mut problems)?;
    Ok(ends.told(problems, handed_over))
}

/// What became of who ran.
#[derive(Default)]
struct Ends {
    ended: BTreeSet<AgentId>,
    /// Who lives on, and why as far as that is known.
    left: BTreeMap<AgentId, Option<String>>,
    /// Generations that ended because somebody wanted it, by this call or before.
    stopped: BTreeMap<AgentId, Generation>,
    anchor_stopped: bool,
}

impl Ends {
    fn is_nobody(&self) -> bool {
        self.ended.is_empty() && self.left.is_empty()
    }

    fn are_left(&mut self, agents: Vec<AgentId>) {
        for agent in agents {
            self.left.entry(agent).or_default();
        }
    }

    fn told(mut self, mut problems: Vec<String>, handed_over: usize) -> Downed {
        // Of one that lives on something may have ended.
        self.ended.retain(|agent| !self.left.contains_key(agent));
        problems.extend(self.left.values().flatten().cloned());
        Downed {
            ended: self.ended.into_iter().collect(),
            left: self.left.into_keys().collect(),
            anchor_stopped: self.anchor_stopped,
            handed_over,
            problems,
        }
    }
}

/// End everybody by what the programs bear, for which no anchor and no room is needed; for whom no wish reads, too.
fn evict(cx: &Context<'_>, held: &mut Held, wishes: &[Desired], ends: &mut Ends) -> Result<()> {
    let mut sessions = known::sessions(cx)?;
    for agent in known::agents(cx)? {
        held.got_on()?;
        let session = sessions.remove(&agent).filter(|session| session.state.may_live());
        let evicted = fault::point("watchdog.down.evict")
            .map_err(|e| netsky_disk::Error::new("end", cx.layout.home(), e).into())
            .and_then(|()| perform::evict(cx, &agent));
        match evicted {
            Ok(true) => {
                if let Some(session) = session {
                    ends.stopped.insert(agent.clone(), session.generation);
                }
                ends.ended.insert(agent.clone());
                give_back(cx, wishes, &agent, ends);
            }
            Ok(false) => {}
            // The others end all the same.
            Err(why) => {
                ends.left.insert(agent, Some(why.to_string()));
            }
        }
    }
    Ok(())
}

/// To whoever looks later, should this be killed, who was ended is one that died. What does not go back is tried again.
fn give_back(cx: &Context<'_>, wishes: &[Desired], agent: &AgentId, ends: &Ends) {
    if let Some(wish) = wishes.iter().find(|wish| wish.agent == *agent) {
        let _ = perform::return_mail(cx, wish, ends.stopped.get(agent).copied(), |_| false);
    }
}

/// Give up the room that was set aside for this, once all are evicted: whoever fills the disk may be one of them, and would
/// take it.
fn make_room(cx: &Context<'_>, wishes: &[Desired], ends: &Ends) -> Result<()> {
    reserve::give_up(cx)?;
    for agent in &ends.ended {
        give_back(cx, wishes, agent, ends);
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
        && observe::is_child_alive(cx, child)?
        && let Some(held) = process::PidFd::open(child)?
    {
        held.signal(process::Signal::KILL)?;
        held.wait(CHILD_END)?;
    }
    Ok(inflight)
}

/// What became of the message of a restart that does not come any more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Handover {
    /// Put into agent0's inbox by this call.
    Delivered,
    /// There is none, or it was there before.
    Settled,
    /// It does not go in: it waits under an id that a repeat finds without being told.
    Undelivered,
    /// agent0's mailbox does not say whether it is there: the next `down` asks again, or the restart goes on after an `up`.
    Waits,
}

/// The restart under way, and the one that was queued behind it: neither comes. How many messages this put into the inbox.
fn settle_restarts(
    cx: &Context<'_>,
    wishes: &[Desired],
    underway: Option<&Inflight>,
    problems: &mut Vec<String>,
) -> Result<usize> {
    // Whoever asks looks at the wish under it, too: nothing is asked for once it is held here. Where the disk has no room for
    // a lock it has none for a request.
    let _held = match request::hold(cx) {
        Err(error) if error.is_full() => None,
        held => Some(held?),
    };
    let (mut underway, mut handed_over) = (underway, 0);
    loop {
        let claimed = state::exists(cx.layout.restart_processing())?;
        if !claimed {
            // Before: a repeat would take what is claimed here for the request of that restart.
            state::remove(cx.layout.restart_inflight())?;
            underway = None;
            // An empty file is no request.
            if !observe::is_queued(cx.layout)?
                || !state::claim(cx.layout.restart_request(), cx.layout.restart_processing())?
            {
                return Ok(handed_over);
            }
        }
        let handover = hand_over(cx, wishes, underway.take(), problems)?;
        // Last: until then a repeat finds whose handoff it was.
        if handover != Handover::Waits {
            state::remove(cx.layout.restart_inflight())?;
        }
        handed_over += usize::from(handover == Handover::Delivered);
        if matches!(handover, Handover::Waits | Handover::Undelivered) {
            if observe::is_queued(cx.layout)? {
                let place = cx.layout.restart_request();
                problems.push(format!("a second one waits behind it in {}", place.display()));
            }
            return Ok(handed_over);
        }
    }
}

/// What somebody left to the agent0 of a restart, and was claimed, is for whoever is agent0 next.
fn hand_over(
    cx: &Context<'_>,
    wishes: &[Desired],
    inflight: Option<&Inflight>,
    problems: &mut Vec<String>,
) -> Result<Handover> {
    // One that no restart has begun with is told apart by when agent0 went down, which a repeat of this finds as it is.
    let root = wishes.iter().find(|wish| wish.agent == AgentId::root());
    let id = match (inflight, root) {
        (Some(inflight), _) => inflight.id.clone(),
        (None, Some(root)) => went_down(cx, root)?,
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
            return Ok(Handover::Waits);
        }
    };
    if let Err(error) = handoff::claimed(cx) {
        // It would not read the next time either; out of the way it can still be looked into.
        problems.push(format!("{error}; the restart that was asked for is set aside"));
        perform::archive_request(cx, &id, REFUSED)?;
        return Ok(Handover::Settled);
    }
    if let Err(error) = handoff::deliver(cx, &id) {
        if cx.bus.has(&AgentId::root(), &handoff::id(&id))? {
            // Under another id it would be there twice: who repeats this must find this one.
            return Err(error);
        }
        // Everything has ended all the same; the next `down` delivers it, or the restart after the next `up`.
        problems.push(waits(&error));
        return Ok(Handover::Undelivered);
    }
    perform::archive_request(cx, &id, STOPPED)?;
    Ok(if there { Handover::Settled } else { Handover::Delivered })
}

/// The first of these ids under which nothing was settled: behind one that no restart had begun with another may wait.
fn went_down(cx: &Context<'_>, root: &Desired) -> Result<RestartId> {
    let (second, mut nano) = (root.since.as_second(), root.since.subsec_nanosecond());
    loop {
        let id = format!("restart-{second}-{nano:08x}").parse().expect("lower case and digits");
        let is_settled = |what| state::exists(cx.layout.archived_request(&id, what));
        if !is_settled(STOPPED)? && !is_settled(REFUSED)? {
            return Ok(id);
        }
        nano += 1;
    }
}

fn end_sessions(cx: &Context<'_>, held: &mut Held, wishes: &[Desired], ends: &mut Ends) -> Result<()> {
    let served = Client::connect(&cx.layout.kernel_root());
    ends.anchor_stopped = served.is_ok();
    let mut client = match served {
        // A wish that does not read is one all the same: who was started for it may live.
        Err(ClientError::NotServing { .. }) if known::agents(cx)?.is_empty() => return Ok(()),
        // Nobody serves: live workers are only known once an anchor has adopted them.
        Err(ClientError::NotServing { .. }) => match cx.anchor() {
            // Nothing is wanted any more: whoever lives can be ended. To note it is worth the room, if there is any.
            Err(error) if error.is_full() => {
                evict(cx, held, wishes, ends)?;
                for (agent, generation) in stopped_before(cx, wishes)? {
                    ends.stopped.entry(agent).or_insert(generation);
                }
                if ends.is_nobody() && living(cx, Duration::ZERO)?.is_empty() {
                    return Ok(());
                }
                make_room(cx, wishes, ends)?;
                match cx.anchor() {
                    Err(error) if error.is_full() => {
                        ends.are_left(living(cx, WORKER_END)?);
                        return Ok(());
                    }
                    started => started?,
                }
            }
            started => started?,
        },
        connected => connected?,
    };
    held.got_on()?;
    let sessions = client.list()?.into_iter();
    let ended = sessions.filter(|session| session.state.may_live() || perform::stopped(session).is_some());
    ends.stopped.extend(ended.map(|session| (session.name, session.generation)));
    let answer = match client.shutdown(true) {
        // Somebody else's shutdown was sooner: what it left is the next anchor's to end.
        Err(ClientError::NotServing { .. }) => cx.anchor()?.shutdown(true)?,
        answered => answered?,
    };
    ends.ended.extend(answer.ended);
    ends.are_left(answer.left);
    // Who would not end before may have by now, or bears what it can be found by where its description was lost.
    for agent in ends.left.keys().cloned().collect::<Vec<_>>() {
        held.got_on()?;
        if perform::evict(cx, &agent).is_ok() && !known::is_held(cx, &agent) {
            ends.left.remove(&agent);
            ends.ended.insert(agent);
        }
    }
    Ok(())
}

/// Whose worker lives, by its lock: what it holds may bear no mark that it could be ended by.
fn living(cx: &Context<'_>, patience: Duration) -> Result<Vec<AgentId>> {
    let mut living = known::agents(cx)?;
    let until = clock::boot() + patience;
    living.retain(|agent| {
        loop {
            if !known::is_held(cx, agent) {
                return false;
            }
            if clock::boot() >= until {
                return true;
            }
            clock::pause(LOOK_AGAIN);
        }
    });
    Ok(living)
}

/// Whose last generation was ended on purpose, by the `down` before this one, say.
fn stopped_before(cx: &Context<'_>, wishes: &[Desired]) -> Result<Vec<(AgentId, Generation)>> {
    let sessions = known::sessions(cx)?;
    let known = wishes.iter().filter_map(|wish| sessions.get(&wish.agent));
    Ok(known.filter_map(|session| Some((session.name.clone(), perform::stopped(session)?))).collect())
}
