//! Mail of an agent: from its inbox before its program, and to its end by the turn that took it.
//!
//! A message is put before the program first and recorded as delivered second. Who dies in between leaves a claim of a dead
//! process: it comes again under the same key, which the worker knows ([`crate::driver::Write`]), and the program too.

use std::rc::Rc;
use std::time::Duration;

use netsky_bus::{Claim, Put};
use netsky_disk::clock;
use netsky_kernel::worker_client::WorkerClient;
use netsky_model::id::EnvelopeId;
use netsky_model::life::State;

use super::slot::{Result, Slot, Trouble as Stuck};
use crate::driver::{Message, MessageKey, Out, Room, Trouble};

/// Most messages that are put before a program in one turn: more would be one long list of orders.
const BATCH: usize = 16;
/// Most of their text together.
const BATCH_BYTES: usize = 256 << 10;
/// First pause after a turn that failed; doubled for each further one in a row.
const FIRST: Duration = Duration::from_secs(5);
/// Longest pause: one try within it tells that the cause has passed.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// Why mail waits though its program is free.
#[derive(Debug, Default)]
pub(super) struct Hold {
    failures: u32,
    until: Option<Duration>,
}

impl Hold {
    /// A turn failed.
    fn failed(&mut self, trouble: Trouble, now: Duration) {
        // Who has to log in, or to choose another model, takes more than a moment.
        let first = match trouble {
            Trouble::Auth | Trouble::Model => FIRST * 12,
            Trouble::Overloaded | Trouble::Silent | Trouble::Other => FIRST,
        };
        let pause = LONGEST.min(first * 2_u32.saturating_pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now + pause);
    }

    fn ended_well(&mut self) {
        *self = Hold::default();
    }

    /// Another program may fare better at once.
    pub(super) fn new_program(&mut self) {
        self.until = None;
    }

    /// When mail is put before the program again, by the boot clock; none if nothing holds it.
    pub(super) fn due(&self) -> Option<Duration> {
        self.until
    }

    fn holds(&mut self, now: Duration) -> bool {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
        }
        self.until.is_some()
    }
}

impl Slot<'_> {
    /// Puts what waits before a program that is free.
    pub(super) fn mail(&mut self, worker: &mut WorkerClient, epoch: u64) -> Result<()> {
        if !self.pending.is_empty() || self.driver.room() != Room::Free || self.hold.holds(clock::boot()) {
            return Ok(());
        }
        // After a failure one message is enough to see whether it goes by now.
        let most = if self.hold.failures > 0 || !self.driver.queues() { 1 } else { BATCH };
        let (mut room, mut first) = (BATCH_BYTES, true);
        let batch = self.bus.claim(self.agent, most, self.book.generation)?;
        for claim in batch.claims {
            let text = claim.rendered();
            let fits = first || text.len() <= room;
            if !fits || !self.pending.is_empty() {
                self.bus.put_back(claim)?;
                room = 0;
                continue;
            }
            room = room.saturating_sub(text.len());
            first = false;
            self.put(claim, text, worker, epoch)?;
        }
        if let Some(stuck) = batch.aside.skipped.first() {
            self.tell(format!("a message stays where it is: {}", stuck.error));
        }
        match batch.ended {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    fn put(&mut self, claim: Claim, text: String, worker: &mut WorkerClient, epoch: u64) -> Result<()> {
        let (id, key) = (claim.id().clone(), MessageKey::of(claim.id()));
        let generation = self.book.generation;
        if self.driver.has_finished(&key) {
            // Its turn was over, and that was not recorded.
            self.bus.surface(claim, generation, |_| Put::Taken)?;
            self.bus.ack(self.agent, id.as_str())?;
            return Ok(());
        }
        let (before, mut step) = (self.driver.memory(), Out::default());
        self.driver.deliver(&Message { key, text }, false, &mut step);
        let (bus, mut failed) = (Rc::clone(&self.bus), None);
        let surfaced = bus.surface(claim, generation, |_| {
            match self.shown(step, &before, worker, epoch) {
                // Before it is recorded: whoever comes after a death must know whom the program's receipt is about.
                Ok(true) => {
                    self.write_book().map_or_else(|error| broken(&mut failed, error), |()| Put::Taken)
                }
                Ok(false) => Put::Unread(std::io::ErrorKind::WouldBlock.into()),
                Err(error) => broken(&mut failed, error),
            }
        });
        self.is_unwritten = true;
        match (surfaced, failed) {
            (_, Some(failed)) => Err(failed),
            // It has no room now, and the message waits as it did.
            (Err(netsky_bus::Error::Unread { .. }), None) => Ok(()),
            (surfaced, None) => Ok(surfaced?),
        }
    }

    /// Gives a message to the worker; false if that has no room for it, and then it has nothing of it, and the driver knows
    /// what it knew before.
    fn shown(
        &mut self,
        step: Out,
        before: &serde_json::Value,
        worker: &mut WorkerClient,
        epoch: u64,
    ) -> Result<bool> {
        let at = self.book.offset;
        self.take(step, at)?;
        self.flush(worker, epoch)?;
        if self.pending.is_empty() {
            return Ok(true);
        }
        self.pending.clear();
        if let Some(driver) = crate::driver::driver_of(&self.book.runtime, before) {
            self.driver = driver;
        }
        Ok(false)
    }

    /// The turn that took them is over, well or because somebody stopped it.
    pub(super) fn finished(&mut self, keys: &[MessageKey]) -> Result<()> {
        self.hold.ended_well();
        for key in keys {
            let Some(id) = self.envelope(key)? else { continue };
            match self.bus.ack(self.agent, id.as_str()) {
                Ok(_) | Err(netsky_bus::Error::NoEnvelope { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The turn that took them failed: they come again, once whatever it was may have passed.
    pub(super) fn failed(&mut self, keys: &[MessageKey], trouble: Trouble, why: &str) -> Result<()> {
        self.hold.failed(trouble, clock::boot());
        for key in keys {
            self.driver.forget(key);
            self.hand_back(key, &format!("its turn failed: {why}"))?;
        }
        Ok(())
    }

    /// It comes again, but not at once: a program that refuses one may refuse the next as well.
    pub(super) fn untaken(&mut self, key: &MessageKey) -> Result<()> {
        self.hold.failed(Trouble::Other, clock::boot());
        self.hand_back(key, "its program did not keep it")
    }

    fn hand_back(&mut self, key: &MessageKey, why: &str) -> Result<()> {
        if let Some(id) = self.envelope(key)? {
            self.bus.hand_back(self.agent, &id, why)?;
        }
        Ok(())
    }

    /// The envelope that a key stands for; none of words that were netsky's own.
    fn envelope(&self, key: &MessageKey) -> std::result::Result<Option<EnvelopeId>, Stuck> {
        let own: Option<EnvelopeId> = key.as_str().parse().ok();
        if let Some(id) = own.filter(EnvelopeId::is_uuid_v7) {
            return Ok(Some(id));
        }
        for state in [State::Delivered, State::Written] {
            let listed = self.bus.list(self.agent, Some(state))?;
            let mut ids = listed.into_iter().filter_map(|entry| Some(entry.name?.key.id));
            if let Some(id) = ids.find(|id| MessageKey::of(id) == *key) {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }
}

/// Whatever failed, the program may have been shown it.
fn broken(failed: &mut Option<Stuck>, error: Stuck) -> Put {
    *failed = Some(error);
    Put::Broken(std::io::ErrorKind::BrokenPipe.into())
}
