//! `poison retry`: the owner wants a dead letter tried once more.

use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::life::{Cause, Event, State, transition};
use netsky_model::name::{REASON_BYTES, reason_of};

use crate::bus::{Bus, Told, point};
use crate::error::Result;
use crate::queue::read_named;

/// What became of a dead letter that was retried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retried {
    /// Which one.
    pub id: EnvelopeId,
    /// It waited before; nothing was done.
    pub already: bool,
}

impl Bus<'_> {
    /// Puts a dead letter back into the inbox, as one attempt more; durable when this returns. Why it had died goes into
    /// the record. `id` may be shortened where unambiguous. What waits already stays as it is.
    ///
    /// # Errors
    /// No such envelope, one that is no dead letter, bytes that are no envelope, or what the file system refuses.
    pub fn retry(&self, agent: &AgentId, id: &str) -> Result<Retried> {
        let channel = self.channel(agent)?;
        loop {
            let found = self.find(agent, id)?;
            let id = found.name.key.id.clone();
            let (poison, inbox) = (channel.dir(State::Poisoned)?, channel.dir(State::Written)?);
            if found.state == State::Written {
                // Whoever put it there may have died before it was durable.
                inbox.sync()?;
                return Ok(Retried { id, already: true });
            }
            let to = transition(found.state, Event::Retry)?;
            let letter = (State::Poisoned, &poison);
            if read_named(agent, letter, &found.name, &found.file)?.is_none() {
                continue;
            }
            let died = poison.read(reason_of(&found.file), REASON_BYTES).unwrap_or_default();
            let back = found.name.given_back();
            let why = format!("the owner retried it; it had died because {}", String::from_utf8_lossy(&died));
            let told = Told { reason: Some(why.trim_end()), cause: Some(Cause::Retried), ..Told::default() };
            self.returning(agent, &back, told);
            match poison.rename(&found.file, &inbox, back.to_string()) {
                Ok(()) => {}
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error.into()),
            }
            point("bus.retry.renamed");
            inbox.sync()?;
            // The dead letter is none; a reason that stays behind is harmless.
            let _ = poison.remove(reason_of(&found.file));
            self.moved(agent, &back, to, told);
            return Ok(Retried { id, already: false });
        }
    }
}
