//! Mail of an agent: from its inbox before its program, and to its end by the turn that took it.
//!
//! A message is put before the program first and recorded as delivered second. Who dies in between leaves a claim of a dead
//! process: it comes again under the same key, which the worker knows ([`crate::driver::Write`]), and the program too.

use std::rc::Rc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use netsky_bus::{Claim, PassedBy, Put};
use netsky_disk::{clock, fault, state};
use netsky_kernel::worker_client::{WorkerClient, WorkerError};
use netsky_ledger::PAGE;
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, EnvelopeId, Generation, Sender};
use netsky_model::life::State;
use netsky_model::lifecycle::LifecycleState;
use netsky_model::restart::{Inflight, handoff_id};

use super::book::Waits;
use super::slot::{RESCAN, Result, Slot, Trouble as Stuck};
use crate::driver::{Message, MessageKey, Out, Room, Trouble};

/// The kind of what the owner says to an agent that may be in a turn: it goes into that.
pub const URGENT: &str = "owner";
/// The kind of what one agent0 leaves to the next.
const HANDOFF: &str = "handoff";
/// Most messages that are put before a program in one turn: more would be one long list of orders.
const BATCH: usize = 16;
/// Most of their text together.
const BATCH_BYTES: usize = 256 << 10;
/// Most messages that a program has in its hands: the end of a turn names no more of them than a driver heeds.
const IN_HAND: usize = 32;
/// First pause after a turn that failed; doubled for each further one in a row. The program has tried for minutes by then, and
/// each of ours is an attempt of the message.
const FIRST: Duration = Duration::from_secs(30);
/// The same where somebody has to log in, or to choose another model: a new program is tried at once.
const SOMEBODY: Duration = Duration::from_secs(60 * 60);
/// Longest pause: one try within it tells that the cause has passed.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// Why mail waits though its program is free.
#[derive(Debug, Default)]
pub(super) struct Hold {
    failures: u32,
    until: Option<Duration>,
    /// Messages that were not kept once.
    untaken: Vec<MessageKey>,
}

impl Hold {
    /// What an earlier process wrote down of it.
    pub(super) fn of(waits: Option<&Waits>, wall: Timestamp, now: Duration) -> Hold {
        let Some(waits) = waits else { return Hold::default() };
        let left = waits.until.duration_since(wall).try_into().unwrap_or(Duration::ZERO).min(SOMEBODY * 6);
        Hold {
            failures: waits.failures,
            until: Some(now + left).filter(|_| !left.is_zero()),
            untaken: Vec::new(),
        }
    }

    /// A turn failed; how long nothing is tried.
    fn failed(&mut self, trouble: Trouble, now: Duration) -> Duration {
        let (first, longest) = match trouble {
            Trouble::Auth | Trouble::Model => (SOMEBODY, SOMEBODY * 6),
            Trouble::Overloaded | Trouble::Silent | Trouble::Other => (FIRST, LONGEST),
        };
        let pause = longest.min(first.saturating_mul(2_u32.saturating_pow(self.failures)));
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now + pause);
        pause
    }

    /// Messages of one moment were not kept: the first time by a death, or a race, that is over.
    fn untaken(&mut self, keys: &[MessageKey], now: Duration) -> Option<Duration> {
        if keys.iter().any(|key| self.untaken.contains(key)) || self.untaken.len() + keys.len() > IN_HAND {
            return Some(self.failed(Trouble::Other, now));
        }
        self.untaken.extend_from_slice(keys);
        self.failures = self.failures.max(1);
        None
    }

    fn ended_well(&mut self) {
        *self = Hold::default();
    }

    /// It may go by now: another program fares better, or the cause is mended.
    pub(super) fn end(&mut self) {
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
    /// Puts what waits before a program that is free. One claim at a time: whoever dies here, or meets an error, has no other
    /// message in his hands that nobody was shown.
    pub(super) fn mail(&mut self, worker: &mut WorkerClient, epoch: u64) -> Result<()> {
        if self.hold.holds(clock::boot()) {
            return Ok(());
        }
        if !self.is_free() {
            return self.steer(worker, epoch);
        }
        // It holds nothing any more that the owner could have wanted stopped.
        self.book.stopped = None;
        if std::mem::take(&mut self.may_hold_claims) {
            // This process lives, so nobody else gives it back.
            self.bus.return_own_claims(self.agent)?;
        }
        if self.comes_first(worker, epoch)? || self.awaits_handoff()? {
            return Ok(());
        }
        let mut behind = PassedBy::default();
        // After a failure one message is enough to see whether it goes by now.
        let most = if self.hold.failures > 0 || !self.driver.queues() { 1 } else { BATCH };
        let mut bytes = 0;
        for _ in 0..most {
            if !self.seat.as_ref().is_some_and(|seat| seat.has_its_name().unwrap_or(false)) {
                return Err(netsky_bus::Error::Unseated(self.agent.clone()).into());
            }
            let Some(claim) = self.next_claim(&mut behind)? else { return Ok(()) };
            let text = claim.rendered();
            bytes += text.len();
            if bytes > BATCH_BYTES && bytes > text.len() {
                return Ok(self.bus.put_back(claim)?);
            }
            if !self.put((claim, text), false, worker, epoch)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether a restart is under way whose handoff is not there yet: nothing goes before it. Where it comes to nothing, the marker
    /// of it goes.
    fn awaits_handoff(&self) -> Result<bool> {
        if !self.is_new_mind() {
            return Ok(false);
        }
        let inflight = match state::read_json::<Inflight>(self.shared.layout.restart_inflight()) {
            // The tick sets it aside.
            Err(error) if error.is_damage() => None,
            read => read?,
        };
        let Some(inflight) = inflight else { return Ok(false) };
        Ok(!self.bus.has(self.agent, &handoff_id(&inflight.id))?)
    }

    /// Whether this is an agent0 that knows nothing yet. One that goes on with its conversation needs no word first, and takes a
    /// message that it may know by its place in that.
    fn is_new_mind(&self) -> bool {
        let goes_on = self.book.conversation.as_ref().is_some_and(|conversation| conversation.begun);
        *self.agent == AgentId::root() && !self.book.answered && !goes_on
    }

    /// What goes in next: to a new mind a handoff, however much waits before it.
    fn next_claim(&mut self, behind: &mut PassedBy) -> Result<Option<Claim>> {
        let generation = self.book.generation;
        if self.is_new_mind() {
            let is_handoff = |envelope: &Envelope| {
                envelope.kind.as_deref() == Some(HANDOFF) && envelope.from == AgentId::infinity().into()
            };
            if let Some(claim) = self.bus.claim_first(self.agent, generation, behind, is_handoff)? {
                return Ok(Some(claim));
            }
        }
        let batch = self.bus.claim(self.agent, 1, generation)?;
        if let Some(stuck) = batch.aside.skipped.first() {
            self.tell(format!("a message stays where it is: {}", stuck.error));
        }
        match batch.claims.into_iter().next() {
            None => batch.ended.map_or(Ok(None), |error| Err(error.into())),
            claim => Ok(claim),
        }
    }

    /// Puts what does not wait for the end of a turn before a program that is in one: what the owner says as the owner. Words
    /// of netsky's own have their turn for themselves.
    fn steer(&mut self, worker: &mut WorkerClient, epoch: u64) -> Result<()> {
        let takes = self.pending.is_empty()
            && self.driver.room() == Room::Steers
            && self.driver.doing().is_busy()
            && self.driver.holds() < IN_HAND
            && self.book.lifecycle < LifecycleState::Dying
            && !self.has_own_words();
        if !takes || !std::mem::take(&mut self.has_news) {
            return Ok(());
        }
        let is_urgent = |envelope: &Envelope| {
            envelope.kind.as_deref() == Some(URGENT) && envelope.from == Sender::owner()
        };
        let (bus, generation) = (Rc::clone(&self.bus), self.book.generation);
        let claim = bus.claim_first(self.agent, generation, &mut self.passed_by, is_urgent)?;
        let Some(claim) = claim else { return Ok(()) };
        // There may be another one: nobody wakes us for that.
        self.has_news = true;
        let text = claim.rendered();
        match self.put((claim, text), true, worker, epoch)? {
            true => self.steer(worker, epoch),
            false => Ok(()),
        }
    }

    /// Whether its program takes mail, but for what holds that.
    pub(super) fn is_free(&self) -> bool {
        self.pending.is_empty() && self.driver.room() == Room::Free
    }

    /// False if the worker has no room for it, or for any other now.
    fn put(
        &mut self,
        (claim, text): (Claim, String),
        steer: bool,
        worker: &mut WorkerClient,
        epoch: u64,
    ) -> Result<bool> {
        let (id, key) = (claim.id().clone(), MessageKey::of(claim.id()));
        let generation = self.book.generation;
        if self.driver.has_finished(&key) {
            // Its turn was over, and that was not recorded.
            self.bus.surface(claim, generation, |_| Put::Taken)?;
            self.bus.ack(self.agent, id.as_str())?;
            return Ok(true);
        }
        let (before, mut step) = (self.driver.memory(), Out::default());
        self.driver.deliver(&Message { key, text }, steer, &mut step);
        let (bus, mut failed) = (Rc::clone(&self.bus), None);
        let surfaced = bus.surface(claim, generation, |_| {
            match self.shown(step, &before, worker, epoch) {
                // Before it is recorded: whoever comes after a death must know whom the program's receipt is about.
                Ok(true) => {
                    point("drivers.put.shown");
                    self.keep_book();
                    point("drivers.put.kept");
                    Put::Taken
                }
                Ok(false) => Put::Unread(std::io::ErrorKind::WouldBlock.into()),
                Err(error) => broken(&mut failed, error),
            }
        });
        self.is_unwritten = true;
        match (surfaced, failed) {
            (_, Some(failed)) => Err(failed),
            // It has no room now, and the message waits as it did.
            (Err(netsky_bus::Error::Unread { .. }), None) => Ok(false),
            (surfaced, None) => {
                surfaced?;
                Ok(true)
            }
        }
    }

    /// Gives a message to the worker; false if that has no room for it, and then it has nothing of it, and the driver knows
    /// what it knew before.
    pub(super) fn shown(
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
        self.book.waits = None;
        for key in keys {
            let Some(id) = self.envelope(key)? else { continue };
            match self.bus.ack(self.agent, id.as_str()) {
                Ok(_) | Err(netsky_bus::Error::NoEnvelope { .. }) => {}
                Err(netsky_bus::Error::Disk(error)) if !error.is_of_one_file() => return Err(error.into()),
                // Of this one alone: it comes again, and its transcript says that it was answered.
                Err(error) => self.tell(format!("{id} was finished and could not be acked: {error}")),
            }
        }
        Ok(())
    }

    /// The turn that took them failed: they come again, once whatever it was may have passed.
    pub(super) fn failed(&mut self, keys: &[MessageKey], trouble: Trouble, why: &str) -> Result<()> {
        let pause = self.hold.failed(trouble, clock::boot());
        for key in keys {
            self.driver.forget(key);
            self.hand_back(key, &format!("its turn failed: {why}"))?;
        }
        point("drivers.turn.handed-back");
        self.waits(pause, &format!("a turn failed: {why}"), Some(trouble));
        self.page(trouble, why);
        Ok(())
    }

    /// The turn that took them was cut, by nobody here: they come again.
    pub(super) fn cut(&mut self, keys: &[MessageKey]) -> Result<()> {
        keys.iter().for_each(|key| self.driver.forget(key));
        // Of a turn that had none nobody waits.
        if keys.is_empty() { Ok(()) } else { self.untaken(keys, "its turn was cut") }
    }

    /// What nobody but a person mends is a page: one for each generation that meets it. What the record does not take is told to it
    /// again with the next look.
    fn page(&mut self, trouble: Trouble, why: &str) {
        let Some(what) = trouble.remedy() else { return };
        let (agent, generation) = (self.agent, self.book.generation);
        let lineage = &self.book.lineage;
        let key = format!("cannot-work.{lineage}.g{generation}.{}", trouble.word());
        let reason = format!("{agent} is up and cannot work: {what}: {why}");
        let condition = format!("cannot-work.{agent}.{}", trouble.word());
        let data = serde_json::json!({
            "condition": condition, "agent": agent, "generation": generation, "reason": reason,
        });
        self.unpaged.push((clock::boot(), key, data));
        self.pages();
    }

    /// It does not come back as it was, and that is the owner's to know.
    pub(super) fn conversation_lost(&mut self, id: &str, generation: Generation) {
        let (agent, lineage) = (self.agent, &self.book.lineage);
        let key = format!("conversation-lost.{lineage}.g{generation}");
        let reason = format!(
            "{agent} knows nothing of before: its conversation {id} is gone or does not read where its program keeps them, and another begins"
        );
        let data = serde_json::json!({
            "condition": format!("conversation-lost.{agent}"), "agent": agent, "generation": generation,
            "conversation": id, "reason": reason,
        });
        self.unpaged.push((clock::boot(), key, data));
        self.pages();
    }

    /// Tells what was to be a page and is none yet.
    pub(super) fn pages(&mut self) {
        // A record that is kept by somebody takes seconds each time.
        let (due, mut left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.unpaged).into_iter().partition(|(due, ..)| *due <= clock::boot());
        for (_, key, data) in due {
            if !self.record(PAGE, &key, data.clone()) {
                left.push((clock::boot() + RESCAN, key, data));
            }
        }
        self.unpaged = left;
    }

    /// Says until when mail waits, and why.
    fn waits(&mut self, pause: Duration, why: &str, trouble: Option<Trouble>) {
        let until =
            SignedDuration::try_from(pause).ok().and_then(|pause| clock::wall().checked_add(pause).ok());
        let Some(until) = until else { return };
        (self.shared.said)(&format!("{}: {why}; mail waits until {until:.0}", self.agent));
        self.book.waits = Some(Waits { until, why: why.to_owned(), failures: self.hold.failures, trouble });
    }

    /// They come again, at once the first time: a program that refuses one each time may refuse the next as well.
    pub(super) fn untaken(&mut self, keys: &[MessageKey], why: &str) -> Result<()> {
        if let Some(pause) = self.hold.untaken(keys, clock::boot()) {
            self.waits(pause, why, None);
        }
        keys.iter().try_for_each(|key| self.hand_back(key, why))
    }

    fn hand_back(&mut self, key: &MessageKey, why: &str) -> Result<()> {
        let Some(id) = self.envelope(key)? else { return Ok(()) };
        match self.bus.hand_back(self.agent, &id, why) {
            Err(netsky_bus::Error::Disk(error)) if !error.is_of_one_file() => return Err(error.into()),
            // Of this one alone: its successor's start gives it back.
            Err(error) => self.tell(format!("{id} could not be given back: {error}")),
            Ok(_) => {}
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

/// Where a test ends this process; nothing else can be asked for here.
pub(super) fn point(name: &'static str) {
    let _ = fault::point(name);
}

/// The program may have been shown it, but for what its worker refused; neither says anything against the message.
fn broken(failed: &mut Option<Stuck>, error: Stuck) -> Put {
    let is_unread = matches!(error, Stuck::Replaced | Stuck::Worker(WorkerError::Refused(_)));
    *failed = Some(error);
    if is_unread { Put::Unread(std::io::ErrorKind::WouldBlock.into()) } else { Put::Stopped }
}

#[cfg(test)]
mod tests {
    use netsky_kernel::frame::RefusalKind;

    use super::*;

    fn at(secs: u64) -> Duration {
        Duration::from_secs(1000 + secs)
    }

    #[test]
    fn each_failure_in_a_row_doubles_the_pause_up_to_its_bound_and_one_that_ends_well_forgets_them() {
        let pauses = |trouble| {
            let mut hold = Hold::default();
            [0; 9].map(|_| hold.failed(trouble, at(0)).as_secs())
        };
        let minutes = [30, 60, 120, 240, 480, 960, 1800, 1800, 1800];
        assert_eq!(pauses(Trouble::Overloaded), minutes);
        assert_eq!((pauses(Trouble::Silent), pauses(Trouble::Other)), (minutes, minutes));
        let hours = [1, 2, 4, 6, 6, 6, 6, 6, 6].map(|hours| hours * 3600);
        assert_eq!(
            (pauses(Trouble::Auth), pauses(Trouble::Model)),
            (hours, hours),
            "somebody has to see to it"
        );
        let mut hold = Hold::default();
        hold.failed(Trouble::Other, at(0));
        assert!(hold.holds(at(29)) && !hold.holds(at(30)));
        hold.ended_well();
        assert_eq!(hold.failed(Trouble::Other, at(60)), FIRST);
    }

    #[test]
    fn a_pause_goes_on_over_a_death_of_this_process_and_no_clock_makes_it_longer_than_any() {
        let wall = Timestamp::from_second(1_790_000_000).expect("in range");
        let waits = |secs: i64| Waits {
            until: Timestamp::from_second(1_790_000_000 + secs).expect("in range"),
            why: String::new(),
            failures: 2,
            trouble: None,
        };
        for (secs, due) in [(40, Some(at(40))), (0, None), (-40, None), (1_000_000, Some(at(6 * 3600)))] {
            let mut hold = Hold::of(Some(&waits(secs)), wall, at(0));
            assert_eq!(hold.due(), due, "{secs}");
            assert_eq!(hold.failed(Trouble::Other, at(0)), FIRST * 4, "the failures before it count");
        }
        assert_eq!(Hold::of(None, wall, at(0)).due(), None);
    }

    #[test]
    fn i2_what_another_keeps_from_a_program_and_what_its_worker_refuses_is_no_attempt() {
        let refusal = netsky_kernel::frame::Refusal { kind: RefusalKind::Closed, text: String::new() };
        for error in [Stuck::Replaced, Stuck::Worker(WorkerError::Refused(refusal))] {
            let mut failed = None;
            assert!(matches!(broken(&mut failed, error), Put::Unread(_)) && failed.is_some());
        }
        assert!(matches!(broken(&mut None, Stuck::Worker(WorkerError::Closed)), Put::Stopped), "who knows");
    }

    #[test]
    fn messages_that_were_not_kept_are_tried_again_at_once_the_first_time() {
        let key = |n: usize| MessageKey::of(&format!("m{n}").parse().expect("an id"));
        let keys = |from: usize, to: usize| (from..to).map(key).collect::<Vec<_>>();
        let mut hold = Hold::default();
        assert_eq!(hold.untaken(&keys(0, 3), at(0)), None, "those of one turn");
        assert_eq!(hold.untaken(&keys(3, 4), at(0)), None, "and others");
        assert_eq!(
            hold.untaken(&keys(1, 5), at(0)),
            Some(FIRST * 2),
            "the second time it is no chance, and one pause"
        );
        assert_eq!(hold.untaken(&keys(0, 1), at(60)), Some(FIRST * 4));
        hold.ended_well();
        assert_eq!(hold.untaken(&keys(0, IN_HAND), at(90)), None, "all that it had");
        assert_eq!(hold.untaken(&keys(IN_HAND, IN_HAND + 1), at(90)), Some(FIRST * 2), "nor are so many");
    }
}
