//! `ack`: the end of an envelope's life, from wherever it is.

use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::watch::Watch;
use netsky_disk::{clock, process};
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use netsky_model::life::{Event, State, transition};
use netsky_model::name::{Name, Stage, reason_of};
use netsky_model::process::{Life, ProcessId};

use crate::bus::{Bus, Told, point};
use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::poison::bury_copy;
use crate::queue::read_named;
use crate::release::may_end;

/// How long an ack waits for a live reader that has shown the text and is about to record it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the claim is looked at meanwhile: its owner's death makes no event.
const RESCAN: Duration = Duration::from_millis(200);

/// What an ack found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acked {
    /// It is finished now.
    Now,
    /// It was finished before.
    Already,
}

impl Bus<'_> {
    /// Finishes an envelope; durable when this returns. `id` may be shortened where unambiguous.
    ///
    /// # Errors
    /// No such envelope, a shortened id of several, one that a live process holds or
    /// only a later program can show, a dead letter that is no message, or what the file
    /// system refuses. What waited and a drain would put aside is a dead letter then.
    pub fn ack(&self, agent: &AgentId, id: &str) -> Result<(EnvelopeId, Acked)> {
        self.ack_within(agent, id, PATIENCE)
    }

    /// The same for who holds up others: what a live process holds is not waited for.
    ///
    /// # Errors
    /// As [`Bus::ack`].
    pub fn ack_at_once(&self, agent: &AgentId, id: &str) -> Result<(EnvelopeId, Acked)> {
        self.ack_within(agent, id, Duration::ZERO)
    }

    fn ack_within(&self, agent: &AgentId, id: &str, patience: Duration) -> Result<(EnvelopeId, Acked)> {
        let channel = self.channel(agent)?;
        let acked = channel.dir(State::Acked)?;
        let mut watch: Option<Watch> = None;
        let started = clock::boot();
        loop {
            let found = self.find(agent, id)?;
            if found.state == State::Acked {
                // Whoever moved it may not have come to its sync.
                acked.sync()?;
                return Ok((found.name.key.id, Acked::Already));
            }
            if let Some(owner) = live_owner(&found.name) {
                let left = patience.saturating_sub(clock::boot().saturating_sub(started));
                if left.is_zero() {
                    let (agent, pid, may_end) = (agent.clone(), owner.pid, may_end(owner));
                    return Err(Error::Held { agent, id: found.name.key.id, pid, may_end });
                }
                match &watch {
                    Some(watch) => drop(watch.wait(left.min(RESCAN))?),
                    // Looked at once more before the first wait: what came until now gives no event.
                    None => watch = Some(ways_on(&channel)?),
                }
                continue;
            }
            if self.finish(&channel, &acked, found.state, &found.name, &found.file)? {
                return Ok((found.name.key.id, Acked::Now));
            }
            // It moved while we looked at it; its life is finite and so is this loop.
        }
    }

    /// As [`Bus::ack`], of one that was delivered under this name; what moved on meanwhile is left where it is.
    pub(crate) fn ack_delivered(&self, agent: &AgentId, name: &Name) -> Result<()> {
        let channel = self.channel(agent)?;
        let acked = channel.dir(State::Acked)?;
        self.finish(&channel, &acked, State::Delivered, name, &name.to_string()).map(drop)
    }

    /// The last move. False if the envelope was somewhere else by now.
    fn finish(&self, channel: &Channel, acked: &Dir, state: State, name: &Name, file: &str) -> Result<bool> {
        let to = transition(state, Event::Ack)?;
        let from = channel.dir(state)?;
        let read = match state {
            State::Written => self.read_or_quarantine(channel, &from, name, file),
            _ => read_named(&channel.agent, (state, &from), name, file),
        };
        match (state, read) {
            (_, Ok(None)) => return Ok(false),
            // What is no message nobody has dealt with, nor with what only a later program can show.
            (State::Written | State::Poisoned, Err(error)) | (_, Err(error @ Error::Newer { .. })) => {
                return Err(error);
            }
            // It was before its agent: what became of its bytes since then is no matter.
            _ => {}
        }
        let generation = name.stage.generation().unwrap_or(Generation::NONE);
        let done = name.to(Stage::Taken(generation));
        match from.rename(file, acked, done.to_string()) {
            Ok(()) => {}
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) if error.is_exists() => return Ok(bury_copy(channel, &from, name)?.is_some()),
            Err(error) => return Err(error.into()),
        }
        point("bus.ack.renamed");
        acked.sync()?;
        point("bus.ack.synced");
        if state == State::Poisoned {
            // The dead letter is none; a reason that stays behind is harmless.
            let _ = from.remove(reason_of(file));
        }
        let told = Told { generation: Some(generation), ..Told::default() };
        self.moved(&channel.agent, &done, to, told);
        Ok(true)
    }
}

/// Where a claimed envelope can go on to.
fn ways_on(channel: &Channel) -> Result<Watch> {
    let (delivered, inbox) = (channel.dir(State::Delivered)?, channel.dir(State::Written)?);
    Ok(Watch::new(&[delivered.path(), inbox.path()])?)
}

fn live_owner(name: &Name) -> Option<&ProcessId> {
    match &name.stage {
        Stage::Claimed(owner) if process::probe(owner) != Life::Dead => Some(owner),
        _ => None,
    }
}
