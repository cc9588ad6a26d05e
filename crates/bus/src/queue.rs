//! The inbox in the order of its names, and what becomes of each file of it.
//!
//! A look costs what it takes and not what waits: names are read a bounded number at once, contents one at a time. A file
//! is read before it is claimed: what is no envelope, or not ours to judge, is never held, and stops none behind it.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::rc::Rc;

use netsky_disk::fs::Dir;
use netsky_disk::names::Names;
use netsky_disk::{ReadError, process};
use netsky_model::envelope::{Envelope, Invalid, MAX_BYTES};
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use netsky_model::life::{Event, Fit, State, fit, transition};
use netsky_model::name::{Name, Stage};

use crate::bus::{Bus, point};
use crate::channel::Channel;
use crate::claim::Claim;
use crate::error::{Error, Result};
use crate::poison::{Quarantined, bury_copy};

/// Names read at once. Twice as many are held for a moment, which is some 10 MiB of them.
const BATCH: usize = 50_000;

/// Why a file under another name is none of ours, whatever it is.
pub(crate) const MISNAMED: &str = "its name is not one of the bus";

/// What a look keeps to tell of; the rest is counted. A million bombs must not fill the memory of who clears them away.
const TOLD: usize = 100;

/// Files left in an inbox that a reader remembers.
pub(crate) const REMEMBERED: usize = 10_000;

/// What is not for this taker: nobody changes a file, so it need not be read again.
#[derive(Default)]
pub(crate) struct Passed(HashSet<OsString>);

impl Passed {
    pub(crate) fn contains(&self, file: &OsStr) -> bool {
        self.0.contains(file)
    }

    pub(crate) fn insert(&mut self, file: OsString) {
        // Most that were met so long ago are gone; the others are read once more.
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(file);
    }
}

/// The first few of many, and how many there were.
#[derive(Debug)]
pub struct Few<T> {
    first: Vec<T>,
    count: usize,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Few { first: Vec::new(), count: 0 }
    }
}

impl<T> Few<T> {
    pub(crate) fn push(&mut self, one: T) {
        self.count += 1;
        if self.first.len() < TOLD {
            self.first.push(one);
        }
    }

    /// How many there were.
    pub fn count(&self) -> usize {
        self.count
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.first
    }
}

/// A file of a channel that can be neither read nor moved and stays where it is.
#[derive(Debug)]
pub struct Stuck {
    /// Where it stays.
    pub file: PathBuf,
    /// What is in the way: of that file, or of its whole folder.
    pub error: netsky_disk::Error,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

/// What a look into an inbox met and did not hold.
#[derive(Debug, Default)]
pub struct Aside {
    /// What was no envelope and went to `poison/`.
    pub quarantined: Few<Quarantined>,
    /// Files of a newer format, left where they are.
    pub newer: Few<String>,
    /// What could be neither read nor moved and still waits.
    pub skipped: Few<Stuck>,
    /// What other processes have in their hands, and was put back as it was; what its sender sent after it still waits.
    pub busy: Few<EnvelopeId>,
    /// What other processes took away before it was shown; what its sender sent after it still waits.
    pub lost: Few<EnvelopeId>,
}

/// What became of one file of the inbox.
#[expect(clippy::large_enum_variant, reason = "lives for one step and is moved once")]
pub(crate) enum Taken {
    Claim(Claim),
    Quarantined(Quarantined),
    Newer(String),
    /// It waits for a generation to come.
    Early(String),
    /// An older one of its sender comes first.
    Behind(String),
    /// The system refuses this one file.
    Skipped(Stuck),
    /// Another process was faster; or its generation has ended, and it went aside.
    Gone,
}

/// The two folders of a claim.
#[derive(Debug)]
pub(crate) struct Folders {
    pub(crate) inbox: Dir,
    pub(crate) claimed: Dir,
}

impl Folders {
    pub(crate) fn open(channel: &Channel) -> Result<Rc<Folders>> {
        Ok(Rc::new(Folders { inbox: channel.dir(State::Written)?, claimed: channel.dir(State::Claimed)? }))
    }

    /// Undoes a claim that led to nothing: the same name, the same attempt.
    pub(crate) fn put_back(&self, claimed: &Name) -> Result<()> {
        let waiting = claimed.to(Stage::Waiting);
        Ok(self.claimed.rename(claimed.to_string(), &self.inbox, waiting.to_string())?)
    }
}

/// The names of an inbox in their order, a bounded number of them at once.
pub(crate) struct InOrder {
    names: Names,
    next: usize,
}

impl InOrder {
    pub(crate) fn of(inbox: &Dir) -> Result<InOrder> {
        Ok(InOrder { names: inbox.settled_names(None, BATCH)?, next: 0 })
    }

    pub(crate) fn next(&mut self, inbox: &Dir) -> Result<Option<OsString>> {
        if self.next == self.names.len() && self.names.left_out() > 0 {
            let after = self.names.last().map(OsStr::to_owned);
            // Forgotten before the next ones are read: only one batch is held at a time.
            self.names = Names::default();
            self.names = inbox.settled_names(after.as_deref(), BATCH)?;
            self.next = 0;
        }
        let name = self.names.get(self.next).map(OsStr::to_owned);
        self.next += usize::from(name.is_some());
        Ok(name)
    }

    fn left(&self) -> usize {
        self.names.len() - self.next + self.names.left_out()
    }
}

/// One pass over an inbox.
pub(crate) struct Queue<'a> {
    bus: &'a Bus<'a>,
    channel: &'a Channel,
    pub(crate) folders: Rc<Folders>,
    files: InOrder,
    taker: Generation,
    /// What could not go back to the inbox before, not told yet.
    stuck: Vec<Stuck>,
}

impl<'a> Queue<'a> {
    /// Everything that waits now for that generation, in order; what dead owners held is back before.
    pub(crate) fn open(bus: &'a Bus<'a>, channel: &'a Channel, taker: Generation) -> Result<Queue<'a>> {
        let stuck = bus.return_dead_claims(&channel.agent)?.skipped.first;
        channel.sweep();
        let folders = Folders::open(channel)?;
        let files = InOrder::of(&folders.inbox)?;
        Ok(Queue { bus, channel, folders, files, taker, stuck })
    }

    /// Takes the next file, passing by what is known to be not for this taker, which is not read again, and what `waits`:
    /// an older one of its sender comes first, say. None when there is none left.
    pub(crate) fn take_next_but(
        &mut self,
        is_known: impl Fn(&OsStr) -> bool,
        waits: impl FnMut(&Envelope) -> bool,
    ) -> Result<Option<Taken>> {
        if let Some(stuck) = self.stuck.pop() {
            return Ok(Some(Taken::Skipped(stuck)));
        }
        let file = loop {
            match self.files.next(&self.folders.inbox)? {
                Some(file) if is_known(&file) => {}
                Some(file) => break file,
                None => return Ok(None),
            }
        };
        match self.judge(&file, waits) {
            // Trouble that is its own must not stop those behind it; the machine's ends the look.
            Err(Error::Disk(error)) if error.is_of_one_file() => {
                Ok(Some(Taken::Skipped(Stuck { file: self.folders.inbox.path().join(file), error })))
            }
            judged => judged.map(Some),
        }
    }

    /// How many files it has not looked at.
    pub(crate) fn left(&self) -> usize {
        self.files.left()
    }

    fn judge(&self, file: &OsStr, mut waits: impl FnMut(&Envelope) -> bool) -> Result<Taken> {
        let waiting = waiting(file);
        let read = match &waiting {
            None => Err(Refused::Damaged(MISNAMED.to_owned())),
            Some(name) => match read_waiting(&self.folders.inbox, name, file)? {
                // Nobody changes a file in an inbox: what is read here is what is held below.
                Some(read) => read.map(|envelope| (name, envelope)),
                None => return Ok(Taken::Gone),
            },
        };
        match read {
            Ok((name, envelope)) => match fit(envelope.for_generation, self.taker) {
                Fit::Now if waits(&envelope) => Ok(Taken::Behind(file.to_string_lossy().into_owned())),
                Fit::Now => hold(self.bus, self.channel, &self.folders, name, envelope),
                Fit::Early => Ok(Taken::Early(file.to_string_lossy().into_owned())),
                Fit::Late => {
                    // A dead letter with its page, but no damage.
                    let why = format!("meant for a generation before {}", self.taker);
                    self.put_aside(file, &why)?;
                    Ok(Taken::Gone)
                }
            },
            Err(Refused::Newer) => Ok(Taken::Newer(file.to_string_lossy().into_owned())),
            Err(Refused::Damaged(why)) => {
                Ok(self.put_aside(file, &why)?.map_or(Taken::Gone, Taken::Quarantined))
            }
        }
    }

    fn put_aside(&self, file: &OsStr, why: &str) -> Result<Option<Quarantined>> {
        self.bus.quarantine(self.channel, &self.folders.inbox, State::Written, file, why)
    }
}

impl Aside {
    /// Keeps what is not held; the claim, if it is one.
    pub(crate) fn sort(&mut self, taken: Taken) -> Option<Claim> {
        match taken {
            Taken::Claim(claim) => return Some(claim),
            Taken::Quarantined(what) => self.quarantined.push(what),
            Taken::Newer(file) => self.newer.push(file),
            Taken::Skipped(stuck) => self.skipped.push(stuck),
            Taken::Early(_) | Taken::Behind(_) | Taken::Gone => {}
        }
        None
    }
}

/// The rename that decides who has it.
pub(crate) fn hold(
    bus: &Bus<'_>,
    channel: &Channel,
    folders: &Rc<Folders>,
    waiting: &Name,
    mut envelope: Envelope,
) -> Result<Taken> {
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
    let vouched = bus.vouches(&envelope, &channel.agent);
    // What passed while it waited; whoever sent it has vouched for what was then.
    envelope.missed = bus.missed(&envelope);
    Ok(Taken::Claim(Claim::new(&channel.agent, mine, envelope, vouched, folders)))
}

/// What a drain would do with a file, seen without touching it.
#[derive(PartialEq, Eq)]
pub(crate) enum Sight {
    /// Take it out of the inbox, to its agent.
    Takable,
    /// Put it aside.
    Aside,
    /// Leave it to a newer program, or to a generation to come.
    Left,
    /// Pass it by, or not find it.
    Stuck,
}

/// Looks at one file of an inbox.
pub(crate) fn sight(inbox: &Dir, file: &OsStr, taker: Generation) -> Result<Sight> {
    let Some(name) = waiting(file) else {
        return Ok(if inbox.is_movable(file)? { Sight::Aside } else { Sight::Stuck });
    };
    match inbox.read(file, MAX_BYTES as u64) {
        Ok(bytes) => match read_as(&name, &bytes) {
            Err(Refused::Newer) => Ok(Sight::Left),
            Err(Refused::Damaged(_)) => Ok(Sight::Aside),
            Ok(envelope) => Ok(match fit(envelope.for_generation, taker) {
                Fit::Now => Sight::Takable,
                Fit::Early => Sight::Left,
                Fit::Late => Sight::Aside,
            }),
        },
        Err(ReadError::Io(error)) if error.is_not_found() => Ok(Sight::Stuck),
        Err(ReadError::Io(error)) if !error.is_denied() && error.is_of_one_file() => Ok(Sight::Stuck),
        Err(ReadError::Io(error)) if !error.is_denied() => Err(error.into()),
        Err(_) => Ok(if inbox.is_movable(file)? { Sight::Aside } else { Sight::Stuck }),
    }
}

/// The name of a file that waits; none if it is not one of the bus.
pub(crate) fn waiting(file: &OsStr) -> Option<Name> {
    file.to_str().and_then(Name::parse).filter(|name| name.stage == Stage::Waiting)
}

/// Why a file's bytes are not the envelope its name promises.
pub(crate) enum Refused {
    Newer,
    Damaged(String),
}

pub(crate) fn read_as(name: &Name, bytes: &[u8]) -> std::result::Result<Envelope, Refused> {
    let envelope = Envelope::parse(bytes).map_err(|invalid| match invalid {
        Invalid::Newer(_) => Refused::Newer,
        other => Refused::Damaged(other.to_string()),
    })?;
    named(name, envelope)
}

/// What a file of an inbox holds, for whoever takes it out: what is nothing to read, also by this user, is damage. None if it
/// is gone.
///
/// # Errors
/// What the system refuses today.
pub(crate) fn read_waiting(
    inbox: &Dir,
    name: &Name,
    file: &OsStr,
) -> netsky_disk::Result<Option<std::result::Result<Envelope, Refused>>> {
    match inbox.read(file, MAX_BYTES as u64) {
        Ok(bytes) => Ok(Some(read_as(name, &bytes))),
        Err(ReadError::Io(error)) if error.is_not_found() => Ok(None),
        Err(ReadError::Io(error)) if !error.is_denied() => Err(error),
        Err(other) => Ok(Some(Err(Refused::Damaged(other.to_string())))),
    }
}

/// The envelope that somebody named, in a file of `dir`; none if that moved on.
///
/// # Errors
/// What is no such envelope, each kind as itself: only damage is called that, not what the system refuses today.
pub(crate) fn read_named(
    agent: &AgentId,
    (state, dir): (State, &Dir),
    name: &Name,
    file: &str,
) -> Result<Option<Envelope>> {
    let of = || (agent.clone(), name.key.id.clone());
    let bytes = match dir.read(file, MAX_BYTES as u64) {
        Ok(bytes) => bytes,
        Err(ReadError::Io(error)) if error.is_not_found() => return Ok(None),
        Err(ReadError::Io(error)) => return Err(error.into()),
        Err(why) => {
            let (agent, id) = of();
            return Err(Error::Alien { agent, id, state, why });
        }
    };
    read_as(name, &bytes).map(Some).map_err(|refused| {
        let (agent, id) = of();
        match refused {
            Refused::Newer => Error::Newer { agent, id, state },
            Refused::Damaged(why) => Error::Damaged { agent, id, state, why },
        }
    })
}

/// An envelope under the id that its file's name promises.
pub(crate) fn named(name: &Name, mut envelope: Envelope) -> std::result::Result<Envelope, Refused> {
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
