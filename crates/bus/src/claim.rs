//! `claim` and `surface`: how one process, and only one, puts an envelope before its agent.
//!
//! A claim is a rename into `claimed/` under the claimant's own identity; whoever loses the race finds nothing and goes
//! on. The attempt is durable before any text is shown, so a reader that kills its machine is counted too. A file is
//! read before it is claimed: what is no envelope, or not ours to judge, is never held, and stops none behind it.

use std::ffi::OsStr;
use std::io;

use netsky_disk::ReadError;
use netsky_disk::fs::Dir;
use netsky_disk::process;
use netsky_model::envelope::{Envelope, Invalid, MAX_BYTES};
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use netsky_model::life::{Cause, Event, State, transition};
use netsky_model::name::{Name, Stage};
use netsky_model::render;

use crate::bus::{Bus, Told, point};
use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::poison::{Quarantined, bury_copy};

/// An envelope that this process holds. Dropped, it stays held until the process ends, and then returns to the inbox.
#[derive(Debug)]
pub struct Claim {
    agent: AgentId,
    name: Name,
    envelope: Envelope,
}

impl Claim {
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

    /// The one element that an agent is shown.
    pub fn rendered(&self) -> String {
        render::channel(&self.envelope, self.name.attempt, false)
    }

    fn told(&self, generation: Generation) -> Told<'_> {
        Told { from: Some(&self.envelope.from), generation: Some(generation), ..Told::default() }
    }
}

/// What one look into an inbox yielded.
#[derive(Debug, Default)]
pub struct Batch {
    /// Held now, in order.
    pub claims: Vec<Claim>,
    /// What was no envelope and went to `poison/`.
    pub quarantined: Vec<Quarantined>,
    /// Files of a newer format, left where they are.
    pub newer: Vec<String>,
    /// What could be neither read nor moved and still waits.
    pub skipped: Vec<netsky_disk::Error>,
}

/// What one drain did.
#[derive(Debug, Default)]
pub struct Drained {
    /// How many were put before the agent.
    pub surfaced: usize,
    /// What was no envelope and went to `poison/`.
    pub quarantined: Vec<Quarantined>,
    /// Files of a newer format, left where they are.
    pub newer: Vec<String>,
    /// What could be neither read nor moved and still waits.
    pub skipped: Vec<netsky_disk::Error>,
}

/// What a drain would do with a file, seen without touching it.
pub(crate) enum Sight {
    /// Take it out of the inbox: to its agent, or aside.
    Takable,
    /// Leave it to a newer program.
    Newer,
    /// Pass it by, or not find it.
    Stuck,
}

/// Looks at one file of an inbox.
pub(crate) fn sight(inbox: &Dir, file: &OsStr) -> Result<Sight> {
    let Some(name) = waiting(file) else {
        return Ok(if inbox.is_movable(file)? { Sight::Takable } else { Sight::Stuck });
    };
    match inbox.read(file, MAX_BYTES as u64) {
        Ok(bytes) => match read_as(&name, &bytes) {
            Err(Refused::Newer) => Ok(Sight::Newer),
            _ => Ok(Sight::Takable),
        },
        Err(ReadError::Io(error)) if error.is_not_found() => Ok(Sight::Stuck),
        Err(ReadError::Io(error)) if !error.is_denied() && error.is_of_one_file() => Ok(Sight::Stuck),
        Err(ReadError::Io(error)) if !error.is_denied() => Err(error.into()),
        Err(_) => Ok(if inbox.is_movable(file)? { Sight::Takable } else { Sight::Stuck }),
    }
}

/// The name of a file that waits; none if it is not one of the bus.
fn waiting(file: &OsStr) -> Option<Name> {
    file.to_str().and_then(Name::parse).filter(|name| name.stage == Stage::Waiting)
}

/// What became of one file of the inbox.
#[expect(clippy::large_enum_variant, reason = "lives for one step and is moved once")]
enum Taken {
    Claim(Claim),
    Quarantined(Quarantined),
    Newer,
    /// The system refuses this one file.
    Skipped(netsky_disk::Error),
    /// Another process was faster.
    Gone,
}

impl Bus<'_> {
    /// Takes up to `max` envelopes of the agent, oldest first. What dead owners held returns to the inbox before.
    ///
    /// # Errors
    /// What the file system refuses; what was taken up to then was put back as it was.
    pub fn claim(&self, agent: &AgentId, max: usize) -> Result<Batch> {
        let channel = self.channel(agent)?;
        self.return_dead_claims(agent)?;
        channel.sweep();
        let folders = Folders::open(&channel)?;
        let mut batch = Batch::default();
        for file in folders.inbox.settled_names()? {
            if batch.claims.len() >= max {
                break;
            }
            match self.take(&channel, &folders, &file) {
                Ok(Taken::Claim(claim)) => batch.claims.push(claim),
                Ok(Taken::Quarantined(what)) => batch.quarantined.push(what),
                Ok(Taken::Newer) => batch.newer.push(file.to_string_lossy().into_owned()),
                Ok(Taken::Skipped(error)) => batch.skipped.push(error),
                Ok(Taken::Gone) => {}
                // What was taken before is good; the same trouble meets the next look.
                Err(error) if batch.claims.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        if batch.claims.is_empty() {
            return Ok(batch);
        }
        self.hold(agent, &folders, &batch.claims)?;
        Ok(batch)
    }

    /// Takes one file. Trouble that is its own must not stop those behind it; the machine's ends the look.
    fn take(&self, channel: &Channel, folders: &Folders, file: &OsStr) -> Result<Taken> {
        match self.judge(channel, folders, file) {
            Err(Error::Disk(error)) if error.is_of_one_file() => Ok(Taken::Skipped(error)),
            judged => judged,
        }
    }

    fn judge(&self, channel: &Channel, folders: &Folders, file: &OsStr) -> Result<Taken> {
        let waiting = waiting(file);
        let read = match &waiting {
            None => Err(Refused::Damaged("its name is not one of the bus".to_owned())),
            Some(name) => match folders.inbox.read(file, MAX_BYTES as u64) {
                // Nobody changes a file in an inbox: what is read here is what is held below.
                Ok(bytes) => read_as(name, &bytes).map(|envelope| (name, envelope)),
                Err(ReadError::Io(error)) if error.is_not_found() => return Ok(Taken::Gone),
                Err(ReadError::Io(error)) if !error.is_denied() => return Err(error.into()),
                Err(other) => Err(Refused::Damaged(other.to_string())),
            },
        };
        match read {
            Ok((name, envelope)) => Bus::hold_one(channel, folders, name, envelope),
            Err(Refused::Newer) => Ok(Taken::Newer),
            Err(Refused::Damaged(why)) => {
                let quarantined = self.quarantine(channel, &folders.inbox, State::Written, file, &why)?;
                Ok(quarantined.map_or(Taken::Gone, Taken::Quarantined))
            }
        }
    }

    fn hold_one(channel: &Channel, folders: &Folders, waiting: &Name, envelope: Envelope) -> Result<Taken> {
        transition(State::Written, Event::Claim)?;
        let mine = waiting.to(Stage::Claimed(process::identity()?));
        match folders.inbox.rename(waiting.to_string(), &folders.claimed, mine.to_string()) {
            Ok(()) => {}
            Err(error) if error.is_not_found() => return Ok(Taken::Gone),
            Err(error) if error.is_exists() => {
                let copy = bury_copy(channel, &folders.inbox, waiting)?;
                return Ok(copy.map_or(Taken::Gone, Taken::Quarantined));
            }
            Err(error) => return Err(error.into()),
        }
        point("bus.claim.renamed");
        Ok(Taken::Claim(Claim { agent: channel.agent.clone(), name: mine, envelope }))
    }

    /// Puts a claim before its agent by `put`, and records it as delivered.
    ///
    /// `put` must have flushed when it returns; if it fails the envelope goes back to the inbox with one attempt more.
    ///
    /// # Errors
    /// A failed `put`, or what the file system refuses. After a successful `put` the envelope may be surfaced again by
    /// a later process, flagged as a repeat.
    pub fn surface(
        &self,
        claim: Claim,
        generation: Generation,
        put: impl FnOnce(&Claim) -> io::Result<()>,
    ) -> Result<()> {
        // Opened before anything is shown: running out of descriptors must not cost a repeat.
        let channel = self.channel(&claim.agent)?;
        let (claimed, delivered) = (channel.dir(State::Claimed)?, channel.dir(State::Delivered)?);
        point("bus.surface.begin");
        if let Err(source) = put(&claim) {
            let id = claim.id().clone();
            self.release(claim)?;
            return Err(Error::Surface { id, source });
        }
        point("bus.surface.put");
        self.surfaced(&claim.agent, &claim.name, claim.told(generation));
        self.record(&claim, generation, &claimed, &delivered)
    }

    /// Records a claim whose text was put before its agent: the move to `delivered/`, durable.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn deliver(&self, claim: Claim, generation: Generation) -> Result<()> {
        let channel = self.channel(&claim.agent)?;
        self.surfaced(&claim.agent, &claim.name, claim.told(generation));
        self.record(&claim, generation, &channel.dir(State::Claimed)?, &channel.dir(State::Delivered)?)
    }

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

    /// Puts everything that waits (at most `max`) before the agent, one after the other, oldest first.
    ///
    /// One claim at a time: a message that kills its reader must not count against those behind it.
    ///
    /// # Errors
    /// A failed `put` or what the file system refuses; what was surfaced before is recorded, the rest waits.
    pub fn drain(
        &self,
        agent: &AgentId,
        max: usize,
        generation: Generation,
        mut put: impl FnMut(&Claim) -> io::Result<()>,
    ) -> Result<Drained> {
        let channel = self.channel(agent)?;
        self.return_dead_claims(agent)?;
        channel.sweep();
        let folders = Folders::open(&channel)?;
        let mut drained = Drained::default();
        for file in folders.inbox.settled_names()? {
            if drained.surfaced >= max {
                break;
            }
            match self.take(&channel, &folders, &file)? {
                Taken::Claim(claim) => {
                    self.hold(agent, &folders, std::slice::from_ref(&claim))?;
                    self.surface(claim, generation, &mut put)?;
                    drained.surfaced += 1;
                }
                Taken::Quarantined(what) => drained.quarantined.push(what),
                Taken::Newer => drained.newer.push(file.to_string_lossy().into_owned()),
                Taken::Skipped(error) => drained.skipped.push(error),
                Taken::Gone => {}
            }
        }
        Ok(drained)
    }

    /// Makes claims durable, so that their attempts count; on failure they wait again as they did.
    fn hold(&self, agent: &AgentId, folders: &Folders, claims: &[Claim]) -> Result<()> {
        if let Err(error) = folders.claimed.sync() {
            for claim in claims {
                folders.put_back(&claim.name)?;
            }
            return Err(error.into());
        }
        point("bus.claim.synced");
        for claim in claims {
            let told = Told { from: Some(&claim.envelope.from), ..Told::default() };
            self.moved(agent, &claim.name, State::Claimed, told);
        }
        Ok(())
    }

    /// Puts a claim back that was never shown: the same attempt again.
    ///
    /// # Errors
    /// What the file system refuses; the claim then ends with this process.
    pub fn put_back(&self, claim: Claim) -> Result<()> {
        let channel = self.channel(&claim.agent)?;
        let folders = Folders::open(&channel)?;
        folders.put_back(&claim.name)?;
        Ok(folders.inbox.sync()?)
    }

    /// Gives a claim back to the inbox with one attempt more, or to `poison/` when that was the last one.
    ///
    /// # Errors
    /// What the file system refuses; the claim then ends with this process.
    pub fn release(&self, claim: Claim) -> Result<()> {
        let channel = self.channel(&claim.agent)?;
        let claimed = channel.dir(State::Claimed)?;
        let mut way_back = self.way_back(&channel)?;
        way_back.take(
            &claimed,
            State::Claimed,
            &claim.name,
            (Cause::Failed, "its reader could not be given the text"),
        )?;
        way_back.end()?;
        Ok(())
    }
}

/// The two folders of a claim.
struct Folders {
    inbox: Dir,
    claimed: Dir,
}

impl Folders {
    fn open(channel: &Channel) -> Result<Folders> {
        Ok(Folders { inbox: channel.dir(State::Written)?, claimed: channel.dir(State::Claimed)? })
    }

    /// Undoes a claim that led to nothing: the same name, the same attempt.
    fn put_back(&self, claimed: &Name) -> Result<()> {
        let waiting = claimed.to(Stage::Waiting);
        Ok(self.claimed.rename(claimed.to_string(), &self.inbox, waiting.to_string())?)
    }
}

/// Why a file's bytes are not the envelope its name promises.
enum Refused {
    Newer,
    Damaged(String),
}

fn read_as(name: &Name, bytes: &[u8]) -> std::result::Result<Envelope, Refused> {
    let mut envelope = Envelope::parse(bytes).map_err(|invalid| match invalid {
        Invalid::Newer(_) => Refused::Newer,
        other => Refused::Damaged(other.to_string()),
    })?;
    match &envelope.id {
        Some(id) if *id != name.key.id => {
            Err(Refused::Damaged(format!("it holds envelope {id} under the name of {}", name.key.id)))
        }
        _ => {
            envelope.id = Some(name.key.id.clone());
            Ok(envelope)
        }
    }
}
