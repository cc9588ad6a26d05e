//! The only deletion by the bus: what has reached its end and was kept for as long as the settings say.
//!
//! Promise: nothing that may still be wanted goes. An id that a sender chose is remembered for longer than its envelope,
//! and never forgotten while there is one; an envelope that goes leaves a note in its id's entry, so that its absence is
//! not taken for a loss.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use netsky_disk::fs::{Dir, Place, write_durable};
use netsky_disk::lock::Lock;
use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::life::{RETIRED, STATES, State};
use netsky_model::name::{Name, is_reason, reason_of};

use crate::bus::{Bus, point};
use crate::channel::Channel;
use crate::error::Result;
use crate::ids::done;
use crate::list::reason_beside;
use crate::poison::shown;
use crate::queue::Few;

/// Names of a folder that one pass looks at: so many of those that stay must be there to hide what may go.
const NAMES: usize = 10_000;

/// A file that may go, and the message's name that it has.
type Going<'a> = (&'a str, Option<Name>);

/// What one pass removed.
#[derive(Debug, Default)]
pub struct Removed {
    /// Envelopes and dead letters.
    pub envelopes: usize,
    /// Entries of ids.
    pub ids: usize,
    /// The bound was reached: there is more to do.
    pub more: bool,
    /// What could not be removed, and why.
    pub stuck: Few<netsky_disk::Error>,
}

impl Bus<'_> {
    /// Removes from a folder of finished mail what `is_past` says of when it came there (seconds of the wall clock); at
    /// most `bound` files, and at most as many messages are told of. What is no message and cannot be removed takes no
    /// room from what can.
    ///
    /// # Errors
    /// What the file system refuses; what was removed before is gone.
    pub fn remove_finished(
        &self,
        agent: &AgentId,
        state: State,
        bound: usize,
        is_past: impl Fn(i64) -> bool,
    ) -> Result<Removed> {
        self.remove_wanted(agent, state, bound, |file| !is_reason(file), is_past)
    }

    /// As [`Bus::remove_finished`], of the dead letters that have their pages: what `paged` says of their ids. Those that
    /// have none stay, however many, and hide no other.
    ///
    /// # Errors
    /// What the file system refuses; what was removed before is gone.
    pub fn remove_dead_letters(
        &self,
        agent: &AgentId,
        bound: usize,
        paged: impl Fn(&str) -> bool,
        is_past: impl Fn(i64) -> bool,
    ) -> Result<Removed> {
        let wanted = |file: &OsStr| !is_reason(file) && paged(&shown(file).1);
        self.remove_wanted(agent, State::Poisoned, bound, wanted, is_past)
    }

    fn remove_wanted(
        &self,
        agent: &AgentId,
        state: State,
        bound: usize,
        wanted: impl Fn(&OsStr) -> bool,
        is_past: impl Fn(i64) -> bool,
    ) -> Result<Removed> {
        let mut removed = Removed::default();
        // Only from ends of a life: asked for anything else, nothing is done.
        if !matches!(state, State::Acked | State::Forwarded | State::Poisoned) {
            return Ok(removed);
        }
        let channel = self.channel_as_is(agent)?;
        let Some(dir) = channel.dir_if_there(state)? else { return Ok(removed) };
        // The oldest by name: nearly always the oldest to come here, and the rest is met in a later pass.
        let names = dir.lowest_of(None, NAMES, wanted)?;
        let may_go = |file| -> netsky_disk::Result<Option<Going<'_>>> {
            let times = dir.times(file)?.filter(|times| is_past(times.changed));
            if times.is_none() {
                return Ok(None);
            }
            // A folder is no message, whatever it is called, and the one thing that need not go when it may.
            let name = if dir.is_folder(file)? { None } else { Name::parse(file) };
            let ours = name.is_some() || state == State::Poisoned;
            Ok(ours.then_some((file, name)))
        };
        let files = names.iter().filter_map(OsStr::to_str);
        let mut old = files.filter_map(|file| may_go(file).transpose());
        let mut told = 0;
        while removed.envelopes.max(told) < bound {
            let mut going = Vec::new();
            while going.len() < bound - removed.envelopes.max(told)
                && let Some(file) = old.next()
            {
                going.extend(unless_stuck(file, &mut removed)?);
            }
            if going.is_empty() {
                return Ok(removed);
            }
            told += self.remove_told(agent, &channel, (state, &dir), &going, &mut removed)?;
        }
        removed.more = old.next().is_some();
        Ok(removed)
    }

    /// Removes these files after the record was told of them: of how many messages.
    fn remove_told(
        &self,
        agent: &AgentId,
        channel: &Channel,
        (state, dir): (State, &Dir),
        going: &[Going<'_>],
        removed: &mut Removed,
    ) -> Result<usize> {
        let mut leaving = Vec::with_capacity(going.len());
        let (ids, tmp) = (channel.ids()?, channel.tmp()?);
        for (file, name) in going {
            // Gone without its reason, the record would never have it.
            let ready = reason_beside(dir, state, file).and_then(|reason| {
                name.iter().try_for_each(|name| retire(&ids, &tmp, &name.key.id))?;
                Ok((*file, name.as_ref(), reason))
            });
            leaving.extend(unless_stuck(ready, removed)?);
        }
        let ended = || leaving.iter().filter_map(|(_, name, reason)| Some(((*name)?, reason.clone())));
        // Told before, and kept for good, so that whoever misses one finds why: a file that stays after all is no loss.
        self.removal(agent, state, ended())
            .map_err(|why| netsky_disk::Error::new("tell the record what goes from", dir.path(), why))?;
        point("bus.retention.told");
        let told = ended().count();
        for (file, ..) in leaving {
            // It may be a folder that somebody dropped and that is not empty.
            let Some(there) = unless_stuck(dir.remove_any(file), removed)? else { continue };
            if state == State::Poisoned {
                unless_stuck(dir.remove_any(reason_of(file)), removed)?;
            }
            removed.envelopes += usize::from(there);
        }
        Ok(told)
    }

    /// Forgets ids whose entries `is_past` says of when they were last touched, and whose envelopes are nowhere; looks at
    /// `bound` entries at most, behind `after`. The name to go on behind.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn forget_ids(
        &self,
        agent: &AgentId,
        after: Option<&str>,
        bound: usize,
        is_past: impl Fn(i64) -> bool,
    ) -> Result<(Removed, Option<String>)> {
        let mut removed = Removed::default();
        let channel = self.channel_as_is(agent)?;
        let ids = match Dir::open(self.layout.channel_ids(agent)) {
            Err(error) if error.is_not_found() => return Ok((removed, None)),
            opened => opened?,
        };
        let names = ids.lowest_names(after.map(OsStr::new), bound)?;
        let mut old: BTreeSet<EnvelopeId> = BTreeSet::new();
        for file in names.iter().filter_map(OsStr::to_str) {
            let Ok(id) = file.parse::<EnvelopeId>() else { continue };
            if unless_stuck(is_old(&ids, &id, &is_past), &mut removed)? == Some(true) {
                old.insert(id);
            }
        }
        if !old.is_empty() {
            still_there(&channel, &mut old)?;
        }
        for id in old {
            let forgotten = unless_stuck(forget(&ids, &id, &is_past), &mut removed)?;
            removed.ids += usize::from(forgotten == Some(true));
        }
        let next = (names.left_out() > 0).then(|| names.last().and_then(OsStr::to_str).map(str::to_owned));
        Ok((removed, next.flatten()))
    }
}

/// What came of one file; none where the trouble is that file's, which must not keep all others.
fn unless_stuck<T>(done: netsky_disk::Result<T>, removed: &mut Removed) -> Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.is_of_one_file() => {
            removed.stuck.push(error);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Notes in an id's entry that its envelope was there and went.
fn retire(ids: &Dir, tmp: &Dir, id: &EnvelopeId) -> netsky_disk::Result<()> {
    if ids.exists(id.as_str())? && !ids.read(done(id), RETIRED.len() as u64).is_ok_and(|mark| mark == RETIRED)
    {
        write_durable(tmp, ids, &done(id), RETIRED, Place::Over)?;
    }
    Ok(())
}

/// Whether neither an id's entry nor its mark was touched of late.
fn is_old(ids: &Dir, id: &EnvelopeId, is_past: &impl Fn(i64) -> bool) -> netsky_disk::Result<bool> {
    let past = |file: &str| ids.times(file).map(|times| times.map(|times| is_past(times.changed)));
    Ok(past(id.as_str())? == Some(true) && past(&done(id))? != Some(false))
}

/// Takes out of `old` what has an envelope in any folder.
fn still_there(channel: &Channel, old: &mut BTreeSet<EnvelopeId>) -> Result<()> {
    for state in STATES.into_iter().chain(STATES) {
        let Some(dir) = channel.dir_if_there(state)? else { continue };
        dir.each_name(|file| {
            if let Some(name) = file.to_str().and_then(Name::parse) {
                old.remove(&name.key.id);
            }
        })?;
    }
    Ok(())
}

/// Removes an entry under its own lock: whoever waits for that lock finds that the file has its name no more.
fn forget(ids: &Dir, id: &EnvelopeId, is_past: &impl Fn(i64) -> bool) -> netsky_disk::Result<bool> {
    let path = ids.path().join(id.as_str());
    let Some(lock) = Lock::try_take(&path)? else { return Ok(false) };
    // A sender that came between has touched it.
    if !lock.has_its_name()? || !is_old(ids, id, is_past)? {
        return Ok(false);
    }
    ids.remove(id.as_str())?;
    point("bus.retention.forgotten");
    // Left over, it says *duplicate* where nothing is any more: no worse than before.
    ids.remove_any(done(id))?;
    Ok(true)
}
