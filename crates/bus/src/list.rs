//! `list` and `find`: what is in a channel, changing nothing.
//!
//! A file that is not one of the bus's is shown as such and left where it is. A list holds names, and one message at a
//! time: folders without a quota may hold any number of large ones.

use std::ffi::OsStr;

use netsky_disk::ReadError;
use netsky_disk::fs::Dir;
use netsky_disk::names::Names;
use netsky_model::envelope::{Envelope, MAX_BYTES};
use netsky_model::hlc::Hlc;
use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::life::{STATES, State};
use netsky_model::name::{self, Name, REASON_BYTES, is_reason, reason_of};
use netsky_model::render;

use crate::bus::Bus;
use crate::error::{Error, Result};
use crate::queue::{MISNAMED, named, waiting};

/// What a bounded list leaves out first: what is furthest in its life.
const FIRST_LEFT_OUT: [State; 6] =
    [State::Acked, State::Forwarded, State::Delivered, State::Poisoned, State::Written, State::Claimed];

/// Envelopes of one shortened id that are counted: who hears of so many types more of it.
const SEVERAL: usize = 10_000;

/// One file of a channel.
#[derive(Debug)]
pub struct Entry {
    /// Which folder it is in.
    pub state: State,
    /// Its file name.
    pub file: String,
    /// What the name says; none for a file that is not one of the bus's.
    pub name: Option<Name>,
    /// The message, where it can be read.
    pub envelope: Option<Envelope>,
    /// Whether the home vouches for who sent it, whatever the file says.
    pub vouched: bool,
    /// Why it is a dead letter, or why it cannot be read.
    pub problem: Option<String>,
}

/// The files that a list shows; each is read when its turn comes.
pub struct Listing<'a> {
    bus: &'a Bus<'a>,
    agent: AgentId,
    /// In the order of a life.
    folders: Vec<Folder>,
    left_out: usize,
}

struct Folder {
    state: State,
    dir: Dir,
    files: Names,
    /// How many of its lowest names are left out.
    cut: usize,
}

impl Listing<'_> {
    /// How many files were left out.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The files in the order of their lives, then of their names; what has moved on meanwhile is passed by.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.entries_where(|_| true)
    }

    /// Those whose name is wanted; no other is read.
    pub fn entries_where(&self, mut wanted: impl FnMut(&str) -> bool) -> impl Iterator<Item = Entry> {
        let all = self.folders.iter().flat_map(|folder| {
            folder.files.iter().skip(folder.cut).map(move |file| (folder, file.to_string_lossy()))
        });
        all.filter_map(move |(Folder { state, dir, .. }, file)| {
            wanted(&file).then(|| self.bus.look(&self.agent, dir, *state, file.into_owned()))?
        })
    }
}

/// Where an envelope is.
pub(crate) struct Found {
    pub(crate) state: State,
    pub(crate) file: String,
    pub(crate) name: Name,
}

impl Bus<'_> {
    /// All that [`Bus::listing`] shows, held at once: for channels that are known to be small.
    ///
    /// # Errors
    /// No such channel, or what the file system refuses.
    pub fn list(&self, agent: &AgentId, only: Option<State>) -> Result<Vec<Entry>> {
        Ok(self.listing(agent, only, usize::MAX)?.entries().collect())
    }

    /// At most `limit` files of a channel, of one state only where it is given. Left out are the oldest of those that are
    /// furthest in their lives, so that what still waits is seen; they are not read.
    ///
    /// # Errors
    /// No such channel, or what the file system refuses.
    pub fn listing(&self, agent: &AgentId, only: Option<State>, limit: usize) -> Result<Listing<'_>> {
        let channel = self.channel_as_is(agent)?;
        let mut folders = Vec::new();
        for state in STATES.into_iter().filter(|state| only.is_none_or(|only| only == *state)) {
            let Some(dir) = channel.dir_if_there(state)? else { continue };
            let is_listed = |file: &OsStr| state != State::Poisoned || !is_reason(file);
            // The newest as far as the limit may need them: what is left out anyway is not held either.
            let files = dir.highest_names(limit, is_listed)?;
            folders.push(Folder { state, dir, files, cut: 0 });
        }
        let all: usize = folders.iter().map(|folder| folder.files.len() + folder.files.left_out()).sum();
        let left_out = all.saturating_sub(limit);
        let mut excess = left_out;
        for state in FIRST_LEFT_OUT {
            for Folder { files, cut, .. } in folders.iter_mut().filter(|folder| folder.state == state) {
                let gone = excess.min(files.len() + files.left_out());
                *cut = gone.saturating_sub(files.left_out());
                excess -= gone;
            }
        }
        Ok(Listing { bus: self, agent: agent.clone(), folders, left_out })
    }

    /// One envelope by its id, which may be shortened where unambiguous.
    ///
    /// # Errors
    /// No such envelope, or several.
    pub fn show(&self, agent: &AgentId, id: &str) -> Result<Entry> {
        loop {
            let found = self.find(agent, id)?;
            let dir = self.channel_as_is(agent)?.dir_if_there(found.state)?;
            if let Some(entry) = dir.and_then(|dir| self.look(agent, &dir, found.state, found.file)) {
                return Ok(entry);
            }
            // It moved while we looked at it; its life is finite and so is this loop.
        }
    }

    /// The file that a list shows by this name because it bears none of the bus's; the one of a list's first state.
    ///
    /// # Errors
    /// No such channel, or what the file system refuses.
    pub fn stranger(&self, agent: &AgentId, shown: &str) -> Result<Option<Entry>> {
        let channel = self.channel_as_is(agent)?;
        for state in STATES {
            let Some(dir) = channel.dir_if_there(state)? else { continue };
            let mut found = None;
            dir.each_name(|file| {
                let is_it = || {
                    let name = file.to_string_lossy();
                    (*name == *shown || render::text(&render::line(&name)) == shown)
                        && Name::parse(&name).is_none()
                };
                if found.is_none() && !(state == State::Poisoned && is_reason(file)) && is_it() {
                    found = Some(file.to_string_lossy().into_owned());
                }
            })?;
            if let Some(entry) = found.and_then(|file| self.look(agent, &dir, state, file)) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// The dead letter whose file a list shows by this name, whether that is one of the bus's or not.
    ///
    /// # Errors
    /// No such channel, or what the file system refuses.
    pub fn dead_letter(&self, agent: &AgentId, shown: &str) -> Result<Option<Entry>> {
        let Some(poison) = self.channel_as_is(agent)?.dir_if_there(State::Poisoned)? else { return Ok(None) };
        let mut found = None;
        poison.each_name(|file| {
            let plain = file.to_str().filter(|_| !is_reason(file));
            let is_it = |name: &&str| *name == shown || render::text(&render::line(name)) == shown;
            found = found.take().or_else(|| plain.filter(is_it).map(str::to_owned));
        })?;
        Ok(found.and_then(|file| self.look(agent, &poison, State::Poisoned, file)))
    }

    /// Whether the folder of a state holds nothing, whatever it would be.
    ///
    /// # Errors
    /// No such channel, or the folder cannot be read.
    pub fn is_empty(&self, agent: &AgentId, state: State) -> Result<bool> {
        let dir = self.channel_as_is(agent)?.dir_if_there(state)?;
        Ok(dir.map(|dir| dir.is_empty()).transpose()?.unwrap_or(true))
    }

    /// How many envelopes of an agent are in one state, by their names alone; of dead letters also what is none.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn count(&self, agent: &AgentId, state: State) -> Result<usize> {
        let Some(dir) = self.channel_as_is(agent)?.dir_if_there(state)? else { return Ok(0) };
        let mut count = 0;
        let counts = |file: &OsStr| match state {
            State::Poisoned => !is_reason(file),
            _ => file.to_str().and_then(Name::parse).is_some(),
        };
        dir.each_name(|file| count += usize::from(counts(file)))?;
        Ok(count)
    }

    /// How many envelopes wait for an agent, and how many of them were surfaced before; by their names alone.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn count_waiting(&self, agent: &AgentId) -> Result<(usize, usize)> {
        let Some(dir) = self.channel_as_is(agent)?.dir_if_there(State::Written)? else { return Ok((0, 0)) };
        let (mut all, mut again) = (0, 0);
        dir.each_name(|file| {
            if let Some(name) = waiting(file) {
                all += 1;
                again += usize::from(name.attempt > 1);
            }
        })?;
        Ok((all, again))
    }

    /// Whether an envelope of exactly this id is in the agent's mailbox, in whatever state.
    ///
    /// # Errors
    /// A folder cannot be read; an agent without a mailbox has nothing in it.
    pub fn has(&self, agent: &AgentId, id: &EnvelopeId) -> Result<bool> {
        Ok(self.position(agent, id)?.is_some())
    }

    /// The place in the order of the envelope of exactly this id, where it is in the agent's mailbox.
    ///
    /// # Errors
    /// As [`Bus::has`].
    pub fn position(&self, agent: &AgentId, id: &EnvelopeId) -> Result<Option<Hlc>> {
        if !self.knows(agent) {
            return Ok(None);
        }
        match self.find(agent, id.as_str()) {
            Ok(found) => Ok((found.name.key.id == *id).then_some(found.name.key.hlc)),
            Err(Error::NoEnvelope { .. } | Error::Ambiguous { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Whether such a message came to an agent after a place in the order, wherever it is by now. One that moves on while we look may
    /// be passed by: the next look sees it.
    ///
    /// # Errors
    /// No such channel, or a folder cannot be read.
    pub fn any_after(
        &self,
        agent: &AgentId,
        place: Hlc,
        mut is_it: impl FnMut(&Envelope) -> bool,
    ) -> Result<bool> {
        let channel = self.channel_as_is(agent)?;
        for state in STATES {
            let Some(dir) = channel.dir_if_there(state)? else { continue };
            let mut later = Vec::new();
            dir.each_name(|file| {
                let file =
                    file.to_str().filter(|file| Name::parse(file).is_some_and(|name| name.key.hlc > place));
                later.extend(file.map(str::to_owned));
            })?;
            let mut looks =
                later.into_iter().filter_map(|file| self.look(agent, &dir, state, file)?.envelope);
            if looks.any(|envelope| is_it(&envelope)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(crate) fn find(&self, agent: &AgentId, id: &str) -> Result<Found> {
        let channel = self.channel_as_is(agent)?;
        let mut found: Vec<Found> = Vec::new();
        // A second look before saying no: between two folders of one look it may have moved back behind us.
        for state in STATES.into_iter().chain(STATES) {
            let Some(dir) = channel.dir_if_there(state)? else { continue };
            let mut exact = None;
            dir.each_name(|file| {
                let Some((file, name)) = file.to_str().and_then(|file| Some((file, Name::parse(file)?)))
                else {
                    return;
                };
                if name.key.id.as_str() == id {
                    exact = Some(Found { state, file: file.to_owned(), name });
                } else if !id.is_empty() && name.key.id.as_str().starts_with(id) && found.len() < SEVERAL {
                    found.push(Found { state, file: file.to_owned(), name });
                }
            })?;
            if let Some(exact) = exact {
                return Ok(exact);
            }
        }
        found.sort_by(|a, b| a.name.key.cmp(&b.name.key));
        found.dedup_by(|a, b| a.name.key == b.name.key);
        match found.len() {
            0 => Err(Error::NoEnvelope { agent: agent.clone(), id: id.to_owned() }),
            1 => Ok(found.remove(0)),
            count => Err(Error::Ambiguous { agent: agent.clone(), id: id.to_owned(), count }),
        }
    }
    /// One file; none if it moved on while we looked.
    fn look(&self, agent: &AgentId, dir: &Dir, state: State, file: String) -> Option<Entry> {
        let name = Name::parse(&file);
        let reason = reason_beside(dir, state, &file).ok().flatten();
        let (envelope, problem) = match dir.read(&file, MAX_BYTES as u64) {
            Ok(bytes) => match Envelope::parse(&bytes) {
                Ok(envelope) => (Some(envelope), None),
                Err(invalid) => (None, Some(name::reason(&invalid.to_string()))),
            },
            Err(ReadError::Io(error)) if error.is_not_found() => return None,
            Err(error) => (None, Some(error.to_string())),
        };
        // As a reader is shown it: under the id of its name.
        let named = name.as_ref().zip(envelope.clone()).and_then(|(name, whole)| named(name, whole).ok());
        let vouched = named.is_some_and(|named| self.vouches(&named, agent));
        // As a drain judges it: by its name first, which in an inbox is one of those that wait.
        let misnamed = match state {
            State::Written => waiting(OsStr::new(&file)).is_none(),
            _ => name.is_none(),
        };
        let problem = if misnamed { Some(MISNAMED.to_owned()) } else { problem };
        Some(Entry { state, file, name, envelope, vouched, problem: reason.or(problem) })
    }
}

/// Why a dead letter is one, where that is said and is a text.
///
/// # Errors
/// The system does not hand it out.
pub(crate) fn reason_beside(dir: &Dir, state: State, file: &str) -> netsky_disk::Result<Option<String>> {
    if state != State::Poisoned {
        return Ok(None);
    }
    match dir.read(reason_of(file), REASON_BYTES) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())),
        Err(ReadError::Io(error)) if !error.is_not_found() => Err(error),
        Err(_) => Ok(None),
    }
}
