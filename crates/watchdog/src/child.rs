//! The detached child of a restart: preflight, teardown, spawn, up proof, handoff.
//!
//! Promise: the phase is durable before each act, so a successor knows what may have been done. Before
//! each act it looks whether it is still the child that the in-flight marker names; one that was paused
//! and replaced changes nothing. What the kernel is asked carries the generation that was seen, so even
//! a call that was already on its way is refused. Nothing is killed before everything needed was looked at.

use std::time::Duration;

use netsky_disk::lock::Lock;
use netsky_disk::watch::Watch;
use netsky_disk::{clock, fault, process, state};
use netsky_kernel::client::Client;
use netsky_kernel::rpc::{Guard, SessionView};
use netsky_model::desired::{Desired, Want};
use netsky_model::id::{AgentId, Generation, Nonce, RestartId};
use netsky_model::restart::{Inflight, Kind, Phase, Started, Status, VERSION};
use netsky_runtime::{Launch, TAG_NONCE};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::session_up::UpProof;
use crate::{handoff, perform};

/// Longest wait for the new agent0's proof.
const UP_LIMIT: Duration = Duration::from_secs(60);
/// Slow look while waiting for the proof: whether agent0 died, and for what gave no event.
const UP_RESCAN: Duration = Duration::from_millis(500);
/// Longest wait for another child to end: it holds the lock, and looks at its fence after each kill
/// (5 s of grace) and every half second of waiting.
const OTHER_CHILD: Duration = Duration::from_secs(15);

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The handoff is delivered.
    Done,
    /// Another child has the restart, or it is over: nothing was touched since that was seen.
    Superseded,
}

struct Child<'a> {
    cx: &'a Context<'a>,
    inflight: Inflight,
    status: Status,
}

/// Run as the child of `id` with this epoch.
///
/// # Errors
/// The step that failed; it is in the status file too.
pub fn run(cx: &Context<'_>, id: &RestartId, epoch: u64, said: impl Fn(&str)) -> Result<()> {
    let Some(_lock) = Lock::take_within(cx.layout.restart_child_lock(), OTHER_CHILD)? else {
        said("another child is at work; nothing done");
        return Ok(());
    };
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
        pid: process::me(),
        phase: before.as_ref().map_or(Phase::Preflight, |status| status.phase),
        started_at: before.as_ref().map_or(now.clone(), |status| status.started_at.clone()),
        updated_at: now,
        error: None,
        agents: before.map_or_else(Vec::new, |status| status.agents),
    };
    let mut child = Child { cx, inflight, status };
    match child.work(&said) {
        Ok(Outcome::Done) => said("handed off"),
        Ok(Outcome::Superseded) => said("superseded; nothing done since"),
        Err(error) if is_passing(&error) => {
            // The phase stays: a successor begins where this one lost the anchor.
            said(&format!("interrupted: {error}"));
            return Err(error);
        }
        Err(error) => {
            said(&format!("failed: {error}"));
            child.status.error = Some(error.to_string());
            if child.enter(Phase::Failed)? == Outcome::Done {
                return Err(error);
            }
        }
    }
    Ok(())
}

/// The in-flight marker, if it still names this child.
fn current(cx: &Context<'_>, id: &RestartId, epoch: u64) -> Result<Option<Inflight>> {
    let inflight: Option<Inflight> = state::read_json(cx.layout.restart_inflight())?;
    Ok(inflight.filter(|inflight| inflight.id == *id && inflight.epoch == epoch))
}

/// Go on only while this child is the one; say so to the caller otherwise.
macro_rules! fenced {
    ($step:expr) => {
        if $step? == Outcome::Superseded {
            return Ok(Outcome::Superseded);
        }
    };
}

impl Child<'_> {
    fn work(&mut self, said: &impl Fn(&str)) -> Result<Outcome> {
        let root = AgentId::root();
        if self.status.phase == Phase::HandedOff {
            return Ok(Outcome::Done);
        }
        let mut client = self.cx.anchor()?;
        // A predecessor died between the proof and the handoff: agent0 is up, only the rest is missing.
        if self.status.phase != Phase::UpDetected || !self.is_up(&mut client, &root)? {
            fenced!(self.preflight(&mut client));
            said("preflight done");
            // Looked at before the fence, acted on behind it: a child that is paused in between and replaced
            // asks the kernel for generations that are no longer the newest, and is refused.
            let sessions = client.list()?;
            fenced!(self.enter(Phase::Teardown));
            fault::point("watchdog.child.teardown")
                .map_err(|e| netsky_disk::Error::new("tear down", "agent0", e))?;
            self.teardown(&sessions)?;
            said("teardown done");
            fenced!(self.spawn(&mut client, &sessions));
            said("spawned");
            fenced!(self.wait_for_proof(&mut client));
            fenced!(self.enter(Phase::UpDetected));
            said("up");
        }
        fault::point("watchdog.child.up").map_err(|e| netsky_disk::Error::new("hand off", "agent0", e))?;
        handoff::deliver(self.cx, &self.inflight.id, self.inflight.kind)?;
        self.enter(Phase::HandedOff)
    }

    /// Make a phase durable, if this child is still the one.
    fn enter(&mut self, phase: Phase) -> Result<Outcome> {
        if current(self.cx, &self.inflight.id, self.inflight.epoch)?.is_none() {
            return Ok(Outcome::Superseded);
        }
        self.status.phase = self.status.phase.step(phase).map_err(|e| Error::Restart(e.to_string()))?;
        self.status.updated_at = clock::stamp();
        state::write_json(self.cx.layout.restart_status(&self.inflight.id), &self.status)?;
        Ok(Outcome::Done)
    }

    /// Look at everything that is needed afterwards; nothing is touched.
    fn preflight(&mut self, client: &mut Client) -> Result<Outcome> {
        if self.status.phase == Phase::Preflight {
            fenced!(self.enter(Phase::Preflight));
        }
        for desired in self.to_start()? {
            if Launch::program(&desired).is_none() {
                let program = desired.argv.first().cloned().unwrap_or_default();
                return Err(Error::Restart(format!(
                    "{}: program {program:?} is not executable",
                    desired.agent
                )));
            }
            if !desired.cwd.is_dir() {
                let cwd = desired.cwd.display();
                return Err(Error::Restart(format!("{}: working folder {cwd} is gone", desired.agent)));
            }
            self.cx.bus.create(&desired.agent)?;
        }
        client.list()?;
        let text = handoff::source(self.cx, &self.inflight.id, self.inflight.kind);
        let delivered = self.cx.bus.has(&AgentId::root(), &handoff::id(&self.inflight.id))?;
        if !delivered {
            handoff::packet(&handoff::draft(self.cx, &self.inflight.id, &text?)?)?;
        }
        Ok(Outcome::Done)
    }

    /// Who comes back: agent0, and after a planned restart every numbered agent that is wanted.
    fn to_start(&self) -> Result<Vec<Desired>> {
        let mut wanted = Vec::new();
        for agent in self.cx.layout.desired_agents()? {
            let concerned = match self.inflight.kind {
                Kind::Planned => agent.number().is_some(),
                Kind::Crash => agent == AgentId::root(),
            };
            if !concerned {
                continue;
            }
            let desired: Option<Desired> = state::read_json(self.cx.layout.desired(&agent))?;
            wanted.extend(desired.filter(|desired| desired.want == Want::Up));
        }
        match wanted.first() {
            Some(first) if first.agent == AgentId::root() => Ok(wanted),
            _ => Err(Error::NotUp),
        }
    }

    /// End what is left of the old sessions, all at once: each may take its whole grace.
    fn teardown(&self, sessions: &[SessionView]) -> Result<()> {
        let wanted = self.to_start()?;
        let alive =
            sessions.iter().filter(|s| s.state.may_live() && wanted.iter().any(|d| d.agent == s.name));
        let root = self.cx.layout.kernel_root();
        let ends: Vec<Result<()>> = std::thread::scope(|scope| {
            let kills: Vec<_> = alive
                .map(|session| {
                    let root = &root;
                    scope.spawn(move || {
                        let guard = Guard::if_generation(session.generation);
                        Client::connect(root)?.kill(&session.name, None, &guard)?;
                        Ok(())
                    })
                })
                .collect();
            let gone = || Err(Error::Restart("a kill did not end".to_owned()));
            kills.into_iter().map(|kill| kill.join().unwrap_or_else(|_| gone())).collect()
        });
        ends.into_iter().collect()
    }

    /// Start the new sessions, agent0 first.
    fn spawn(&mut self, client: &mut Client, sessions: &[SessionView]) -> Result<Outcome> {
        let mut started = Vec::new();
        for desired in self.to_start()? {
            if current(self.cx, &self.inflight.id, self.inflight.epoch)?.is_none() {
                return Ok(Outcome::Superseded);
            }
            let before = sessions.iter().find(|session| session.name == desired.agent);
            let after = before.map_or(Generation::NONE, |session| session.generation);
            let once = format!("{}.{}.{}", self.inflight.id, self.inflight.epoch, desired.agent);
            let view = perform::launch(self.cx, client, &desired, after, Some(once))?;
            let nonce = nonce_of(&view.tags)?;
            started.push(Started { name: desired.agent, generation: view.generation, nonce });
        }
        self.status.agents = started;
        fault::point("watchdog.child.spawned")
            .map_err(|e| netsky_disk::Error::new("note spawn of", "agent0", e))?;
        self.enter(Phase::Spawned)
    }

    fn root(&self) -> Result<&Started> {
        let root = AgentId::root();
        let found = self.status.agents.iter().find(|started| started.name == root);
        found.ok_or_else(|| Error::Restart("the status names no agent0".to_owned()))
    }

    /// Whether the agent0 of the status lives.
    fn is_up(&self, client: &mut Client, root: &AgentId) -> Result<bool> {
        let session = client.show(root)?;
        Ok(self.root().is_ok_and(|started| started.generation == session.generation)
            && session.state.may_live())
    }

    fn wait_for_proof(&self, client: &mut Client) -> Result<Outcome> {
        let Started { name, generation, nonce } = self.root()?;
        let watch = Watch::new(&[self.cx.layout.up_folder()])?;
        let until = clock::boot() + UP_LIMIT;
        while UpProof::of(self.cx, nonce, name, *generation).is_none() {
            if current(self.cx, &self.inflight.id, self.inflight.epoch)?.is_none() {
                return Ok(Outcome::Superseded);
            }
            let session = client.show(name)?;
            if session.generation != *generation || !session.state.may_live() {
                let how = session.end.map_or_else(|| session.state.to_string(), |end| end.to_string());
                return Err(Error::Restart(format!("agent0 ended before it was up: {how}")));
            }
            if clock::boot() >= until {
                return Err(Error::NotProved(UP_LIMIT));
            }
            watch.wait(UP_RESCAN)?;
        }
        Ok(Outcome::Done)
    }
}

/// Whether a failure is the death of the anchor, which the next tick starts again.
fn is_passing(error: &Error) -> bool {
    use netsky_kernel::client::ClientError::{Lost, NotServing, Silent};
    matches!(error, Error::Kernel(Lost { .. } | NotServing { .. } | Silent { .. }))
}

fn nonce_of(tags: &std::collections::BTreeMap<String, String>) -> Result<Nonce> {
    let nonce = tags.get(TAG_NONCE).and_then(|text| text.parse().ok());
    nonce.ok_or_else(|| Error::Restart("the session bears no nonce".to_owned()))
}
