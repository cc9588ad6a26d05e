//! `release`: what somebody has, or had and did not finish, waits again.
//!
//! Of a living owner a claim is taken only while it does not show the text: both need the hold on the file. An owner that
//! keeps the hold is stuck or at work; whoever knows that it is stuck ends it first, by identity.

use std::time::Duration;

use netsky_disk::lock::{Hold, Seized};
use netsky_disk::process::{self, PidFd, Signal};
use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::life::{Cause, Event, Illegal, State, transition};
use netsky_model::name::{Name, Stage};
use netsky_model::process::{Life, ProcessId};

use crate::bus::{Bus, point};
use crate::channel::Channel;
use crate::error::{Error, Result};

/// How long a release waits for an owner that shows the text right now: a print takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a killed owner may take to be gone.
const DEATH: Duration = Duration::from_secs(5);

/// What is done about an owner that does not let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// It is left alone, and the release refused.
    Spared,
    /// It is killed first.
    Killed,
}

/// Where a release left an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// Which one.
    pub id: EnvelopeId,
    /// In the inbox, or among the dead letters when that was the last attempt.
    pub state: State,
    /// The attempt that it waits for.
    pub attempt: u32,
    /// It waited before; nothing was done.
    pub already: bool,
}

impl Bus<'_> {
    /// Gives an envelope back that is claimed or delivered, with one attempt more; durable when this returns. `id` may be
    /// shortened where unambiguous. What waits already stays as it is.
    ///
    /// # Errors
    /// No such envelope, one that is finished, one whose owner does not let go, or what the file system refuses.
    pub fn take_back(&self, agent: &AgentId, id: &str, owner: Owner) -> Result<Released> {
        let channel = self.channel(agent)?;
        loop {
            let found = self.find(agent, id)?;
            let name = found.name;
            match found.state {
                State::Written => {
                    // Whoever moved it may not have come to its sync.
                    channel.dir(State::Written)?.sync()?;
                    let (id, attempt) = (name.key.id, name.attempt);
                    return Ok(Released { id, state: State::Written, attempt, already: true });
                }
                State::Claimed => {
                    let Some(_hold) = self.seize(&channel, &name, owner)? else { continue };
                    point("bus.release.held");
                    if let Some(released) = self.back_by_hand(&channel, State::Claimed, &name)? {
                        return Ok(released);
                    }
                }
                State::Delivered => {
                    if let Some(released) = self.back_by_hand(&channel, State::Delivered, &name)? {
                        return Ok(released);
                    }
                }
                state @ (State::Acked | State::Forwarded | State::Poisoned) => {
                    return Err(Illegal { state, event: Event::GiveBack { attempt: name.attempt } }.into());
                }
            }
            // It moved while we looked at it; its life is finite and so is this loop.
        }
    }

    /// Takes hold of a claimed file; none if it moved on.
    fn seize(&self, channel: &Channel, name: &Name, owner: Owner) -> Result<Option<Hold>> {
        let claimed = channel.dir(State::Claimed)?;
        match Hold::take_within(&claimed, &name.to_string(), PATIENCE)? {
            Seized::Held(hold) => return Ok(Some(hold)),
            Seized::Gone => return Ok(None),
            Seized::Busy => {}
        }
        let (agent, id) = (channel.agent.clone(), name.key.id.clone());
        if let Stage::Claimed(process) = &name.stage
            && process::probe(process) != Life::Dead
            && (owner == Owner::Spared || !end(process)?)
        {
            let may_end = owner == Owner::Spared && may_end(process);
            return Err(Error::Held { agent, id, pid: process.pid, may_end });
        }
        // The owner is gone. Who keeps the hold all the same is somebody else, as another release, and is not known by name.
        match Hold::take_within(&claimed, &name.to_string(), PATIENCE)? {
            Seized::Held(hold) => Ok(Some(hold)),
            Seized::Gone => Ok(None),
            Seized::Busy => Err(Error::Busy { agent, id }),
        }
    }

    fn back_by_hand(&self, channel: &Channel, state: State, name: &Name) -> Result<Option<Released>> {
        let to = transition(state, Event::GiveBack { attempt: name.attempt })?;
        let mut way_back = self.way_back(channel)?;
        let moved =
            way_back.take(&channel.dir(state)?, state, name, (Cause::Released, "it was released by hand"))?;
        way_back.end()?;
        let attempt = if to == State::Written { name.given_back().attempt } else { name.attempt };
        Ok(moved.then(|| Released { id: name.key.id.clone(), state: to, attempt, already: false }))
    }
}

/// Whether there is a process that can be ended from here, as far as its identity says.
pub(crate) fn may_end(process: &ProcessId) -> bool {
    process::probe(process) == Life::Alive
}

/// Ends a process, by identity; false if that cannot be known to have worked.
pub(crate) fn end(process: &ProcessId) -> Result<bool> {
    if process::probe(process) == Life::Unknown {
        return Ok(false);
    }
    match PidFd::open(process)? {
        // None too of who must not be signalled, as the first process of a container.
        None => Ok(process::probe(process) == Life::Dead),
        Some(held) => {
            held.signal(Signal::KILL)?;
            Ok(held.wait(DEATH)?)
        }
    }
}
