//! `forward`: an envelope goes on to another agent, once.
//!
//! The copy has an id that derives from the original and the target, so that a repeat after a crash places nothing, and
//! it is durable before the original is finished here. What waits is claimed first: nobody else takes it meanwhile.

use netsky_disk::clock;
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
                    let Some(claim) = self.claim_for_forward(&channel, &found)? else { continue };
                    let gone = self.forward_from(&channel, State::Claimed, &claim.name, (to, by, &copy));
                    if gone.is_err() {
                        // Never shown, so the same attempt; where even that fails, it comes back with our end.
                        let _ = claim.folders.put_back(&claim.name);
                    }
                    if gone? {
                        return Ok(Forwarded { id: claim.name.key.id, copy, already: false });
                    }
                }
                State::Delivered => {
                    if self.forward_from(&channel, State::Delivered, &found.name, (to, by, &copy))? {
                        return Ok(Forwarded { id: found.name.key.id, copy, already: false });
                    }
                }
                State::Claimed => {
                    let Stage::Claimed(owner) = &found.name.stage else { continue };
                    let (agent, id) = (agent.clone(), found.name.key.id.clone());
                    return Err(Error::Held { agent, id, pid: owner.pid });
                }
                state => return Err(Illegal { state, event: Event::Forward }.into()),
            }
            // It moved while we looked at it; its life is finite and so is this loop.
        }
    }

    /// Claims what waits, so that nobody takes it away; none if it moved on.
    fn claim_for_forward(&self, channel: &Channel, found: &Found) -> Result<Option<Claim>> {
        let folders = Folders::open(channel)?;
        let envelope = self.read_or_quarantine(channel, &folders.inbox, &found.name, &found.file)?;
        let Some(envelope) = envelope else { return Ok(None) };
        let Taken::Claim(mut claim) = hold(self, channel, &folders, &found.name, envelope)? else {
            return Ok(None);
        };
        self.hold(&channel.agent, &folders, std::slice::from_ref(&claim))?;
        let refused = match claim.reach(PATIENCE) {
            Ok(true) => return Ok(Some(claim)),
            Err(Error::Fenced(_)) => return Ok(None),
            Ok(false) => Error::Busy { agent: channel.agent.clone(), id: claim.id().clone() },
            Err(error) => error,
        };
        // Nobody has seen it: the same attempt.
        match folders.put_back(&claim.name) {
            Err(Error::Disk(error)) if error.is_not_found() => Ok(None),
            put_back => put_back.and(Err(refused)),
        }
    }

    /// Copy first, original second. False if the original was somewhere else by then.
    fn forward_from(
        &self,
        channel: &Channel,
        state: State,
        name: &Name,
        (to, by, copy): (&AgentId, &Sender, &EnvelopeId),
    ) -> Result<bool> {
        let next = transition(state, Event::Forward)?;
        let from = channel.dir(state)?;
        let file = name.to_string();
        let Some(original) = read_named(&channel.agent, (state, &from), name, &file)? else {
            return Ok(false);
        };
        self.send_once(&passed_on(&original, copy, to, by)?, copy.clone(), to)?;
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
        let why = format!("to {to} as {copy}");
        let told = Told { from: Some(by), generation: Some(generation), reason: Some(&why), cause: None };
        self.moved(&channel.agent, &done, next, told);
        Ok(true)
    }
}

/// The same words from other hands. What was said about the sender's proof, or to one incarnation, is not passed on.
fn passed_on(original: &Envelope, id: &EnvelopeId, to: &AgentId, by: &Sender) -> Result<Envelope> {
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
    Ok(copy)
}
