//! `poison/`: what is no envelope, or was surfaced in vain too often, with its reason beside it.
//!
//! The reason is written first, so a dead letter without one cannot be seen; where even that fails (a full disk) the
//! file still leaves the way of its neighbours.

use std::ffi::OsStr;

use netsky_disk::fs::{Dir, Place, write_durable};
use netsky_disk::{ReadError, random};
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::life::{Event, MAX_ATTEMPTS, State, transition};
use netsky_model::name::{self, Name, REASON_BYTES, Stage, is_reason, reason_of};
use netsky_model::render;

use crate::bus::{Bus, Told, point};
use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::queue::{Refused, read_waiting};

/// Longest file name kept as it is: a reason's name must fit beside it.
const LONGEST_NAME: usize = 200;

/// A file that was put aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Its name in `poison/`.
    pub name: String,
    /// Why it is there.
    pub reason: String,
    /// Why that does not stand beside it; none where it does.
    pub unwritten: Option<String>,
}

/// The name of a dead letter's file as it is shown, and its id.
pub(crate) fn shown(file: &OsStr) -> (String, String) {
    let file = render::line(&file.to_string_lossy());
    let id = Name::parse(&file).map_or_else(|| file.clone(), |name| name.key.id.to_string());
    (file, id)
}

impl Bus<'_> {
    /// Shows the file name and the id of every dead letter of an agent, in no order; of a file that bears none of the bus's
    /// names, that name is its id.
    ///
    /// # Errors
    /// No such channel, or what the file system refuses.
    pub fn each_dead_letter(&self, agent: &AgentId, mut show: impl FnMut(&str, &str)) -> Result<()> {
        let Some(poison) = self.channel_as_is(agent)?.dir_if_there(State::Poisoned)? else { return Ok(()) };
        poison.each_name(|file| {
            if !is_reason(file) {
                let (file, id) = shown(file);
                show(&file, &id);
            }
        })?;
        Ok(())
    }

    /// The reason of a dead letter; one that could not be written when it was put aside is written now. None if the file
    /// is gone.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn explain(&self, agent: &AgentId, file: &str) -> Result<Option<String>> {
        let channel = self.channel_as_is(agent)?;
        let Some(poison) = channel.dir_if_there(State::Poisoned)? else { return Ok(None) };
        if !poison.exists(file)? {
            return Ok(None);
        }
        match poison.read(reason_of(file), REASON_BYTES) {
            Ok(reason) => return Ok(Some(String::from_utf8_lossy(&reason).trim_end().to_owned())),
            // It is there, and may be read another time.
            Err(ReadError::Io(error)) if !error.is_not_found() => return Err(error.into()),
            Err(_) => {}
        }
        let reason = match Name::parse(file) {
            Some(name) if name.attempt >= MAX_ATTEMPTS => format!("surfaced {} times in vain", name.attempt),
            _ => "put aside as no message".to_owned(),
        };
        let reason = format!("{reason}; why at last could not be written when it was put aside");
        write_durable(
            &channel.tmp()?,
            &poison,
            &reason_of(file),
            format!("{reason}\n").as_bytes(),
            Place::Over,
        )?;
        Ok(Some(reason))
    }

    /// The envelope that waits and that somebody named; none if it moved on.
    ///
    /// # Errors
    /// It is of a newer format, or what the system refuses today. What a drain would put aside goes aside, and is an error
    /// too: whoever waits behind it need not meet it.
    pub(crate) fn read_or_quarantine(
        &self,
        channel: &Channel,
        inbox: &Dir,
        name: &Name,
        file: &str,
    ) -> Result<Option<Envelope>> {
        let Some(read) = read_waiting(inbox, name, file.as_ref())? else { return Ok(None) };
        let (agent, id) = (channel.agent.clone(), name.key.id.clone());
        match read {
            Ok(envelope) => Ok(Some(envelope)),
            Err(Refused::Newer) => Err(Error::Newer { agent, id, state: State::Written }),
            Err(Refused::Damaged(why)) => {
                let aside = self.quarantine(channel, inbox, State::Written, file.as_ref(), &why)?;
                aside.map_or(Ok(None), |aside| Err(Error::Quarantined { agent, id, why: aside.reason }))
            }
        }
    }

    /// Puts a file aside that is no envelope. None if another process was faster.
    pub(crate) fn quarantine(
        &self,
        channel: &Channel,
        from: &Dir,
        state: State,
        file: &OsStr,
        why: &str,
    ) -> Result<Option<Quarantined>> {
        transition(state, Event::Reject)?;
        // The same name however often it is tried: a burial cut short after its reason leaves no second reason. With its
        // attempts: a retry goes on counting.
        let name = match file.to_str().and_then(Name::parse) {
            Some(name) => name.to(Stage::Waiting).to_string(),
            None => fit(file),
        };
        let kept = bury(channel, from, file, &name, why)?;
        if let (Some(kept), Some(name)) = (&kept, file.to_str().and_then(Name::parse)) {
            let told = Told { reason: Some(&kept.reason), ..Told::default() };
            self.moved(&channel.agent, &name, State::Poisoned, told);
        }
        Ok(kept)
    }
}

/// Puts a file aside whose next name is taken: a copy made by hand. Both stay; neither is surfaced for ever.
pub(crate) fn bury_copy(channel: &Channel, from: &Dir, name: &Name) -> Result<Option<Quarantined>> {
    let aside = name.to(Stage::Waiting).to_string();
    bury(
        channel,
        from,
        name.to_string().as_ref(),
        &aside,
        "another file of this envelope has the next name already",
    )
}

/// Writes the reason, moves the file, syncs. None if the file was gone.
pub(crate) fn bury(
    channel: &Channel,
    from: &Dir,
    file: &OsStr,
    name: &str,
    why: &str,
) -> Result<Option<Quarantined>> {
    let poison = channel.dir(State::Poisoned)?;
    let name = if poison.exists(name)? { format!("{name}~{}", random::short()) } else { name.to_owned() };
    let reason = name::reason(why);
    let note = format!("{reason}\n");
    // Without its reason a dead letter is poorer; left in the inbox it would stop its neighbours.
    let written = channel
        .tmp()
        .and_then(|tmp| Ok(write_durable(&tmp, &poison, &reason_of(&name), note.as_bytes(), Place::Over)?));
    point("bus.poison.reason");
    match from.rename(file, &poison, &name) {
        Ok(()) => {}
        Err(error) if error.is_not_found() => {
            // Whoever was faster wrote the same reason under the same name, unless its file is not there.
            if !poison.exists(&name)? {
                let _ = poison.remove(reason_of(&name));
            }
            return Ok(None);
        }
        Err(error) => {
            // What stays where it is has no dead letter to explain.
            let _ = poison.remove(reason_of(&name));
            return Err(error.into());
        }
    }
    point("bus.poison.renamed");
    poison.sync()?;
    Ok(Some(Quarantined { name, reason, unwritten: written.err().map(|error| error.to_string()) }))
}

/// A name that can be printed, has room for a suffix, and is no reason's.
pub(crate) fn fit(file: &OsStr) -> String {
    let is_plain = |text: &&str| text.len() <= LONGEST_NAME && render::line(text) == **text;
    let plain = file.to_str().filter(is_plain).filter(|_| !is_reason(file));
    match plain {
        Some(text) => text.to_owned(),
        None => {
            let shown: String = file
                .to_string_lossy()
                .chars()
                .filter(char::is_ascii_graphic)
                .take(LONGEST_NAME / 2)
                .collect();
            let mark = EnvelopeId::derived(&[&file.to_string_lossy()]);
            format!("{shown}~{}", &mark.as_str()[..8])
        }
    }
}
