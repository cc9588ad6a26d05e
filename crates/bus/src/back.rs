//! The way back: mail never dies with its reader.
//!
//! What a dead process held, and what a dead generation took without finishing, returns to the inbox with one attempt
//! more, or becomes a dead letter after the last. An owner in another pid namespace is unknown, not dead: its claims stay.
//! What a dead consumer's command left at work on a message is ended before the message returns.

use std::collections::HashMap;

use netsky_disk::feed::end_work;
use netsky_disk::fs::Dir;
use netsky_disk::lock::{Hold, Seized};
use netsky_disk::process;
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use netsky_model::life::{Cause, Event, State, transition};
use netsky_model::name::{Name, Stage};
use netsky_model::process::{Life, ProcessId};

use crate::bus::{Bus, Told, point};
use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::poison::{bury, bury_copy};
use crate::queue::{Few, Stuck};

/// What went back.
#[derive(Debug, Default)]
pub struct Returned {
    /// To the inbox.
    pub inbox: usize,
    /// To `poison/`: the last attempt was in vain.
    pub poisoned: usize,
    /// What should have gone and could not be moved: it stays where it is, and a later pass tries again.
    pub skipped: Few<Stuck>,
}

impl Bus<'_> {
    /// Gives back what dead processes held.
    ///
    /// # Errors
    /// What the file system refuses; what was moved before is whole.
    pub fn return_dead_claims(&self, agent: &AgentId) -> Result<Returned> {
        self.return_claims(agent, Cause::Died)
    }

    /// The same where the agent's generation was ended on purpose, and its readers with it: they did not die of what they
    /// held. A reader outside of the session that died meanwhile is taken for one of them.
    ///
    /// # Errors
    /// As [`Bus::return_dead_claims`].
    pub fn return_stopped_claims(&self, agent: &AgentId) -> Result<Returned> {
        self.return_claims(agent, Cause::Stopped)
    }

    fn return_claims(&self, agent: &AgentId, cause: Cause) -> Result<Returned> {
        let Some(claimed) = self.channel_as_is(agent)?.dir_if_there(State::Claimed)? else {
            return Ok(Returned::default());
        };
        let mut lives: HashMap<ProcessId, Life> = HashMap::new();
        let mut dead: Vec<(Name, u32)> = Vec::new();
        claimed.each_name(|file| {
            let Some(name) = file.to_str().and_then(Name::parse) else { return };
            let Stage::Claimed(owner) = &name.stage else { return };
            let life = *lives.entry(owner.clone()).or_insert_with(|| process::probe(owner));
            if life == Life::Dead {
                let pid = owner.pid;
                dead.push((name, pid));
            }
        })?;
        // The rule, at each tick for each agent.
        if dead.is_empty() {
            return Ok(Returned::default());
        }
        dead.sort_by(|(a, _), (b, _)| a.key.cmp(&b.key));
        let channel = self.channel(agent)?;
        let mut way_back = self.way_back(&channel)?;
        for (name, pid) in dead {
            let why = format!("process {pid} died while it held it");
            way_back.take_or_skip(&claimed, State::Claimed, &name, (cause, &why))?;
        }
        way_back.end()
    }

    /// Gives back what this process itself had claimed and could not go on with, as if it had been ended on purpose: nobody was
    /// shown anything. For who has no claim of this agent in hand.
    ///
    /// # Errors
    /// What the file system refuses; what was moved before is whole.
    pub fn return_own_claims(&self, agent: &AgentId) -> Result<Returned> {
        let channel = self.channel(agent)?;
        let claimed = channel.dir(State::Claimed)?;
        let mine = Stage::Claimed(process::identity()?);
        let mut way_back = self.way_back(&channel)?;
        for file in claimed.names()? {
            if let Some(name) = Name::parse(&file).filter(|name| name.stage == mine) {
                let why = "its reader could not go on with it";
                way_back.take_or_skip(&claimed, State::Claimed, &name, (Cause::Stopped, why))?;
            }
        }
        way_back.end()
    }

    /// Gives back what dead generations took and did not finish. What was surfaced outside of any session stays.
    ///
    /// # Errors
    /// What the file system refuses; what was moved before is whole.
    pub fn return_generations(
        &self,
        agent: &AgentId,
        is_dead: impl Fn(Generation) -> bool,
    ) -> Result<Returned> {
        let ended = |generation| format!("generation {generation} ended without finishing it");
        self.return_taken(agent, is_dead, Cause::Ended, ended)
    }

    /// Gives back what any session or reader took and did not finish: in a home that is a copy they are those of another
    /// home, and may live on there. A claim that its reader holds is of this very home, which was moved under it, and
    /// stays.
    ///
    /// # Errors
    /// As [`Bus::return_generations`].
    pub fn return_adopted(&self, agent: &AgentId) -> Result<Returned> {
        let elsewhere = |generation| format!("generation {generation} took it in the home that this one was");
        let taken = self.return_taken(agent, |_| true, Cause::Released, elsewhere)?;
        let channel = self.channel(agent)?;
        let claimed = channel.dir(State::Claimed)?;
        let mut way_back = WayBack { returned: taken, ..self.way_back(&channel)? };
        for file in claimed.names()? {
            let Some(name) = Name::parse(&file) else { continue };
            // What cannot be held now returns when its reader ends.
            if let Ok(Seized::Held(_hold)) = Hold::take(&claimed, &file) {
                let why = "a reader held it in the home that this one was";
                way_back.take_or_skip(&claimed, State::Claimed, &name, (Cause::Released, why))?;
            }
        }
        way_back.end()
    }

    /// Gives back what a generation that was ended on purpose had not finished. Flagged like any repeat, and no dead letter
    /// before [`netsky_model::life::MAX_HANDED_BACK`]: nobody died of it.
    ///
    /// # Errors
    /// What the file system refuses; what was moved before is whole.
    pub fn return_stopped(&self, agent: &AgentId, stopped: Generation) -> Result<Returned> {
        let ended = |generation| format!("generation {generation} was ended before it had finished it");
        self.return_taken(agent, |generation| generation == stopped, Cause::Stopped, ended)
    }

    /// Gives back one envelope that its reader was shown and could not deal with for a reason that lies in neither: its
    /// provider does not answer, say. Flagged like any repeat, and no dead letter before
    /// [`netsky_model::life::MAX_HANDED_BACK`]. False if it was not delivered, or is no more.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn hand_back(&self, agent: &AgentId, id: &EnvelopeId, why: &str) -> Result<bool> {
        let channel = self.channel(agent)?;
        let delivered = channel.dir(State::Delivered)?;
        let mut way_back = self.way_back(&channel)?;
        for file in delivered.names()? {
            let Some(name) = Name::parse(&file).filter(|name| name.key.id == *id) else { continue };
            let moved = way_back.take(&delivered, State::Delivered, &name, (Cause::Stopped, why))?;
            way_back.end()?;
            return Ok(moved);
        }
        Ok(false)
    }

    fn return_taken(
        &self,
        agent: &AgentId,
        is_over: impl Fn(Generation) -> bool,
        cause: Cause,
        why: impl Fn(Generation) -> String,
    ) -> Result<Returned> {
        let Some(delivered) = self.channel_as_is(agent)?.dir_if_there(State::Delivered)? else {
            return Ok(Returned::default());
        };
        let taken = |name: Name| match name.stage {
            Stage::Taken(generation) if generation > Generation::NONE => Some((name, generation)),
            _ => None,
        };
        let taken = delivered.names()?.into_iter().filter_map(|file| taken(Name::parse(&file)?));
        let over: Vec<(Name, Generation)> = taken.filter(|(_, generation)| is_over(*generation)).collect();
        if over.is_empty() {
            return Ok(Returned::default());
        }
        let channel = self.channel(agent)?;
        let mut way_back = self.way_back(&channel)?;
        for (name, generation) in over {
            way_back.take_or_skip(&delivered, State::Delivered, &name, (cause, &why(generation)))?;
        }
        way_back.end()
    }

    pub(crate) fn way_back<'a>(&'a self, channel: &'a Channel) -> Result<WayBack<'a>> {
        Ok(WayBack { bus: self, channel, inbox: channel.dir(State::Written)?, returned: Returned::default() })
    }
}

/// One pass of returns, synced once at its end.
pub(crate) struct WayBack<'a> {
    bus: &'a Bus<'a>,
    channel: &'a Channel,
    inbox: Dir,
    returned: Returned,
}

impl WayBack<'_> {
    /// As [`WayBack::take`], for one of many: what the system refuses of this one file is kept to be told, and the others
    /// go on.
    fn take_or_skip(&mut self, from: &Dir, state: State, name: &Name, cause: (Cause, &str)) -> Result<bool> {
        match self.take(from, state, name, cause) {
            Err(Error::Disk(error)) if error.is_of_one_file() => {
                self.returned.skipped.push(Stuck { file: from.path().join(name.to_string()), error });
                Ok(false)
            }
            taken => taken,
        }
    }

    /// Moves one file back; another process that was faster is no error. True if it went by this call.
    pub(crate) fn take(
        &mut self,
        from: &Dir,
        state: State,
        name: &Name,
        (cause, why): (Cause, &str),
    ) -> Result<bool> {
        let file = name.to_string();
        self.end_command(name)?;
        let told = Told { reason: Some(why), cause: Some(cause), ..Told::default() };
        let event = match cause {
            Cause::Stopped => Event::HandBack { attempt: name.attempt },
            _ => Event::GiveBack { attempt: name.attempt },
        };
        if transition(state, event)? == State::Poisoned {
            let why = format!("surfaced {} times in vain; at last {why}", name.attempt);
            let told = Told { reason: Some(&why), ..told };
            let dead = name.to(Stage::Waiting);
            let buried = bury(self.channel, from, file.as_ref(), &dead.to_string(), &why)?.is_some();
            if buried {
                self.returned.poisoned += 1;
                self.bus.moved(&self.channel.agent, &dead, State::Poisoned, told);
            }
            return Ok(buried);
        }
        let back = name.given_back();
        if matches!(cause, Cause::Released | Cause::Overdue) {
            self.bus.returning(&self.channel.agent, &back, told);
        }
        match from.rename(&file, &self.inbox, back.to_string()) {
            Ok(()) => {}
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) if error.is_exists() => {
                let buried = bury_copy(self.channel, from, name)?.is_some();
                self.returned.poisoned += usize::from(buried);
                return Ok(buried);
            }
            Err(error) => return Err(error.into()),
        }
        point("bus.back.renamed");
        self.returned.inbox += 1;
        self.bus.moved(&self.channel.agent, &back, State::Written, told);
        Ok(true)
    }

    /// Ends what a dead consumer's command left at work on a claim.
    fn end_command(&self, name: &Name) -> Result<()> {
        if let Stage::Claimed(owner) = &name.stage
            && process::probe(owner) == Life::Dead
            && self.bus.last_consumer(&self.channel.agent)?.is_some_and(|last| last.process == *owner)
        {
            end_work(&name.to_string())?;
        }
        Ok(())
    }

    /// Makes the pass durable.
    pub(crate) fn end(self) -> Result<Returned> {
        if self.returned.inbox > 0 {
            self.inbox.sync()?;
        }
        Ok(self.returned)
    }
}
