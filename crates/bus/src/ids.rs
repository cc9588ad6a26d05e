//! Chosen ids: an id that a sender repeats places one envelope, whatever died in between.
//!
//! `ids/<id>` is created exclusively, locked from its creation until the envelope is placed, and holds the envelope's
//! final file name, durable before the envelope is. `ids/<id>.done`, made durable after the envelope, always means
//! *duplicate*; where it could not be written, the envelope itself is looked for. Neither is ever removed by a sender; what
//! retention forgets it removes under the same lock, and whoever waited for that takes the entry anew.

use std::time::Duration;

use netsky_disk::fs::{Dir, Place, write_durable};
use netsky_disk::lock::Lock;
use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::life::{MAX_ATTEMPTS, STATES, State};
use netsky_model::name::{Key, Name, Stage};

use crate::bus::{Bus, point};
use crate::channel::Channel;
use crate::error::{Error, Result};

/// How long a sender waits for another one of the same id: a placement is two syncs, so this is a stuck disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most bytes of an id's entry: a name.
const ENTRY: u64 = 256;

/// What an id's entry says.
pub(crate) enum Reserved {
    /// It was sent and is durable.
    Done,
    /// It is ours to place.
    Open(Reservation),
}

/// The right to place the envelope of one id, under one name, while this is held.
pub(crate) struct Reservation {
    pub(crate) name: Name,
    /// A former holder had this name already and may have placed it.
    pub(crate) was_interrupted: bool,
    id: EnvelopeId,
    _lock: Lock,
}

impl Reservation {
    /// Whether an envelope of that id was sent and is durable; its `.done` is looked at without the lock.
    pub(crate) fn is_done(channel: &Channel, id: &EnvelopeId) -> Result<bool> {
        Ok(channel.ids()?.exists(done(id))?)
    }

    /// Takes the entry of an id.
    pub(crate) fn take(bus: &Bus<'_>, channel: &Channel, id: &EnvelopeId) -> Result<Reserved> {
        let ids = channel.ids()?;
        let path = ids.path().join(id.as_str());
        let mut lock = loop {
            let Some(lock) = Lock::take_within(&path, PATIENCE)? else {
                return Err(Error::Sending(id.clone()));
            };
            // An id that was forgotten while we waited for its lock is taken anew.
            if lock.has_its_name()? {
                break lock;
            }
        };
        point("bus.ids.locked");
        if ids.exists(done(id))? {
            return Ok(Reserved::Done);
        }
        let former = name_in(&lock.content()?, id);
        let was_interrupted = former.is_some();
        let name = match former {
            Some(name) => {
                // It may have died before its syncs, or they failed, of which no second one makes good: without its entry
                // the envelope would be placed again under another name. So it is written anew.
                lock.renew(&channel.tmp()?, &ids, entry(&name).as_bytes())?;
                name
            }
            None => {
                let name = Name::fresh(Key { hlc: bus.next_hlc()?, id: id.clone() });
                lock.keep(entry(&name).as_bytes())?;
                name
            }
        };
        ids.sync()?;
        point("bus.ids.reserved");
        Ok(Reserved::Open(Reservation { name, was_interrupted, id: id.clone(), _lock: lock }))
    }

    /// Says for ever that the envelope of this id is placed. Where that cannot be written a repeat has to look for it.
    pub(crate) fn finish(self, channel: &Channel) {
        let write = || -> Result<()> {
            Ok(write_durable(&channel.tmp()?, &channel.ids()?, &done(&self.id), b"", Place::Over)?)
        };
        // The envelope is durable, whatever becomes of this.
        let _ = write();
        point("bus.ids.done");
    }
}

/// What an id's entry says: the name that its envelope has, or gets.
fn entry(name: &Name) -> String {
    format!("{name}\n")
}

pub(crate) fn done(id: &EnvelopeId) -> String {
    format!("{id}.done")
}

/// The name a former holder wrote; none if it died before all of it was written.
fn name_in(bytes: &[u8], id: &EnvelopeId) -> Option<Name> {
    let name = Name::parse(std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?)?;
    (name.stage == Stage::Waiting && name.attempt == 1 && name.key.id == *id).then_some(name)
}

impl Bus<'_> {
    /// Whether an envelope of a derived id was placed and nobody has been shown it since: it lies in the inbox, or somebody has
    /// just claimed it.
    ///
    /// # Errors
    /// The mailbox cannot be looked at.
    pub fn waits(&self, agent: &AgentId, id: &EnvelopeId) -> Result<bool> {
        let channel = match self.channel(agent) {
            Err(Error::NoChannel(_)) => return Ok(false),
            opened => opened?,
        };
        let read = channel.ids()?.read(id.as_str(), ENTRY);
        let Some(first) = read.ok().and_then(|bytes| name_in(&bytes, id)) else { return Ok(false) };
        let inbox = channel.dir(State::Written)?;
        let lies = || -> Result<bool> {
            let mut name = first.clone();
            for _ in 0..=MAX_ATTEMPTS {
                if inbox.exists(name.to_string())? {
                    return Ok(true);
                }
                name = name.given_back();
            }
            Ok(false)
        };
        if lies()? {
            return Ok(true);
        }
        let mut there = false;
        channel.dir(State::Claimed)?.each_name(|file| {
            there |= file.to_str().and_then(Name::parse).is_some_and(|held| held.key.id == *id);
        })?;
        // What went back meanwhile is found the second time.
        Ok(there || lies()?)
    }

    /// In which folder an envelope of that id is, if one was ever placed and is not forgotten.
    ///
    /// Looks twice: between two folders of one look it may have moved back to one that was looked into already.
    pub(crate) fn whereabouts(&self, channel: &Channel, id: &EnvelopeId) -> Result<Option<State>> {
        let mut dirs: Vec<(State, Dir)> = Vec::new();
        for state in STATES {
            dirs.extend(channel.dir_if_there(state)?.map(|dir| (state, dir)));
        }
        for (state, dir) in dirs.iter().chain(&dirs) {
            let mut there = false;
            dir.each_name(|file| {
                there |= file.to_str().and_then(Name::parse).is_some_and(|name| name.key.id == *id);
            })?;
            if there {
                return Ok(Some(*state));
            }
        }
        Ok(None)
    }
}
