//! The bus of one home: where its channels are, and who is told of each move.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use netsky_disk::fs::{Dir, is_real_folder};
use netsky_disk::hlc::SharedClock;
use netsky_disk::layout::Layout;
use netsky_disk::lock::{self, Lock};
use netsky_disk::{clock, key, state};
use netsky_model::envelope::{Envelope, Key};
use netsky_model::hlc::Hlc;
use netsky_model::id::{AgentId, Generation, Sender};
use netsky_model::life::{Cause, STATES, State};
use netsky_model::name::Name;
use netsky_model::quota::Limits;
use netsky_model::witness::{Transition, Witness};

use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::quota::Usage;

/// What a schedule says of an envelope of its own: how many instants passed beside the one that it is for. The schedule is
/// another crate's.
pub type Missed = fn(&Layout, &Envelope) -> Option<u64>;

/// The messages of one home.
pub struct Bus<'w> {
    pub(crate) layout: Layout,
    clock: RefCell<Option<SharedClock>>,
    /// Until when nobody waits for the clock's lock again, by the boot clock, and what the last one heard who did.
    kept: RefCell<Option<(Duration, netsky_disk::Error)>>,
    key: OnceCell<Key>,
    pub(crate) limits: Limits,
    pub(crate) usage: RefCell<BTreeMap<AgentId, Usage>>,
    missed: Missed,
    /// Whether this constellation is the one that speaks to the owner.
    root: bool,
    witness: &'w dyn Witness,
}

impl<'w> Bus<'w> {
    /// The bus of the home at `layout`; opens nothing yet.
    pub fn open(layout: &Layout, witness: &'w dyn Witness) -> Bus<'w> {
        Bus {
            layout: layout.clone(),
            clock: RefCell::default(),
            kept: RefCell::default(),
            key: OnceCell::new(),
            limits: Limits::default(),
            usage: RefCell::default(),
            missed: |_, _| None,
            root: true,
            witness,
        }
    }

    /// The same with the limits of this home.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Bus<'w> {
        Bus { limits, ..self }
    }

    /// The same in a constellation that is, or is not, the one that speaks to the owner.
    #[must_use]
    pub fn with_root(self, root: bool) -> Bus<'w> {
        Bus { root, ..self }
    }

    /// The same where a schedule says what passed while an envelope of it waited.
    #[must_use]
    pub fn with_missed(self, missed: Missed) -> Bus<'w> {
        Bus { missed, ..self }
    }

    /// How many instants an envelope that is about to be shown stands for, beside its own.
    pub(crate) fn missed(&self, envelope: &Envelope) -> Option<u64> {
        (self.missed)(&self.layout, envelope).or(envelope.missed)
    }

    /// Whether the home vouches for who sent an envelope that lies in this mailbox; not where its key does not read.
    pub(crate) fn vouches(&self, envelope: &Envelope, mailbox: &AgentId) -> bool {
        // Most mail has no mac, and needs no key.
        envelope.mac.is_some() && self.key().is_some_and(|key| envelope.is_authentic(&key, mailbox))
    }

    /// The home's key. Only what was read is kept: the next envelope may fare better.
    fn key(&self) -> Option<Key> {
        self.key.get().copied().or_else(|| {
            let read = key::load(&self.layout).ok().flatten()?;
            Some(*self.key.get_or_init(|| read))
        })
    }

    /// Whether a message may be sent to this name: the two agents that every home has and its owner, or one with a channel. What is no
    /// folder there, or cannot be looked at, is not *no channel*: opening it says what is wrong.
    pub fn knows(&self, agent: &AgentId) -> bool {
        let is_there = || state::exists(self.layout.channel(agent)).unwrap_or(true);
        [AgentId::root(), AgentId::infinity(), AgentId::owner()].contains(agent) || is_there()
    }

    /// Whether a sender may write to whom it wants: the owner hears agent0 and the watchdog of his root constellation, who pass on
    /// what the others have to say.
    pub(crate) fn may_reach(&self, from: &Sender, to: &AgentId) -> Result<()> {
        let why = match [AgentId::root(), AgentId::infinity()].map(Sender::from).contains(from) {
            _ if *to != AgentId::owner() => return Ok(()),
            _ if !self.root => "only the root constellation speaks to the owner: tell it there",
            true => return Ok(()),
            false => "the owner hears agent0 alone: tell it",
        };
        Err(Error::Sender { from: from.clone(), why: why.to_owned() })
    }

    /// Whether something that is no folder stands where the agent's channel should; a link to one is none, wherever it leads.
    pub fn is_blocked(&self, agent: &AgentId) -> bool {
        let channel = self.layout.channel(agent);
        !is_real_folder(&channel) && state::exists(&channel).unwrap_or(true)
    }

    /// As [`Layout::channel_agents`].
    ///
    /// # Errors
    /// As there.
    pub fn agents(&self) -> Result<Vec<AgentId>> {
        Ok(self.layout.channel_agents()?)
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
        self.need_channel(agent)?;
        Channel::open_or_create(&self.layout, agent)
    }

    /// The channel of an agent that is known, for who only looks: nothing is made.
    pub(crate) fn channel_as_is(&self, agent: &AgentId) -> Result<Channel> {
        self.need_channel(agent)?;
        Ok(Channel::as_is(&self.layout, agent))
    }

    /// What failed because the home was removed or moved away under this process is said to be that.
    pub(crate) fn or_no_home<T>(&self, done: Result<T>) -> Result<T> {
        match done {
            Err(Error::Disk(_) | Error::NoChannel(_) | Error::Unseated(_))
                if !state::exists(self.layout.home_json()).unwrap_or(true) =>
            {
                Err(Error::NoHome(self.layout.home().to_owned()))
            }
            done => done,
        }
    }

    fn need_channel(&self, agent: &AgentId) -> Result<()> {
        // One look is enough where all is well: a tick comes here many times for each agent.
        if is_real_folder(self.layout.channel(agent)) {
            return Ok(());
        }
        if !self.knows(agent) {
            return Err(Error::NoChannel(agent.clone()));
        }
        // What is in a channel is opened by its path, so whoever put a link here would have mail go where that leads.
        if self.is_blocked(agent) {
            Dir::open(self.layout.channel(agent))?;
        }
        Ok(())
    }

    /// The next place in the order of the home. Where somebody kept the clock's lock for longer than one waits, all who
    /// ask in the time of one more wait and find it kept hear the same at once: a batch, or a tick, waits once and not for
    /// each message.
    pub(crate) fn next_hlc(&self) -> Result<Hlc> {
        let mut kept = self.kept.borrow_mut();
        if let Some((until, error)) = &*kept
            && clock::boot() < *until
            && Lock::is_held(&error.path)?
        {
            return Err(error.again().into());
        }
        let reading = self.reading();
        let refused = reading.as_ref().err().filter(|error| error.is_kept());
        *kept = refused.map(|error| (clock::boot() + lock::PATIENCE, error.again()));
        Ok(reading?)
    }

    fn reading(&self) -> netsky_disk::Result<Hlc> {
        let mut clock = self.clock.borrow_mut();
        // Of two clock files each would give an order of its own, so a file that lost its name is left.
        if clock.as_ref().is_none_or(SharedClock::is_lost) {
            *clock = Some(SharedClock::open(&Dir::open(self.layout.state())?)?);
        }
        let clock = clock.as_ref().expect("set just above");
        clock.next(|| highest(&self.layout))
    }

    /// Tells the witness of a move that is on disk.
    pub(crate) fn moved(&self, agent: &AgentId, name: &Name, to: State, told: Told<'_>) {
        self.witness.saw(&told.transition(agent, name, to));
    }

    /// Tells the witness, and for good, that these, which reached their end in a state, go: each as it lies there, and
    /// the reason of a dead letter.
    pub(crate) fn removal<'n>(
        &self,
        agent: &AgentId,
        from: State,
        ended: impl Iterator<Item = (&'n Name, Option<String>)>,
    ) -> io::Result<()> {
        let last = |(name, reason): (&Name, Option<String>)| {
            let generation = name.stage.generation();
            Told { generation, reason: reason.as_deref(), ..Told::default() }.transition(agent, name, from)
        };
        let gone: Vec<Transition> = ended.map(last).collect();
        if gone.is_empty() { Ok(()) } else { self.witness.removed(&gone) }
    }

    /// Tells the witness that an envelope is about to go back although nobody died of it.
    pub(crate) fn returning(&self, agent: &AgentId, name: &Name, told: Told<'_>) {
        self.witness.returning(&told.transition(agent, name, State::Written));
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

/// The highest reading in any file name of the home that a clock of ours can have given: below it no clock begins again.
///
/// However far ahead of the wall: names that were given while the wall clock stood wrong are names.
fn highest(layout: &Layout) -> netsky_disk::Result<Hlc> {
    let mut highest = Hlc(0);
    for agent in layout.channel_agents()? {
        for state in STATES {
            let seen = Dir::open(layout.folder(&agent, state)).and_then(|dir| {
                dir.each_name(|file| {
                    let reading = file.to_str().and_then(Name::parse).map(|name| name.key.hlc);
                    highest = highest.max(reading.filter(|reading| *reading < Hlc::FAR).unwrap_or(highest));
                })
            });
            match seen {
                // To whom nothing can be opened every folder looks empty.
                Err(error) if error.is_out_of_descriptors() => return Err(error),
                // Missing, or in a way that must not stop the sends to all others.
                Err(_) | Ok(()) => {}
            }
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
