//! One process at work on the bus: does operations, and tells what it promised and when.

use std::io;
use std::rc::Rc;

use netsky_bus::{Bus, Claim, Draft, Drained, Owner, Returned, Sent};
use netsky_disk::layout::Layout;
use netsky_disk::sim::{self, Inside};
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use netsky_model::life::State;
use netsky_model::witness::Nobody;

use super::history::{History, Key, Note};
use crate::memory::Memory;

/// Texts of every third message fill this much, more than two sectors, so that they can be torn.
const LONG: usize = 1300;

/// What an operation met that it must not.
pub(super) type Done<T = ()> = Result<T, String>;

/// A process.
pub(super) struct Actor {
    inside: Inside,
    pub(super) memory: Rc<Memory>,
    pub(super) layout: Layout,
    pub(super) bus: Bus<'static>,
    pub(super) generation: Generation,
    pub(super) held: Vec<Claim>,
    pub(super) history: History,
    /// What was told since the log was taken last, each with how long the log was.
    pub(super) notes: Vec<(usize, Note)>,
}

/// A message that was put before its agent.
pub(super) struct Shown {
    pub(super) key: Key,
    pub(super) id: EnvelopeId,
    pub(super) attempt: u32,
}

pub(super) fn layout() -> Layout {
    Layout::new("/home")
}

impl Actor {
    pub(super) fn new(memory: Rc<Memory>, history: History, generation: Generation) -> Actor {
        let inside = sim::enter(memory.clone());
        Actor::within(inside, memory, history, generation)
    }

    fn within(inside: Inside, memory: Rc<Memory>, history: History, generation: Generation) -> Actor {
        let layout = layout();
        let bus = Bus::open(&layout, &Nobody);
        Actor { inside, memory, layout, bus, generation, held: Vec::new(), history, notes: Vec::new() }
    }

    /// The process dies and another takes its place.
    pub(super) fn die(self) -> Done<Actor> {
        let Actor { inside, memory, history, notes, generation, bus, held, .. } = self;
        drop((bus, held));
        memory.next_process();
        let mut next = Actor { notes, ..Actor::within(inside, memory, history, generation) };
        next.tell(Note::Ended)?;
        Ok(next)
    }

    pub(super) fn tell(&mut self, note: Note) -> Done {
        tell(&self.memory, &mut self.history, &mut self.notes, note)
    }

    /// A new message, or the one of a chosen id.
    pub(super) fn send(&mut self, agent: &AgentId, chosen: Option<&str>, create: bool) -> Done<Sent> {
        let (key, draft) = self.draft(agent, chosen)?;
        let sent = self.bus.send(Draft { create, ..draft }).map_err(|e| format!("send {key}: {e}"))?;
        self.tell(Note::Sent { key, duplicate: sent.duplicate })?;
        Ok(sent)
    }

    /// Several new messages as a group.
    pub(super) fn send_all(&mut self, agent: &AgentId, count: usize) -> Done {
        let drafts = (0..count).map(|_| self.draft(agent, None)).collect::<Done<Vec<_>>>()?;
        let (keys, drafts): (Vec<Key>, Vec<Draft>) = drafts.into_iter().unzip();
        for (key, sent) in keys.into_iter().zip(self.bus.send_all(drafts)) {
            let duplicate = sent.map_err(|e| format!("send {key} of a group: {e}"))?.duplicate;
            self.tell(Note::Sent { key, duplicate })?;
        }
        Ok(())
    }

    fn draft(&mut self, agent: &AgentId, chosen: Option<&str>) -> Done<(Key, Draft)> {
        let key = match chosen {
            Some(id) => format!("chosen-{id}"),
            None => format!("m{}", self.history.promises.len()),
        };
        let id: Option<EnvelopeId> = chosen.map(|id| id.parse().expect("a valid id"));
        self.tell(Note::Sending { key: key.clone(), agent: agent.clone(), chosen: id.clone() })?;
        let room = if self.history.promises.len().is_multiple_of(3) { LONG } else { 0 };
        let text = format!("{key} {}", "x".repeat(room));
        let from = "owner".parse().expect("a valid sender");
        Ok((key, Draft { id, ..Draft::new(from, agent.clone(), text) }))
    }

    pub(super) fn create(&mut self, agent: &AgentId) -> Done {
        self.bus.create(agent).map_err(|e| format!("create {agent}: {e}"))?;
        self.tell(Note::Created(agent.clone()))
    }

    /// Takes and keeps up to `max`.
    pub(super) fn claim(&mut self, agent: &AgentId, max: usize) -> Done<usize> {
        let batch = self.bus.claim(agent, max, self.generation).map_err(|e| format!("claim: {e}"))?;
        if let Some(error) = batch.aside.skipped.first() {
            return Err(format!("claim skipped: {error}"));
        }
        for claim in &batch.claims {
            tell(&self.memory, &mut self.history, &mut self.notes, claimed(claim))?;
        }
        let taken = batch.claims.len();
        self.held.extend(batch.claims);
        Ok(taken)
    }

    /// Puts what is held before the agent.
    pub(super) fn surface(&mut self) -> Done {
        for claim in std::mem::take(&mut self.held) {
            let key = key_of(&claim);
            let (memory, history, notes) = (&self.memory, &mut self.history, &mut self.notes);
            let shown = self.bus.surface(claim, self.generation, |claim| show(memory, history, notes, claim));
            shown.map_err(|e| format!("surface {key}: {e}"))?;
            self.tell(Note::Delivered { key })?;
        }
        Ok(())
    }

    /// Puts everything that waits before the agent, in order.
    pub(super) fn drain(&mut self, agent: &AgentId) -> Done<(Drained, Vec<Shown>)> {
        let mut order: Vec<Shown> = Vec::new();
        let (memory, history, notes) = (&self.memory, &mut self.history, &mut self.notes);
        let drained = self.bus.drain(agent, usize::MAX, self.generation, |claim| {
            // Whoever comes back for the next one has recorded the one before.
            if let Some(Shown { key, .. }) = order.last() {
                tell(memory, history, notes, Note::Delivered { key: key.clone() })
                    .map_err(io::Error::other)?;
            }
            tell(memory, history, notes, claimed(claim)).map_err(io::Error::other)?;
            order.push(Shown { key: key_of(claim), id: claim.id().clone(), attempt: claim.attempt() });
            show(memory, history, notes, claim)
        });
        let drained = drained.map_err(|e| format!("drain: {e}"))?;
        if let Some(Shown { key, .. }) = order.last() {
            self.tell(Note::Delivered { key: key.clone() })?;
        }
        if let Some(error) = drained.aside.skipped.first() {
            return Err(format!("drain skipped: {error}"));
        }
        Ok((drained, order))
    }

    /// Puts held claims back as they were.
    pub(super) fn put_back(&mut self) -> Done {
        for claim in std::mem::take(&mut self.held) {
            self.tell(Note::PuttingBack { key: key_of(&claim) })?;
            self.bus.put_back(claim).map_err(|e| format!("put back: {e}"))?;
        }
        Ok(())
    }

    /// Gives held claims back with one attempt more.
    pub(super) fn release(&mut self) -> Done {
        self.tell(Note::Ended)?;
        let given = std::mem::take(&mut self.held).into_iter().try_for_each(|claim| self.bus.release(claim));
        given.map_err(|e| format!("release: {e}"))
    }

    /// Finishes the first message in one state; false if there is none.
    pub(super) fn ack_first(&mut self, agent: &AgentId, state: State) -> Done<bool> {
        let entries = self.bus.list(agent, Some(state)).map_err(|e| format!("list: {e}"))?;
        let Some(envelope) = entries.into_iter().find_map(|entry| entry.envelope) else { return Ok(false) };
        let id = envelope.id.expect("every envelope here has one");
        self.ack(agent, &first_word(&envelope.text), &id)?;
        Ok(true)
    }

    /// Releases the first message that was delivered, by hand; false if there is none.
    pub(super) fn take_back(&mut self, agent: &AgentId) -> Done<bool> {
        let delivered = self.bus.list(agent, Some(State::Delivered)).map_err(|e| format!("list: {e}"))?;
        let Some(name) = delivered.into_iter().find_map(|entry| entry.name) else { return Ok(false) };
        self.tell(Note::Ended)?;
        let released = self.bus.take_back(agent, name.key.id.as_str(), Owner::Spared);
        released.map_err(|e| format!("take back: {e}"))?;
        Ok(true)
    }

    pub(super) fn ack(&mut self, agent: &AgentId, key: &str, id: &EnvelopeId) -> Done {
        self.tell(Note::Acking { key: key.to_owned() })?;
        self.bus.ack(agent, id.as_str()).map_err(|e| format!("ack {key}: {e}"))?;
        self.tell(Note::Acked { key: key.to_owned() })
    }

    /// Gives back what dead processes held and, where asked, what dead generations took.
    pub(super) fn give_back(
        &mut self,
        agent: &AgentId,
        dead: impl Fn(Generation) -> bool,
    ) -> Done<[Returned; 2]> {
        let claims = self.bus.return_dead_claims(agent).map_err(|e| format!("return claims: {e}"))?;
        let taken =
            self.bus.return_generations(agent, dead).map_err(|e| format!("return generations: {e}"))?;
        Ok([claims, taken])
    }
}

fn tell(memory: &Memory, history: &mut History, notes: &mut Vec<(usize, Note)>, note: Note) -> Done {
    history.add(&note)?;
    notes.push((memory.logged(), note));
    Ok(())
}

fn show(
    memory: &Memory,
    history: &mut History,
    notes: &mut Vec<(usize, Note)>,
    claim: &Claim,
) -> io::Result<()> {
    let flagged = claim.rendered().contains(" redelivered=\"true\"");
    let note = Note::Surfaced { key: key_of(claim), attempt: claim.attempt(), flagged };
    tell(memory, history, notes, note).map_err(io::Error::other)
}

fn claimed(claim: &Claim) -> Note {
    Note::Claimed { key: key_of(claim), attempt: claim.attempt() }
}

pub(super) fn key_of(claim: &Claim) -> Key {
    first_word(&claim.envelope().text)
}

pub(super) fn first_word(text: &str) -> Key {
    text.split(' ').next().unwrap_or_default().to_owned()
}
