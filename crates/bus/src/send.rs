//! `send`: a message becomes a durable file in its target's inbox, or nothing at all.
//!
//! When [`Bus::send`] returns, the file's bytes and its name are synced. Until the rename the envelope exists only in
//! `tmp/`, which nobody reads.

use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::fs::{Dir, Place, write_durable};
use netsky_disk::{clock, key, random};
use netsky_model::envelope::Envelope;
use netsky_model::hlc::Hlc;
use netsky_model::id::{AgentId, EnvelopeId, Generation, Sender};
use netsky_model::life::State;
use netsky_model::name::{Key, Name};
use netsky_model::provenance::{Provenance, Trust};

use crate::bus::{Bus, Told, point};
use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::ids::{Reservation, Reserved};

/// A message before it has a place in the order.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Who sends; checked against the caller by [`crate::check_sender`] before.
    pub from: Sender,
    /// For whom.
    pub to: AgentId,
    /// The message.
    pub text: String,
    /// What sort of message.
    pub kind: Option<String>,
    /// Which conversation.
    pub thread: Option<String>,
    /// Which envelope it answers.
    pub reply_to: Option<EnvelopeId>,
    /// The sender waits for an explicit ack.
    pub requires_ack: bool,
    /// How long the sender waits for that ack; as long as the home says if none.
    pub ack_within: Option<Duration>,
    /// Meant for this incarnation of the target and for no later one.
    pub for_generation: Option<Generation>,
    /// The caller has proved that it is `from`: the home vouches for it.
    pub vouched: bool,
    /// How far the words may be trusted; counts only downwards.
    pub trust: Option<Trust>,
    /// The sender's own id for it: a second send of the same id places nothing.
    pub id: Option<EnvelopeId>,
    /// Make the target's channel if it has none.
    pub create: bool,
}

impl Draft {
    /// A plain message.
    pub fn new(from: Sender, to: AgentId, text: impl Into<String>) -> Draft {
        Draft {
            from,
            to,
            text: text.into(),
            kind: None,
            thread: None,
            reply_to: None,
            requires_ack: false,
            ack_within: None,
            for_generation: None,
            vouched: false,
            trust: None,
            id: None,
            create: false,
        }
    }
}

/// A message that is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Its identity.
    pub id: EnvelopeId,
    /// Its place in the order; none for a duplicate.
    pub hlc: Option<Hlc>,
    /// The file it was placed as; none for a duplicate.
    pub path: Option<PathBuf>,
    /// An envelope of this id was sent before; nothing was placed now.
    pub duplicate: bool,
}

impl Sent {
    fn again(id: EnvelopeId) -> Sent {
        Sent { id, hlc: None, path: None, duplicate: true }
    }
}

/// A message that may be sent, not yet in the order.
pub(crate) struct Ready {
    pub(crate) channel: Channel,
    pub(crate) envelope: Envelope,
    pub(crate) bytes: Vec<u8>,
    /// The sender's own id for it, where it has one.
    pub(crate) chosen: Option<EnvelopeId>,
}

impl Ready {
    /// Its name in the inbox, at the next place in the order.
    pub(crate) fn name(&self, bus: &Bus<'_>) -> Result<Name> {
        let id = self.envelope.id.clone().expect("compose gives every envelope an id");
        Ok(Name::fresh(Key { hlc: bus.next_hlc()?, id }))
    }
}

impl Bus<'_> {
    /// Places a message in its target's inbox.
    ///
    /// # Errors
    /// A message over the limits or an unknown target (nothing was written), or what the file system refuses (nothing
    /// is left in `tmp/`).
    pub fn send(&self, draft: Draft) -> Result<Sent> {
        self.send_ready(&self.ready(draft)?)
    }

    pub(crate) fn send_ready(&self, ready: &Ready) -> Result<Sent> {
        if let Err(full) = self.charge(&ready.channel, &ready.envelope.from, ready.bytes.len()) {
            return self.duplicate_or(ready, full);
        }
        let sent = match ready.chosen.clone() {
            Some(id) => self.place_once(&ready.channel, &ready.envelope, id, &ready.bytes),
            None => self.place(&ready.channel, &ready.envelope, &ready.name(self)?, &ready.bytes),
        };
        self.settle();
        sent
    }

    /// A message that was placed before needs no room: it is said to be a duplicate also where none is left.
    fn duplicate_or(&self, ready: &Ready, full: Error) -> Result<Sent> {
        match &ready.chosen {
            Some(id) if Reservation::is_done(&ready.channel, id)? || self.is_there(&ready.channel, id)? => {
                Ok(Sent::again(id.clone()))
            }
            _ => Err(full),
        }
    }

    /// Whether an envelope of an id that a sender chose, or that was made here, is there and durable.
    fn is_there(&self, channel: &Channel, id: &EnvelopeId) -> Result<bool> {
        if !channel.ids()?.exists(id.as_str())? {
            return self.was_made(channel, id);
        }
        let Some(state) = self.whereabouts(channel, id)? else { return Ok(false) };
        channel.dir(state)?.sync()?;
        Ok(true)
    }

    /// Everything of a send that writes no message.
    pub(crate) fn ready(&self, draft: Draft) -> Result<Ready> {
        let (chosen, to, create) = (draft.id.clone(), draft.to.clone(), draft.create);
        self.may_reach(&draft.from, &to)?;
        let envelope = self.compose(draft)?;
        let bytes = envelope.to_bytes()?;
        if create {
            Channel::open_or_create(&self.layout, &to)?;
        } else if !self.knows(&to) {
            return Err(Error::UnknownTarget(to));
        }
        Ok(Ready { channel: self.channel(&to)?, envelope, bytes, chosen })
    }

    /// Places an envelope as it is, under an id that it bears: once, however often it is asked.
    ///
    /// # Errors
    /// As [`Bus::send`].
    pub fn send_once(&self, envelope: &Envelope, id: EnvelopeId, to: &AgentId) -> Result<Sent> {
        self.send_ready(&self.ready_once(envelope.clone(), id, to)?)
    }

    /// Everything of [`Bus::send_once`] that writes no message.
    pub(crate) fn ready_once(&self, envelope: Envelope, id: EnvelopeId, to: &AgentId) -> Result<Ready> {
        self.may_reach(&envelope.from, to)?;
        let bytes = envelope.to_bytes()?;
        Ok(Ready { channel: self.channel(to)?, envelope, bytes, chosen: Some(id) })
    }

    /// Whether a send would find room now, or need none; it may find none all the same, if others are faster.
    pub(crate) fn may_send(&self, ready: &Ready) -> Result<()> {
        let room = self.has_room(&ready.channel, &ready.envelope.from, ready.bytes.len());
        room.or_else(|full| self.duplicate_or(ready, full).map(drop))
    }

    /// Sends under an id the sender chose: once, however often and from however many processes it is asked.
    fn place_once(
        &self,
        channel: &Channel,
        envelope: &Envelope,
        id: EnvelopeId,
        bytes: &[u8],
    ) -> Result<Sent> {
        if self.was_made(channel, &id)? {
            return Ok(Sent::again(id));
        }
        match Reservation::take(self, channel, &id)? {
            Reserved::Done => Ok(Sent::again(id)),
            Reserved::Open(reservation) => {
                let name = reservation.name.clone();
                // A former sender died between placing the envelope and saying so.
                let placed = if reservation.was_interrupted { self.whereabouts(channel, &id)? } else { None };
                let sent = match placed {
                    Some(state) => {
                        channel.dir(state)?.sync()?;
                        Sent::again(id)
                    }
                    None => match self.place(channel, envelope, &name, bytes) {
                        // It came back to the inbox while we looked for it elsewhere.
                        Err(Error::Disk(error)) if error.is_exists() => {
                            channel.dir(State::Written)?.sync()?;
                            Sent::again(id)
                        }
                        placed => placed?,
                    },
                };
                point("bus.ids.placed");
                reservation.finish(channel);
                Ok(sent)
            }
        }
    }

    /// Whether an id was made here, for a message that was sent without one and is there: that has no entry and needs
    /// none. Of its form are a sender's own as well, which have one; the first send of such an id looks through the mailbox.
    fn was_made(&self, channel: &Channel, id: &EnvelopeId) -> Result<bool> {
        if !id.is_uuid_v7() || channel.ids()?.exists(id.as_str())? {
            return Ok(false);
        }
        let Some(state) = self.whereabouts(channel, id)? else { return Ok(false) };
        channel.dir(state)?.sync()?;
        Ok(true)
    }

    fn place(&self, channel: &Channel, envelope: &Envelope, name: &Name, bytes: &[u8]) -> Result<Sent> {
        let inbox = channel.dir(State::Written)?;
        point("bus.send.begin");
        write_durable(&channel.tmp()?, &inbox, &name.to_string(), bytes, Place::New)?;
        point("bus.send.placed");
        Ok(self.sent(channel, envelope, name, &inbox))
    }

    /// Says that an envelope is placed.
    pub(crate) fn sent(&self, channel: &Channel, envelope: &Envelope, name: &Name, inbox: &Dir) -> Sent {
        let told = Told { from: Some(&envelope.from), ..Told::default() };
        self.moved(&channel.agent, name, State::Written, told);
        Sent {
            id: name.key.id.clone(),
            hlc: Some(name.key.hlc),
            path: Some(inbox.path().join(name.to_string())),
            duplicate: false,
        }
    }

    fn compose(&self, draft: Draft) -> Result<Envelope> {
        let provenance = self.provenance(&draft)?;
        let id = draft.id.unwrap_or_else(random::uuid_v7);
        let mut envelope = Envelope::new(id, draft.from, draft.to, draft.text, clock::wall_seconds());
        envelope.kind = draft.kind;
        envelope.thread = draft.thread;
        envelope.reply_to = draft.reply_to;
        envelope.requires_ack = (draft.requires_ack || draft.ack_within.is_some()).then_some(true);
        // Less than a second is as much as none to who reads between two turns.
        envelope.ack_within_secs = draft.ack_within.map(|within| within.as_secs().max(1));
        envelope.for_generation = draft.for_generation;
        provenance.mark(&mut envelope);
        // Without a key that reads the message goes all the same, and nobody vouches for it.
        if draft.vouched
            && let Ok(Some(key)) = key::load(&self.layout)
        {
            envelope.sign(&key)?;
        }
        Ok(envelope)
    }

    /// Where a draft's words come from (faults A3). The owner's are his own, whatever they answer; an agent's answer has
    /// no more trust than what it answers, and the least where that is not known.
    fn provenance(&self, draft: &Draft) -> Result<Provenance> {
        let own = Provenance::fresh(&draft.from);
        let said = match &draft.reply_to {
            Some(answered) if draft.from != Sender::owner() => match self.received(&draft.from, answered)? {
                Some(answered) => Provenance::of(&answered).replied(&draft.from),
                None => own.at_most(Trust::External),
            },
            _ => own,
        };
        Ok(said.at_most(draft.trust.unwrap_or(Trust::Owner)))
    }

    /// What a sender was sent under that id.
    fn received(&self, by: &Sender, id: &EnvelopeId) -> Result<Option<Envelope>> {
        let Ok(mailbox) = by.as_str().parse() else { return Ok(None) };
        if !self.knows(&mailbox) {
            return Ok(None);
        }
        match self.show(&mailbox, id.as_str()) {
            Ok(entry) => Ok(entry.envelope),
            Err(Error::NoEnvelope { .. } | Error::Ambiguous { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
