//! `forward`: an envelope goes on to another agent, once.
//!
//! The copy has an id that derives from the original and the target, so that a repeat after a crash places nothing, and
//! it is durable before the original is finished here. What waits is claimed first, so that nobody else takes it meanwhile,
//! and not before nothing but the disk, or who fills the target's inbox in that moment, can refuse it.

use netsky_disk::clock;
use netsky_disk::lock::{Hold, Seized};
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, EnvelopeId, Generation, Sender};
use netsky_model::life::{Event, Illegal, State, transition};
use netsky_model::name::{Name, Stage};
use netsky_model::provenance::Provenance;

use crate::bus::{Bus, Told, point};
use crate::channel::Channel;
use crate::claim::{Claim, PATIENCE};
use crate::error::{Error, Result};
use crate::list::Found;
use crate::poison::bury_copy;
use crate::queue::{Folders, Taken, hold, read_named};
use crate::release::may_end;
use crate::send::Ready;

/// What a forward did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// Which envelope.
    pub id: EnvelopeId,
    /// The id of the copy.
    pub copy: EnvelopeId,
    /// It was forwarded there before; nothing was done.
    pub already: bool,
}

impl Bus<'_> {
    /// Sends an envelope of `agent` on to `to`, in the name of `by`; durable when this returns. `id` may be shortened
    /// where unambiguous.
    ///
    /// # Errors
    /// No such envelope, an unknown target, an envelope that is finished or that another process holds, one that went
    /// through too many hands, what is no message, or what the file system refuses. The original is unfinished then; what
    /// waited and a drain would put aside is a dead letter.
    pub fn forward(&self, agent: &AgentId, id: &str, to: &AgentId, by: &Sender) -> Result<Forwarded> {
        if !self.knows(to) {
            return Err(Error::UnknownTarget(to.clone()));
        }
        let channel = self.channel(agent)?;
        self.return_dead_claims(agent)?;
        loop {
            let found = self.find(agent, id)?;
            let copy = EnvelopeId::derived(&["forward", found.name.key.id.as_str(), to.as_str()]);
            match found.state {
                // Also what somebody finished here while its copy went out: the copy is what was asked for.
                state @ (State::Forwarded | State::Acked | State::Poisoned) if self.has(to, &copy)? => {
                    channel.dir(state)?.sync()?;
                    return Ok(Forwarded { id: found.name.key.id, copy, already: true });
                }
                State::Written => {
                    let claimed = self.claim_for_forward(&channel, &found, (to, by, &copy))?;
                    let Some((claim, ready, _held)) = claimed else { continue };
                    let gone = self.forward_from(&channel, State::Claimed, &claim.name, &ready);
                    if gone.is_err() {
                        // Never shown, so the same attempt; where even that fails, it comes back with our end.
                        let _ = claim.folders.put_back(&claim.name);
                    }
                    if gone? {
                        return Ok(Forwarded { id: claim.name.key.id, copy, already: false });
                    }
                }
                State::Delivered => {
                    let (name, from) = (&found.name, channel.dir(State::Delivered)?);
                    let original = read_named(agent, (State::Delivered, &from), name, &name.to_string())?;
                    let Some(original) = original else { continue };
                    let ready = self.passed_on(&original, (to, by, &copy))?;
                    if self.forward_from(&channel, State::Delivered, name, &ready)? {
                        return Ok(Forwarded { id: found.name.key.id, copy, already: false });
                    }
                }
                State::Claimed => {
                    let (agent, id) = (agent.clone(), found.name.key.id.clone());
                    return Err(match &found.name.stage {
                        Stage::Claimed(owner) => {
                            Error::Held { agent, id, pid: owner.pid, may_end: may_end(owner) }
                        }
                        // No recovery moves it on.
                        _ => Error::Unowned { agent, id },
                    });
                }
                state => return Err(Illegal { state, event: Event::Forward }.into()),
            }
            // It moved while we looked at it; its life is finite and so is this loop.
        }
    }

    /// Claims what waits, so that nobody takes it away, and with it what goes out; none if it moved on.
    ///
    /// All that can refuse it is asked before it leaves the inbox: a consumer that misses it there shows what its sender
    /// sent later. So it is held there already.
    fn claim_for_forward(
        &self,
        channel: &Channel,
        found: &Found,
        target: (&AgentId, &Sender, &EnvelopeId),
    ) -> Result<Option<(Claim, Ready, Hold)>> {
        let folders = Folders::open(channel)?;
        let envelope = self.read_or_quarantine(channel, &folders.inbox, &found.name, &found.file)?;
        let Some(envelope) = envelope else { return Ok(None) };
        let copy = self.passed_on(&envelope, target)?;
        let held = match Hold::take_within(&folders.inbox, &found.name.to_string(), PATIENCE)? {
            Seized::Held(held) => held,
            Seized::Gone => return Ok(None),
            Seized::Busy => {
                let (agent, id) = (channel.agent.clone(), found.name.key.id.clone());
                return Err(Error::Busy { agent, id });
            }
        };
        self.may_send(&copy)?;
        let Taken::Claim(claim) = hold(self, channel, &folders, &found.name, envelope)? else {
            return Ok(None);
        };
        self.hold(&channel.agent, &folders, std::slice::from_ref(&claim))?;
        Ok(Some((claim, copy, held)))
    }

    /// Copy first, original second. False if the original was somewhere else by then.
    fn forward_from(&self, channel: &Channel, state: State, name: &Name, copy: &Ready) -> Result<bool> {
        let next = transition(state, Event::Forward)?;
        let from = channel.dir(state)?;
        let file = name.to_string();
        let sent = self.send_ready(copy)?;
        point("bus.forward.copied");
        let generation = name.stage.generation().unwrap_or(Generation::NONE);
        let done = name.to(Stage::Taken(generation));
        // Homes from before there were forwards have none.
        let folder = channel.dir(State::Forwarded)?;
        match from.rename(&file, &folder, done.to_string()) {
            Ok(()) => {}
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) if error.is_exists() => return Ok(bury_copy(channel, &from, name)?.is_some()),
            Err(error) => return Err(error.into()),
        }
        point("bus.forward.renamed");
        folder.sync()?;
        let why = format!("to {} as {}", copy.channel.agent, sent.id);
        let told = Told {
            from: Some(&copy.envelope.from),
            generation: Some(generation),
            reason: Some(&why),
            cause: None,
        };
        self.moved(&channel.agent, &done, next, told);
        Ok(true)
    }

    /// The same words from other hands. What was said about the sender's proof, or to one incarnation, is not passed on.
    fn passed_on(
        &self,
        original: &Envelope,
        (to, by, id): (&AgentId, &Sender, &EnvelopeId),
    ) -> Result<Ready> {
        let path = Provenance::of(original).forwarded(by)?;
        let mut copy = Envelope {
            id: Some(id.clone()),
            from: by.clone(),
            to: Some(to.clone()),
            ts: clock::wall_seconds(),
            for_generation: None,
            verified: None,
            mac: None,
            digest: None,
            ..original.clone()
        };
        path.mark(&mut copy);
        self.ready_once(copy, id.clone(), to)
    }
}
