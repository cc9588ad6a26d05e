//! Homes that sequences start from.

use netsky_disk::home::Home;
use netsky_model::id::Generation;
use netsky_model::life::MAX_ATTEMPTS;

use super::actor::{Actor, Done, layout};
use super::history::{History, Note};
use super::op::{Op, seven};
use crate::memory::{Disk, Era, Event, Memory};

/// What is there before the first operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// A home without a channel.
    New,
    /// agent7 has an empty channel.
    Empty,
    /// agent7 has messages in every state: held by the dead, at their last attempt, half sent, finished, dead letters.
    Busy,
}

/// All of them.
pub const STAGES: [Stage; 3] = [Stage::New, Stage::Empty, Stage::Busy];

/// A machine whose disk and promises are known, with what happened on it since.
#[derive(Clone)]
pub(super) struct Recorded {
    pub(super) disk: Disk,
    pub(super) history: History,
    pub(super) era: Era,
    pub(super) generation: Generation,
    pub(super) events: Vec<Event>,
    pub(super) notes: Vec<(usize, Note)>,
    pub(super) points: Vec<(usize, &'static str)>,
}

impl Recorded {
    /// Begins to record what `actor` does from here on.
    pub(super) fn begin(actor: &mut Actor) -> Recorded {
        let _ = actor.memory.take_log();
        actor.notes.clear();
        Recorded {
            disk: actor.memory.disk(),
            history: actor.history.clone(),
            era: actor.memory.era(),
            generation: actor.generation,
            events: Vec::new(),
            notes: Vec::new(),
            points: Vec::new(),
        }
    }

    /// Ends the record.
    pub(super) fn end(self, actor: &mut Actor) -> Recorded {
        let (events, points) = actor.memory.take_log();
        Recorded { events, points, notes: std::mem::take(&mut actor.notes), era: actor.memory.era(), ..self }
    }

    /// Whether nothing was done and nothing said.
    pub(super) fn is_idle(&self) -> bool {
        self.events.is_empty() && self.notes.is_empty()
    }

    /// Disk and promises after so many events.
    pub(super) fn at(&self, events: usize) -> (Disk, History) {
        let (mut disk, mut history) = (self.disk.clone(), self.history.clone());
        self.events[..events].iter().for_each(|event| disk.apply(event));
        for (_, note) in self.notes.iter().filter(|(at, _)| *at <= events) {
            history.add(note).expect("it was said before");
        }
        (disk, history)
    }
}

impl Stage {
    /// Builds it; everything on it is durable.
    pub(super) fn build(self) -> Done<Recorded> {
        let memory = Memory::new(7);
        let mut actor = Actor::new(memory, History::default(), Generation(1));
        Home::init(&layout()).map_err(|e| format!("init: {e}"))?;
        if self != Stage::New {
            actor.create(&seven())?;
        }
        if self == Stage::Busy {
            actor = fill(actor)?;
        }
        let whole = actor.memory.disk().live().clone();
        Ok(Recorded { disk: Disk::of(whole), ..Recorded::begin(&mut actor) })
    }
}

impl Recorded {
    /// The successor of a process that was killed after so many changes, on the machine that goes on.
    pub(super) fn killed(&self, events: usize) -> Done<Actor> {
        let (disk, history) = self.at(events);
        let mut actor = Actor::new(Memory::killed(disk, &self.era), history, self.generation);
        actor.tell(Note::Ended)?;
        Ok(actor)
    }

    /// The process that goes on from the beginning of this record.
    pub(super) fn actor(&self) -> Actor {
        let memory = Memory::killed(self.disk.clone(), &self.era);
        Actor::new(memory, self.history.clone(), self.generation)
    }
}

fn fill(mut actor: Actor) -> Done<Actor> {
    let seven = seven();
    actor.send(&seven, Some("done"), false)?;
    actor.drain(&seven)?;
    actor.ack_first(&seven, netsky_model::life::State::Delivered)?;
    // A dead letter, and one that was taken at its last attempt.
    actor.send(&seven, None, false)?;
    actor = in_vain(actor, MAX_ATTEMPTS)?;
    actor.send(&seven, None, false)?;
    actor = in_vain(actor, MAX_ATTEMPTS - 1)?;
    actor.send(&seven, None, false)?;
    actor.drain(&seven)?;
    // Half sent: a stray in `tmp/`, an id that is reserved, one that is placed.
    actor = killed_at(actor, Op::Send, "disk.write.written")?;
    actor = killed_at(actor, Op::SendChosen("reserved"), "bus.ids.reserved")?;
    actor = killed_at(actor, Op::SendChosen("placed"), "bus.ids.placed")?;
    actor.drain(&seven)?;
    // Held by a dead process, one of them at its last attempt.
    actor.send(&seven, None, false)?;
    actor = in_vain(actor, MAX_ATTEMPTS - 1)?;
    actor.send(&seven, None, false)?;
    actor.claim(&seven, 2)?;
    actor = actor.die()?;
    actor.send(&seven, None, false)?;
    Op::Drop.act(actor)
}

/// Processes claim everything and die, so many times.
fn in_vain(mut actor: Actor, times: u32) -> Done<Actor> {
    for _ in 0..times {
        actor.claim(&seven(), usize::MAX)?;
        actor = actor.die()?;
        actor.give_back(&seven(), |_| false)?;
    }
    Ok(actor)
}

/// The process is killed at the first time it passes a point during an operation.
fn killed_at(mut actor: Actor, op: Op, point: &str) -> Done<Actor> {
    let recorded = Recorded::begin(&mut actor);
    let mut actor = op.act(actor)?;
    let recorded = recorded.end(&mut actor);
    drop(actor);
    let (at, _) = recorded
        .points
        .iter()
        .find(|(_, passed)| *passed == point)
        .ok_or_else(|| format!("{op} never passes {point}"))?;
    recorded.killed(*at)
}
