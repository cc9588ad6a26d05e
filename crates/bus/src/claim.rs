//! `claim` and `surface`: how one process, and only one, puts an envelope before its agent.
//!
//! A claim is a rename into `claimed/` under the claimant's own identity; whoever loses the race finds nothing and goes
//! on. The attempt is durable before any text is shown, so a reader that kills its machine is counted too.
//!
//! A claimant may be paused for any time, and its claim may be taken from it meanwhile. So before it shows anything it
//! takes hold of the file itself and looks whether it still has the claim's name, and it holds it until the end is
//! recorded; whoever takes a claim away needs the same hold. What comes too late finds nothing, and shows nothing.

use std::collections::HashSet;
use std::io;
use std::rc::Rc;
use std::slice;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::lock::{Hold, Seized};
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, EnvelopeId, Generation, Sender};
use netsky_model::life::{Cause, Event, State, transition};
use netsky_model::name::{Name, Stage};
use netsky_model::render;
use serde_json::Map;

use crate::bus::{Bus, Told, point};
use crate::error::{Error, Result};
use crate::kept::Behind;
use crate::poison::bury_copy;
use crate::queue::{Aside, Folders, Passed, Queue, Taken};

/// How long a claimant waits for who has reached for its claim: a move takes milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// What a reader has passed by in an inbox, for as long as it takes nothing from it in order.
#[derive(Default)]
pub struct PassedBy {
    files: Passed,
    senders: HashSet<Sender>,
}

/// An envelope that this process holds. Dropped, it stays held until the process ends, and then returns to the inbox.
#[derive(Debug)]
pub struct Claim {
    pub(crate) agent: AgentId,
    pub(crate) name: Name,
    pub(crate) envelope: Envelope,
    vouched: bool,
    /// Where it was claimed, held open: to be put back it must need nothing that may have run out.
    pub(crate) folders: Rc<Folders>,
    hold: Option<Hold>,
}

impl Claim {
    pub(crate) fn new(
        agent: &AgentId,
        name: Name,
        envelope: Envelope,
        vouched: bool,
        folders: &Rc<Folders>,
    ) -> Claim {
        Claim { agent: agent.clone(), name, envelope, vouched, folders: Rc::clone(folders), hold: None }
    }

    /// The message; its id is there even where the file had none.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// The envelope's identity.
    pub fn id(&self) -> &EnvelopeId {
        &self.name.key.id
    }

    /// Which surfacing this is, 1 for the first.
    pub fn attempt(&self) -> u32 {
        self.name.attempt
    }

    /// Whether the home vouches for who sent it.
    pub fn is_vouched(&self) -> bool {
        self.vouched
    }

    /// What marks all that works on it; no other claim has ever the same.
    pub fn mark(&self) -> String {
        self.name.to_string()
    }

    /// The one element that an agent is shown.
    pub fn rendered(&self) -> String {
        render::channel(&self.envelope, self.name.attempt, self.vouched)
    }

    /// Lets go of what it says; who sent it and where it is stay.
    fn forget_content(&mut self) {
        self.envelope.text = String::new();
        self.envelope.extra = Map::new();
    }

    fn told(&self, generation: Generation) -> Told<'_> {
        Told { from: Some(&self.envelope.from), generation: Some(generation), ..Told::default() }
    }

    /// Makes the claim one that nobody takes away.
    fn fence(&mut self, claimed: &Dir) -> Result<()> {
        // Who releases it may end, or fail, before its move: then it is still ours, and nobody else would show it.
        if self.reach_in(claimed, PATIENCE)? { Ok(()) } else { Err(Error::Fenced(self.id().clone())) }
    }

    /// The same, waiting at most `limit`; false while another process has it in its hands, which may end before it takes
    /// the claim away.
    pub(crate) fn reach(&mut self, limit: Duration) -> Result<bool> {
        let folders = Rc::clone(&self.folders);
        self.reach_in(&folders.claimed, limit)
    }

    fn reach_in(&mut self, claimed: &Dir, limit: Duration) -> Result<bool> {
        if self.hold.is_none() {
            self.hold = match Hold::take_within(claimed, &self.name.to_string(), limit)? {
                Seized::Held(hold) => Some(hold),
                Seized::Busy => return Ok(false),
                Seized::Gone => return Err(Error::Fenced(self.id().clone())),
            };
        }
        Ok(true)
    }
}

/// What one look into an inbox yielded.
#[derive(Debug, Default)]
pub struct Batch {
    /// Held now, in order.
    pub claims: Vec<Claim>,
    /// What was met and is not held.
    pub aside: Aside,
    /// How many files of the inbox were not looked at.
    pub left_out: usize,
    /// What ended the look before its time.
    pub ended: Option<Error>,
}

/// What one drain did.
#[derive(Debug, Default)]
pub struct Drained {
    /// How many were put before the agent.
    pub surfaced: usize,
    /// What was met and is not held.
    pub aside: Aside,
}

/// What became of a message that was put before its reader.
#[derive(Debug)]
pub enum Put {
    /// It was taken.
    Taken,
    /// It was taken and dealt with: if it asks for an ack, this is it to a consumer whose terms say so.
    Finished,
    /// The reader did not take it and did this instead, said as what follows on "its reader"; the next one may fare better.
    Refused(String),
    /// No reader can be given anything any more; this one may have seen it.
    Broken(io::Error),
    /// No reader can be given anything, and none has seen it: it waits as it did, however often that happens.
    Unread(io::Error),
    /// It was taken from the reader, because we were asked to end. It comes again flagged, and never becomes a dead letter
    /// of that.
    Stopped,
}

impl From<io::Result<()>> for Put {
    /// Nothing tells how much of a text whose writing failed was seen.
    fn from(written: io::Result<()>) -> Put {
        written.map_or_else(Put::Broken, |()| Put::Taken)
    }
}

impl Bus<'_> {
    /// Takes up to `max` envelopes of the agent, oldest first, for the generation `taker`. What dead owners held returns to
    /// the inbox before; what was meant for a later generation waits on, for an earlier one it is a dead letter.
    ///
    /// # Errors
    /// What the file system refuses at the first one, or when they are made durable: what was taken waits as it did. What
    /// meets a later one ends the look, and those before it are the answer, with it.
    pub fn claim(&self, agent: &AgentId, max: usize, taker: Generation) -> Result<Batch> {
        self.claim_while((agent, max, taker), |_, claim, _| Ok(Some(claim)), |_| true)
    }

    /// As [`Bus::claim`], of messages of any size: each is given to `keep` once, which says whether there is room for one
    /// more, and the claims that are returned hold neither texts nor unknown keys. What another process has in its hands is
    /// passed by, with what its sender sent after it. What `keep` made of the others is shown by [`Bus::surface_all`].
    ///
    /// # Errors
    /// As [`Bus::claim`].
    pub fn claim_into(
        &self,
        agent: &AgentId,
        max: usize,
        taker: Generation,
        mut keep: impl FnMut(&Claim) -> bool,
    ) -> Result<Batch> {
        let reach = |behind: &mut Behind, claim, aside: &mut _| behind.reach(self, claim, aside);
        self.claim_while((agent, max, taker), reach, |claim| {
            let has_room = keep(claim);
            claim.forget_content();
            has_room
        })
    }

    /// Takes the oldest envelope that `fits`, past those that do not. What its sender sent before it comes first, whatever
    /// that is. What was `passed_by` is not read again.
    ///
    /// # Errors
    /// As [`Bus::claim`].
    pub fn claim_first(
        &self,
        agent: &AgentId,
        taker: Generation,
        passed_by: &mut PassedBy,
        fits: impl Fn(&Envelope) -> bool,
    ) -> Result<Option<Claim>> {
        let channel = self.channel(agent)?;
        let mut queue = Queue::open(self, &channel, taker)?;
        let mut aside = Aside::default();
        loop {
            let PassedBy { files, senders } = &mut *passed_by;
            let waits = |envelope: &Envelope| {
                let waits = !fits(envelope) || senders.contains(&envelope.from);
                if waits {
                    senders.insert(envelope.from.clone());
                }
                waits
            };
            let claim = match queue.take_next_but(|file| files.contains(file), waits)? {
                None => return Ok(None),
                Some(Taken::Behind(file) | Taken::Early(file)) => {
                    files.insert(file.into());
                    continue;
                }
                Some(taken) => aside.sort(taken),
            };
            let Some(claim) = claim else { continue };
            self.hold(agent, &queue.folders, std::slice::from_ref(&claim))?;
            return Ok(Some(claim));
        }
    }

    fn claim_while(
        &self,
        (agent, max, taker): (&AgentId, usize, Generation),
        reach: impl Fn(&mut Behind, Claim, &mut Aside) -> Result<Option<Claim>>,
        mut goes_on: impl FnMut(&mut Claim) -> bool,
    ) -> Result<Batch> {
        let channel = self.channel(agent)?;
        let mut queue = Queue::open(self, &channel, taker)?;
        let (mut batch, mut behind) = (Batch::default(), Behind::default());
        let mut has_room = true;
        while has_room && batch.claims.len() < max {
            match behind.next(&mut queue, &mut batch.aside, &reach) {
                Ok(Some(mut claim)) => {
                    has_room = goes_on(&mut claim);
                    batch.claims.push(claim);
                }
                Ok(None) => break,
                Err(error) if batch.claims.is_empty() => return Err(error),
                // What was taken before is good.
                Err(error) => {
                    batch.ended = Some(error);
                    break;
                }
            }
        }
        if !batch.claims.is_empty() {
            self.hold(agent, &queue.folders, &batch.claims)?;
        }
        batch.left_out = queue.left();
        Ok(batch)
    }

    /// Puts everything that waits (at most `max`) before the agent, one after the other, oldest first.
    ///
    /// One claim at a time: a message that kills its reader must not count against those behind it. What another process
    /// has in its hands is passed by and waits as it did, and so does what its sender sent after it.
    ///
    /// # Errors
    /// A failed `put` or what the file system refuses; what was surfaced before is recorded, the rest waits.
    pub fn drain<R>(
        &self,
        agent: &AgentId,
        max: usize,
        generation: Generation,
        mut put: impl FnMut(&Claim) -> R,
    ) -> Result<Drained>
    where
        Put: From<R>,
    {
        let channel = self.channel(agent)?;
        let mut queue = Queue::open(self, &channel, generation)?;
        let (mut drained, mut behind) = (Drained::default(), Behind::default());
        while drained.surfaced < max {
            let next = behind.next(&mut queue, &mut drained.aside, |behind, claim, aside| {
                self.hold(agent, &claim.folders, std::slice::from_ref(&claim))?;
                behind.reach(self, claim, aside)
            });
            let Some(claim) = next? else { break };
            self.surface(claim, generation, &mut put)?;
            drained.surfaced += 1;
        }
        Ok(drained)
    }

    /// Makes claims durable, so that their attempts count; on failure they wait again as they did.
    pub(crate) fn hold(&self, agent: &AgentId, folders: &Folders, claims: &[Claim]) -> Result<()> {
        if let Err(error) = folders.claimed.sync() {
            claims.iter().map(|claim| folders.put_back(&claim.name)).fold(Ok(()), Result::and)?;
            return Err(error.into());
        }
        point("bus.claim.synced");
        for claim in claims {
            let told = Told { from: Some(&claim.envelope.from), ..Told::default() };
            self.moved(agent, &claim.name, State::Claimed, told);
        }
        Ok(())
    }

    /// As [`Bus::surface`], of claims that `put` shows together, all or none. What became of `put` is answered.
    ///
    /// # Errors
    /// One of them was taken from this process, or what the file system refuses before `put`: none was shown, and all that
    /// are ours wait as they did. After it, the first of them that could not be recorded; the others are.
    pub fn surface_all(
        &self,
        agent: &AgentId,
        mut claims: Vec<Claim>,
        generation: Generation,
        put: impl FnOnce() -> Put,
    ) -> Result<Put> {
        if claims.is_empty() {
            return Ok(put());
        }
        let (claimed, delivered) = self.made_ready(agent, &mut claims, false)?;
        let put = put();
        match &put {
            Put::Taken | Put::Finished => each(claims, |claim| {
                self.surfaced(&claim.agent, &claim.name, claim.told(generation));
                self.record(&claim, generation, &claimed, &delivered)
            })?,
            Put::Unread(_) => each(claims, |claim| self.put_back(claim))?,
            Put::Broken(_) | Put::Refused(_) | Put::Stopped => each(claims, |claim| self.release(claim))?,
        }
        Ok(put)
    }

    /// Puts a claim before its agent by `put`, and records it as delivered.
    ///
    /// `put` must have flushed when it returns; if it fails the envelope goes back to the inbox with one attempt more.
    ///
    /// # Errors
    /// A claim that was taken from this process, a failed `put`, or what the file system refuses. Where `put` was not called
    /// the envelope waits as it did. After a successful `put` the envelope may be surfaced again by a later process, flagged as a repeat.
    pub fn surface<R>(
        &self,
        claim: Claim,
        generation: Generation,
        put: impl FnOnce(&Claim) -> R,
    ) -> Result<()>
    where
        Put: From<R>,
    {
        let id = claim.id().clone();
        match self.put_before(claim, (generation, false), |claim| Put::from(put(claim)))? {
            Put::Broken(source) => Err(Error::Surface { id, source }),
            Put::Unread(source) => Err(Error::Unread { id, source }),
            Put::Taken | Put::Finished | Put::Refused(_) | Put::Stopped => Ok(()),
        }
    }

    /// Puts a claim before a reader, and moves it to where that left it: where that `acks`, to its end.
    pub(crate) fn put_before(
        &self,
        mut claim: Claim,
        (generation, acks): (Generation, bool),
        put: impl FnOnce(&Claim) -> Put,
    ) -> Result<Put> {
        let agent = claim.agent.clone();
        let (claimed, delivered) = self.made_ready(&agent, slice::from_mut(&mut claim), acks)?;
        let put = put(&claim);
        match &put {
            Put::Taken | Put::Finished => {
                point("bus.surface.put");
                self.surfaced(&claim.agent, &claim.name, claim.told(generation));
                self.record(&claim, generation, &claimed, &delivered)?;
                if acks {
                    self.acked(&claim, generation, &put)?;
                }
            }
            Put::Unread(_) => self.put_back(claim)?,
            Put::Stopped => self.give_back(claim, Cause::Stopped, "its reader was asked to end")?,
            Put::Refused(why) => self.give_back(claim, Cause::Failed, &format!("its reader {why}"))?,
            Put::Broken(error) => {
                self.give_back(claim, Cause::Failed, &format!("its reader failed: {error}"))?
            }
        }
        Ok(put)
    }

    /// Has what the record of a surfacing needs, and the fence: running out of descriptors must not cost a repeat. Where
    /// something of that is missing, all that are ours wait as they did.
    fn made_ready(&self, agent: &AgentId, claims: &mut [Claim], acks: bool) -> Result<(Dir, Dir)> {
        let folders = self.fenced(agent, claims, acks);
        if folders.is_err() {
            for claim in claims {
                // Nobody has seen it: the same attempt. What was taken from us is not there to be put back.
                let _ = self.back(claim);
            }
        }
        folders
    }

    fn fenced(&self, agent: &AgentId, claims: &mut [Claim], acks: bool) -> Result<(Dir, Dir)> {
        let channel = self.channel(agent)?;
        let (claimed, delivered) = (channel.dir(State::Claimed)?, channel.dir(State::Delivered)?);
        // What cannot be recorded, or acked, would be shown again until it is a dead letter.
        delivered.lets_change()?;
        if acks {
            channel.dir(State::Acked)?.lets_change()?;
        }
        point("bus.surface.begin");
        claims.iter_mut().try_for_each(|claim| claim.fence(&claimed))?;
        point("bus.surface.fenced");
        Ok((claimed, delivered))
    }

    /// Records a claim whose text was put before its agent: the move to `delivered/`, durable.
    fn record(&self, claim: &Claim, generation: Generation, claimed: &Dir, delivered: &Dir) -> Result<()> {
        let to = transition(State::Claimed, Event::Surface)?;
        let name = claim.name.to(Stage::Taken(generation));
        match claimed.rename(claim.name.to_string(), delivered, name.to_string()) {
            Ok(()) => {}
            Err(error) if error.is_not_found() => return Err(Error::ClaimLost(claim.id().clone())),
            Err(error) if error.is_exists() => {
                bury_copy(&self.channel(&claim.agent)?, claimed, &claim.name)?;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        point("bus.deliver.renamed");
        delivered.sync()?;
        point("bus.deliver.synced");
        self.moved(&claim.agent, &name, to, claim.told(generation));
        Ok(())
    }

    /// Acks what was recorded, if its reader has dealt with it. Before this it is delivered: whoever dies here leaves it to
    /// come again, flagged.
    fn acked(&self, claim: &Claim, generation: Generation, put: &Put) -> Result<()> {
        if matches!(put, Put::Finished) {
            self.ack_delivered(&claim.agent, &claim.name.to(Stage::Taken(generation)))?;
        }
        Ok(())
    }

    /// Puts a claim back that was never shown: the same attempt again.
    ///
    /// # Errors
    /// What the file system refuses; the claim then ends with this process.
    pub fn put_back(&self, claim: Claim) -> Result<()> {
        self.back(&claim)
    }

    fn back(&self, claim: &Claim) -> Result<()> {
        claim.folders.put_back(&claim.name)?;
        Ok(claim.folders.inbox.sync()?)
    }

    /// Gives a claim back to the inbox with one attempt more, or to `poison/` when that was the last one.
    ///
    /// # Errors
    /// What the file system refuses; the claim then ends with this process.
    pub fn release(&self, claim: Claim) -> Result<()> {
        self.give_back(claim, Cause::Failed, "its reader could not be given the text")
    }

    fn give_back(&self, claim: Claim, cause: Cause, why: &str) -> Result<()> {
        let channel = self.channel(&claim.agent)?;
        let claimed = channel.dir(State::Claimed)?;
        let mut way_back = self.way_back(&channel)?;
        way_back.take(&claimed, State::Claimed, &claim.name, (cause, why))?;
        way_back.end()?;
        Ok(())
    }
}

/// Ends each of them that can be; the first error.
fn each(claims: Vec<Claim>, end: impl FnMut(Claim) -> Result<()>) -> Result<()> {
    claims.into_iter().map(end).fold(Ok(()), Result::and)
}
