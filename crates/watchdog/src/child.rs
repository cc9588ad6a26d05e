//! The detached child of a restart: preflight, teardown, spawn, up proof, handoff.
//!
//! Promise: the phase is durable before each act, so a successor knows what may have been done. Before
//! each act it looks whether it is still the child that the in-flight marker names; one that was paused
//! and replaced changes nothing. What the kernel is asked carries the generation that was seen, so even
//! a call that was already on its way is refused. Nothing is killed before everything needed was looked at.

use std::collections::BTreeSet;
use std::time::Duration;

use netsky_disk::lock::Lock;
use netsky_disk::{clock, fault, process, state};
use netsky_kernel::client::{Client, ROOM};
use netsky_kernel::rpc::{Guard, SessionView};
use netsky_model::desired::{Desired, Want};
use netsky_model::id::{AgentId, Generation, Nonce, RestartId};
use netsky_model::restart::{Inflight, Kind, Phase, STARTUP_GRACE, Started, Status, VERSION};
use netsky_runtime::{TAG_NONCE, UpProof};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::session_up::wait_for_proof;
use crate::{handoff, observe, perform};

/// Longest wait for another child to end: it holds the lock, and looks at its fence after each kill
/// (5 s of grace) and every half second of waiting.
const OTHER_CHILD: Duration = Duration::from_secs(15);

/// Starts that there must be room for beside those of the restart itself: the handoff, its archive, and what others write
/// meanwhile.
const MARGIN: u64 = 16;
/// Sessions that are ended at once.
const AT_ONCE: usize = 32;

struct Child<'a> {
    cx: &'a Context<'a>,
    inflight: Inflight,
    status: Status,
    /// Clones that could not come back: nobody ends them, and the tick sees to them.
    spared: BTreeSet<AgentId>,
}

/// Run as the child of `id` with this epoch.
///
/// # Errors
/// The step that failed; it is in the status file too.
pub fn run(cx: &Context<'_>, id: &RestartId, epoch: u64, said: impl Fn(&str)) -> Result<()> {
    let Some(mut lock) = Lock::take_within(cx.layout.restart_child_lock(), OTHER_CHILD)? else {
        said("another child is at work; nothing done");
        return Ok(());
    };
    // Whoever finds the lock held knows whom to kill, even if the tick that started us died before it noted us.
    let pid = process::identity()?;
    lock.note(&pid)?;
    let Some(inflight) = current(cx, id, epoch)? else {
        said("not the child of the restart under way; nothing done");
        return Ok(());
    };
    let before: Option<Status> = state::read_json(cx.layout.restart_status(id)).unwrap_or_default();
    let now = clock::stamp();
    let status = Status {
        v: VERSION,
        id: id.clone(),
        epoch,
        pid,
        phase: before.as_ref().map_or(Phase::Preflight, |status| status.phase),
        started_at: before.as_ref().map_or(now.clone(), |status| status.started_at.clone()),
        updated_at: now,
        error: None,
        torn_down: before.as_ref().is_some_and(|status| status.torn_down),
        agents: before.map_or_else(Vec::new, |status| status.agents),
    };
    let mut child = Child { cx, inflight, status, spared: BTreeSet::new() };
    match child.work(&said) {
        Ok(()) => {
            said("handed off");
            Ok(())
        }
        Err(Error::Superseded) => {
            said("superseded; nothing done since");
            Ok(())
        }
        Err(error) if child.is_passing(&error) => {
            // The phase stays: a successor goes on where this one was interrupted.
            said(&format!("interrupted: {error}"));
            Err(error)
        }
        Err(error) => {
            said(&format!("failed: {error}"));
            child.status.error = Some(error.to_string());
            child.enter(Phase::Failed)?;
            Err(error)
        }
    }
}

/// The in-flight marker, if it still names this child.
fn current(cx: &Context<'_>, id: &RestartId, epoch: u64) -> Result<Option<Inflight>> {
    let inflight: Option<Inflight> = state::read_json(cx.layout.restart_inflight())?;
    Ok(inflight.filter(|inflight| inflight.id == *id && inflight.epoch == epoch))
}

impl Child<'_> {
    fn work(&mut self, said: &impl Fn(&str)) -> Result<()> {
        if self.status.phase == Phase::HandedOff {
            return Ok(());
        }
        let mut client = self.cx.anchor()?;
        // A predecessor died between the proof and the handoff: agent0 is up, only the rest is missing.
        if self.status.phase != Phase::UpDetected || !self.is_up(&mut client)? {
            self.preflight(said)?;
            said("preflight done");
            // Looked at before the fence, acted on behind it: a child that is paused in between and replaced
            // asks the kernel for generations that are no longer the newest, and is refused.
            let sessions = client.list()?;
            self.status.agents.clear();
            self.status.torn_down = true;
            self.enter(Phase::Teardown)?;
            fault::point("watchdog.child.teardown")
                .map_err(|e| netsky_disk::Error::new("tear down", "agent0", e))?;
            self.teardown(&sessions, said)?;
            said("teardown done");
            self.spawn(&mut client, &sessions, said)?;
            said("spawned");
            self.wait_for_proof(&mut client)?;
            self.enter(Phase::UpDetected)?;
            said("up");
        }
        fault::point("watchdog.child.up").map_err(|e| netsky_disk::Error::new("hand off", "agent0", e))?;
        self.fence()?;
        handoff::deliver(self.cx, &self.inflight.id)?;
        self.enter(Phase::HandedOff)
    }

    /// Whether a failure will pass, also because the new agent0 is up and only its handoff could not be written yet.
    fn is_passing(&self, error: &Error) -> bool {
        passes(error) || self.status.phase == Phase::UpDetected
    }

    /// Go on only while this child is the one that the marker names.
    fn fence(&self) -> Result<()> {
        match current(self.cx, &self.inflight.id, self.inflight.epoch)? {
            Some(_) => Ok(()),
            None => Err(Error::Superseded),
        }
    }

    /// Make a phase durable, if this child is still the one.
    fn enter(&mut self, phase: Phase) -> Result<()> {
        self.fence()?;
        let phase = self.status.phase.step(phase).map_err(|e| Error::Restart(e.to_string()))?;
        let next = Status { phase, updated_at: clock::stamp(), ..self.status.clone() };
        state::write_json(self.cx.layout.restart_status(&self.inflight.id), &next)?;
        self.status = next;
        Ok(())
    }

    /// Look at everything that is needed afterwards, but for the anchor, which has greeted; nothing is touched. What a clone
    /// lacks keeps nobody but that clone from a restart.
    fn preflight(&mut self, said: &impl Fn(&str)) -> Result<()> {
        if self.status.phase == Phase::Preflight {
            self.enter(Phase::Preflight)?;
        }
        // Who lives is not ended for a start that the disk would not take; who is dead has nothing to lose.
        let wanted = self.to_start()?;
        if let Some(why) = perform::no_room_for(self.cx, ROOM * (MARGIN + wanted.len() as u64)) {
            if self.inflight.kind == Kind::Planned {
                return Err(Error::Restart(why));
            }
            let clones = wanted.into_iter().map(|wish| wish.agent);
            for clone in clones.filter(|agent| *agent != AgentId::root()) {
                said(&format!("{clone} is left as it is: {why}"));
                self.spared.insert(clone);
            }
        }
        for desired in self.to_start()? {
            match self.startable(&desired) {
                Err(why) if desired.agent == AgentId::root() => return Err(why),
                Err(why) => {
                    said(&format!("{} is left as it is: {why}", desired.agent));
                    self.spared.insert(desired.agent);
                }
                Ok(()) => {}
            }
        }
        let id = &self.inflight.id;
        if !self.cx.bus.has(&AgentId::root(), &handoff::id(id))? {
            handoff::packet(self.cx, id, handoff::source(self.cx, id)?)?;
        }
        Ok(())
    }

    fn startable(&self, desired: &Desired) -> Result<()> {
        if let Some(why) = perform::not_startable(self.cx, desired) {
            return Err(Error::Restart(format!("{}: {why}", desired.agent)));
        }
        Ok(self.cx.bus.create(&desired.agent)?)
    }

    /// Who comes back: agent0, and after a restart that takes all every numbered agent that is wanted.
    fn to_start(&self) -> Result<Vec<Desired>> {
        let mut wanted = Vec::new();
        // A clone's wish that does not read concerns that clone; the tick tells it.
        for desired in observe::wishes(self.cx, &mut Vec::new())?.read {
            let concerned = match self.inflight.takes_all() {
                true => desired.agent.number().is_some(),
                false => desired.agent == AgentId::root(),
            };
            if concerned && desired.want == Want::Up && !self.spared.contains(&desired.agent) {
                wanted.push(desired);
            }
        }
        match wanted.first() {
            Some(first) if first.agent == AgentId::root() => Ok(wanted),
            _ => Err(Error::NotUp),
        }
    }

    /// End what is left of the old sessions, all at once: each may take its whole grace. A clone that does not
    /// end is left to the tick; it must not keep agent0 from coming back.
    fn teardown(&mut self, sessions: &[SessionView], said: &impl Fn(&str)) -> Result<()> {
        let wanted = self.to_start()?;
        let alive: Vec<&SessionView> = sessions
            .iter()
            .filter(|s| s.state.may_live() && wanted.iter().any(|d| d.agent == s.name))
            .collect();
        // An anchor serves so many at once and others beside them.
        for alive in alive.chunks(AT_ONCE) {
            for (name, end) in self.end(alive) {
                match end {
                    Err(error) if *name == AgentId::root() => return Err(error),
                    Err(error) => said(&format!("{name} was not ended: {error}")),
                    Ok(()) => {}
                }
            }
            // A word after each: the tick judges a child by the time since its last one.
            self.enter(self.status.phase)?;
        }
        Ok(())
    }

    /// Ends these, all at once.
    fn end<'s>(&self, alive: &[&'s SessionView]) -> Vec<(&'s AgentId, Result<()>)> {
        let kernel_root = self.cx.layout.kernel_root();
        std::thread::scope(|scope| {
            let kills: Vec<_> = alive
                .iter()
                .map(|session| {
                    let kernel_root = &kernel_root;
                    let kill = scope.spawn(move || -> Result<()> {
                        let guard = Guard::if_generation(session.generation);
                        Client::connect(kernel_root)?.kill(&session.name, None, &guard)?;
                        Ok(())
                    });
                    (&session.name, kill)
                })
                .collect();
            let gone = || Err(Error::Restart("a kill did not end".to_owned()));
            kills.into_iter().map(|(name, kill)| (name, kill.join().unwrap_or_else(|_| gone()))).collect()
        })
    }

    /// Start the new sessions, agent0 first and noted at once. A clone that does not start is left to the tick.
    fn spawn(&mut self, client: &mut Client, sessions: &[SessionView], said: &impl Fn(&str)) -> Result<()> {
        // An `up` says what runs before this looks, or finds what was started and noted.
        let _wishes = perform::hold_wishes(self.cx)?;
        let wanted = self.to_start()?;
        fault::point("watchdog.child.wished").map_err(|e| netsky_disk::Error::new("start", "agent0", e))?;
        // A word: the wait for the lock took from the time that a start may take.
        self.enter(self.status.phase)?;
        for desired in wanted {
            self.fence()?;
            let root = desired.agent == AgentId::root();
            match self.start(client, sessions, &desired) {
                Err(error) if root => return Err(error),
                Err(error) => said(&format!("{} was not started: {error}", desired.agent)),
                Ok(started) => self.status.agents.push(started),
            }
            if root {
                fault::point("watchdog.child.spawned")
                    .map_err(|e| netsky_disk::Error::new("note the start of", "agent0", e))?;
            }
            // A word after each: the tick judges a child by the time since its last one.
            self.enter(if root { Phase::Spawned } else { self.status.phase })?;
        }
        Ok(())
    }

    fn start(&self, client: &mut Client, sessions: &[SessionView], desired: &Desired) -> Result<Started> {
        let before = sessions.iter().find(|session| session.name == desired.agent);
        let after = before.map_or(Generation::NONE, |session| session.generation);
        let once = format!("{}.{}.{}", self.inflight.id, self.inflight.epoch, desired.agent);
        // Who asks for a restart has written down what matters, and wants a mind without the rest.
        let anew = self.inflight.kind == Kind::Planned && desired.agent == AgentId::root();
        let view = perform::launch(self.cx, client, desired, after, (anew, Some(once)))?;
        let nonce = nonce_of(&view.tags)?;
        Ok(Started { name: desired.agent.clone(), generation: view.generation, nonce })
    }

    fn root(&self) -> Result<&Started> {
        let root = AgentId::root();
        let found = self.status.agents.iter().find(|started| started.name == root);
        found.ok_or_else(|| Error::Restart("the status names no agent0".to_owned()))
    }

    /// Whether the agent0 of the status lives.
    fn is_up(&self, client: &mut Client) -> Result<bool> {
        let session = client.show(&AgentId::root())?;
        Ok(self.root().is_ok_and(|started| started.generation == session.generation)
            && session.state.may_live())
    }

    fn wait_for_proof(&self, client: &mut Client) -> Result<()> {
        let Started { name, generation, nonce } = self.root()?;
        wait_for_proof(self.cx, name, STARTUP_GRACE, || {
            let proof = UpProof::of(self.cx.layout, nonce, name, *generation);
            if proof.is_some() {
                return Ok(proof);
            }
            self.fence()?;
            let session = client.show(name)?;
            if session.generation != *generation || !session.state.may_live() {
                let how = session.end.map_or_else(|| session.state.to_string(), |end| end.to_string());
                return Err(Error::Restart(format!("agent0 ended before it was up: {how}")));
            }
            Ok(None)
        })?;
        Ok(())
    }
}

fn nonce_of(tags: &std::collections::BTreeMap<String, String>) -> Result<Nonce> {
    let nonce = tags.get(TAG_NONCE).and_then(|text| text.parse().ok());
    nonce.ok_or_else(|| Error::Restart("the session bears no nonce".to_owned()))
}

/// Whether a failure is none of the restart: the anchor died (the next tick starts it again) or had no slot for another
/// client, or an `up` was stopped while it said what runs.
fn passes(error: &Error) -> bool {
    match error {
        Error::Kernel(error) => error.passes(),
        error => matches!(error, Error::Wishing(_)),
    }
}

#[cfg(test)]
mod tests {
    use netsky_kernel::client::ClientError;
    use netsky_kernel::rpc::{Refusal, RefusalKind};

    use super::*;

    #[test]
    fn an_anchor_that_has_no_slot_now_fails_no_restart_and_a_refusal_does() {
        let refusal = Refusal::new(RefusalKind::Busy, "256 clients are connected already");
        let full = ClientError::Full { root: "/".into(), refusal: refusal.clone() };
        assert!(passes(&full.into()));
        assert!(!passes(&ClientError::Refused(refusal).into()));
    }
}
