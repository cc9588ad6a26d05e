//! `consume`: a running reader, one per agent, that wakes by file events and takes one envelope at a time.
//!
//! Promise: while it runs nobody else consumes for this agent in this way; a message that its reader refuses comes again
//! after a pause, flagged, and never faster than that; asked to end, it ends between two messages. It may die at any
//! point: what it held returns as what any dead process held.
//!
//! Leaves to others: how a text is shown, and what a refusal is (`put`).

use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::lock::Lock;
use netsky_disk::process::{self, PidFd, Signal};
use netsky_disk::wake::Stop;
use netsky_disk::watch::{Wake, Watch};
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;
use netsky_model::process::ProcessId;
use serde::{Deserialize, Serialize};

use crate::bus::{Bus, point};
use crate::claim::{Claim, Drained, Put};
use crate::error::{Error, Result};
use crate::queue::Queue;
use crate::release::end;

/// Slow look for what gives no event: a claimant's death.
const RESCAN: Duration = Duration::from_secs(2);

/// Pause after a reader that failed; doubled for each further one in a row, up to [`LONGEST`].
const PAUSE: Duration = Duration::from_secs(1);

/// Longest pause: five failures are a dead letter within minutes, and a reader that is down for an hour is asked again
/// twice a minute.
const LONGEST: Duration = Duration::from_secs(30);

/// How long a consumer has for its end when it is asked to go: longer than it waits for the message at work.
const GRACE: Duration = Duration::from_secs(8);

/// How long the lock of a consumer that ended may take to be free.
const FREE: Duration = Duration::from_secs(1);

/// Who consumes, and how.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The incarnation that the messages are for.
    pub generation: Generation,
    /// End after so many messages; never where none.
    pub max: Option<usize>,
    /// Take the place of another consumer: it is asked to end, and killed if it does not.
    pub replace: bool,
}

/// The note in the consumer's lock.
#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    process: ProcessId,
    generation: Generation,
}

impl Bus<'_> {
    /// Puts what comes before the agent, until this process is asked to end or `max` is reached.
    ///
    /// # Errors
    /// Another consumer runs, a claim was taken from this process, no reader can be given anything, or what the file system
    /// refuses. What was surfaced before is recorded, the rest waits.
    pub fn consume(
        &self,
        agent: &AgentId,
        terms: &Terms,
        stop: &Stop,
        put: impl FnMut(&Claim) -> Put,
    ) -> Result<Drained> {
        let channel = self.channel(agent)?;
        let inbox = channel.dir(State::Written)?;
        let _only_one = self.only_consumer(agent, terms)?;
        // Watching begins before the first look, so nothing can arrive between the two unseen.
        let watch = Watch::new(&[inbox.path()])?;
        let mut consumer = Consumer { bus: self, agent, terms, stop, watch, put, done: Drained::default() };
        while !consumer.look()? {
            point("bus.consume.idle");
            consumer.watch.wait_or_stop(RESCAN, stop)?;
        }
        Ok(consumer.done)
    }

    /// The lock that makes one consumer of an agent. A newer incarnation takes it from an older one, whose time is over.
    fn only_consumer(&self, agent: &AgentId, terms: &Terms) -> Result<Lock> {
        let path = self.layout.consumer_lock(agent);
        let held = match Lock::try_take(&path)? {
            Some(lock) => Some(lock),
            None => {
                let holder: Option<Holder> = Lock::noted(&path);
                let is_older = |holder: &Holder| {
                    holder.generation > Generation::NONE && holder.generation < terms.generation
                };
                match holder {
                    Some(holder) if terms.replace || is_older(&holder) => {
                        ask_to_end(&holder.process)?;
                        Lock::take_within(&path, FREE)?
                    }
                    _ => None,
                }
            }
        };
        let Some(mut lock) = held else {
            let process = Lock::noted::<Holder>(&path).map(|holder| holder.process);
            let here = process::identity()?.ns;
            let (pid, elsewhere) = process.map_or((None, false), |held| (Some(held.pid), held.ns != here));
            return Err(Error::Consumed { agent: agent.clone(), pid, elsewhere, asked: terms.replace });
        };
        // While the note still says whose it was.
        self.return_dead_claims(agent)?;
        lock.note(&Holder { process: process::identity()?, generation: terms.generation })?;
        Ok(lock)
    }

    /// Whether a process was the last consumer of an agent: then a command of it may be at work.
    pub(crate) fn was_consumer(&self, agent: &AgentId, process: &ProcessId) -> bool {
        let last: Option<Holder> = Lock::noted(self.layout.consumer_lock(agent));
        last.is_some_and(|last| last.process == *process)
    }
}

/// Asks a consumer to end, and kills it if it does not: a stopped one hears nothing.
fn ask_to_end(process: &ProcessId) -> Result<()> {
    if let Some(held) = PidFd::open(process)? {
        held.signal(Signal::TERM)?;
        if process::is_stopped(process) || !held.wait(GRACE)? {
            end(process)?;
        }
    }
    Ok(())
}

/// One consumer at work.
struct Consumer<'a, F> {
    bus: &'a Bus<'a>,
    agent: &'a AgentId,
    terms: &'a Terms,
    stop: &'a Stop,
    watch: Watch,
    put: F,
    done: Drained,
}

impl<F: FnMut(&Claim) -> Put> Consumer<'_, F> {
    /// Takes everything that waits. True when it is time to end.
    fn look(&mut self) -> Result<bool> {
        let channel = self.bus.channel(self.agent)?;
        let mut queue = Queue::open(self.bus, &channel, self.terms.generation)?;
        let mut failures = 0;
        loop {
            if self.is_over() {
                return Ok(true);
            }
            let Some(taken) = queue.take_next()? else { return Ok(false) };
            let Some(claim) = self.done.aside.sort(taken) else { continue };
            self.bus.hold(self.agent, &queue.folders, std::slice::from_ref(&claim))?;
            match self.surface(claim)? {
                Step::On => failures = 0,
                Step::Pause => {
                    failures += 1;
                    if self.pause(failures)? {
                        return Ok(true);
                    }
                    // What was refused is the oldest again.
                    queue = Queue::open(self.bus, &channel, self.terms.generation)?;
                }
                Step::End => return Ok(true),
            }
        }
    }

    fn surface(&mut self, claim: Claim) -> Result<Step> {
        let id = claim.id().clone();
        match self.bus.put_before(claim, self.terms.generation, &mut self.put)? {
            Put::Taken => {
                self.done.surfaced += 1;
                Ok(Step::On)
            }
            Put::Refused(_) => Ok(Step::Pause),
            Put::Stopped => Ok(Step::End),
            Put::Broken(source) => Err(Error::Surface { id, source }),
            Put::Unread(source) => Err(Error::Unread { id, source }),
        }
    }

    fn is_over(&self) -> bool {
        self.stop.came() || self.terms.max.is_some_and(|max| self.done.surfaced >= max)
    }

    /// Waits after failures in a row; true when it is time to end.
    fn pause(&self, failures: u32) -> Result<bool> {
        let until = clock::boot() + LONGEST.min(PAUSE * 2_u32.saturating_pow(failures - 1));
        loop {
            let left = until.saturating_sub(clock::boot());
            if left.is_zero() {
                return Ok(self.is_over());
            }
            if self.watch.wait_or_stop(left, self.stop)? == Wake::Timeout && self.is_over() {
                return Ok(true);
            }
        }
    }
}

/// How it goes on after one message.
enum Step {
    On,
    Pause,
    End,
}
