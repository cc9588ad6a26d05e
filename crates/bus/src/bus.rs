//! The bus of one home: where its channels are, and who is told of each move.

use std::cell::OnceCell;

use netsky_disk::clock;
use netsky_disk::fs::{Dir, is_folder};
use netsky_disk::hlc::SharedClock;
use netsky_disk::layout::Layout;
use netsky_model::hlc::Hlc;
use netsky_model::id::{AgentId, Generation, Sender};
use netsky_model::life::{Cause, STATES, State};
use netsky_model::name::Name;
use netsky_model::witness::{Transition, Witness};

use crate::channel::Channel;
use crate::error::{Error, Result};

/// The messages of one home.
pub struct Bus<'w> {
    pub(crate) layout: Layout,
    clock: OnceCell<SharedClock>,
    witness: &'w dyn Witness,
}

impl<'w> Bus<'w> {
    /// The bus of the home at `layout`; opens nothing yet.
    pub fn open(layout: &Layout, witness: &'w dyn Witness) -> Bus<'w> {
        Bus { layout: layout.clone(), clock: OnceCell::new(), witness }
    }

    /// Whether a message may be sent to this name: the two agents that every home has, or one with a channel.
    pub fn knows(&self, agent: &AgentId) -> bool {
        *agent == AgentId::root() || *agent == AgentId::infinity() || is_folder(self.layout.channel(agent))
    }

    /// Every agent that has a channel, in order.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn agents(&self) -> Result<Vec<AgentId>> {
        match Dir::open(self.layout.channels()) {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            opened => Ok(opened?.names()?.iter().filter_map(|name| name.parse().ok()).collect()),
        }
    }

    /// Makes the agent's channel; every folder is durable when this returns.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn create(&self, agent: &AgentId) -> Result<()> {
        Channel::create(&self.layout, agent).map(drop)
    }

    /// The channel of an agent that is known; made on demand for the two that every home has.
    pub(crate) fn channel(&self, agent: &AgentId) -> Result<Channel> {
        if !self.knows(agent) {
            return Err(Error::NoChannel(agent.clone()));
        }
        Channel::open_or_create(&self.layout, agent)
    }

    /// The channel of an agent that is known, for who only looks: nothing is made.
    pub(crate) fn channel_as_is(&self, agent: &AgentId) -> Result<Channel> {
        if !self.knows(agent) {
            return Err(Error::NoChannel(agent.clone()));
        }
        Ok(Channel::as_is(&self.layout, agent))
    }

    /// The next place in the order of the home.
    pub(crate) fn next_hlc(&self) -> Result<Hlc> {
        if self.clock.get().is_none() {
            let state = Dir::open(self.layout.state())?;
            let clock = SharedClock::open(&state, || highest(&self.layout))?;
            // Another initialisation cannot have come between: `OnceCell` is not shared between threads.
            let _ = self.clock.set(clock);
        }
        let clock = self.clock.get().expect("set just above");
        Ok(clock.next()?)
    }

    /// Tells the witness of a move that is on disk.
    pub(crate) fn moved(&self, agent: &AgentId, name: &Name, to: State, told: Told<'_>) {
        self.witness.saw(&told.transition(agent, name, to));
    }

    /// Tells the witness that a text was put before its agent; the move that records it follows.
    pub(crate) fn surfaced(&self, agent: &AgentId, name: &Name, told: Told<'_>) {
        self.witness.surfaced(&told.transition(agent, name, State::Delivered));
    }
}

/// A named place where a test stops or kills this program. Errors are injected at the system calls themselves.
pub(crate) fn point(name: &'static str) {
    let _ = netsky_disk::fault::point(name);
}

/// How far ahead of the wall a clock of ours may have been when it gave a name. What is further ahead was not named by us,
/// and must not carry the clock with it.
const AHEAD_MS: u64 = 24 * 60 * 60 * 1000;

/// The highest reading in any file name of the home: where a lost clock begins again.
fn highest(layout: &Layout) -> netsky_disk::Result<Hlc> {
    let mut highest = Hlc(0);
    let limit = Hlc::at(clock::wall().as_millisecond().unsigned_abs() + AHEAD_MS);
    let agents = match Dir::open(layout.channels()) {
        Err(error) if error.is_not_found() => return Ok(highest),
        opened => opened?.names()?,
    };
    for agent in agents.iter().filter_map(|name| name.parse::<AgentId>().ok()) {
        for state in STATES {
            let Ok(dir) = Dir::open(layout.folder(&agent, state)) else { continue };
            dir.each_name(|file| {
                let reading = file.to_str().and_then(Name::parse).map(|name| name.key.hlc);
                highest = reading.filter(|reading| *reading <= limit).map_or(highest, |r| highest.max(r));
            })?;
        }
    }
    Ok(highest)
}

/// What is known beyond the name when a move is told.
#[derive(Clone, Copy, Default)]
pub(crate) struct Told<'a> {
    pub(crate) from: Option<&'a Sender>,
    pub(crate) generation: Option<Generation>,
    pub(crate) reason: Option<&'a str>,
    pub(crate) cause: Option<Cause>,
}

impl Told<'_> {
    fn transition(self, agent: &AgentId, name: &Name, to: State) -> Transition {
        Transition {
            agent: agent.clone(),
            id: name.key.id.clone(),
            hlc: name.key.hlc,
            to,
            attempt: name.attempt,
            from: self.from.cloned(),
            generation: self.generation,
            reason: self.reason.map(str::to_owned),
            cause: self.cause,
        }
    }
}
