//! What a schedule sends, whichever it is: the envelope of one instant, and what became of it.

use jiff::Timestamp;
use netsky_disk::{clock, key};
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, EnvelopeId, Sender};

use serde_json::{Value, json};

use crate::context::Context;
use crate::error::Result;
use crate::event::{MISSED, events};

/// Instants of one entry that were told of before and are passed over in one tick: a death leaves one, a file from a backup many.
pub(crate) const PASSED_OVER: usize = 100;

/// How many more instants the envelope of that id told of, which somebody placed who died before he could keep that. Of one that
/// is not there any more nobody knows.
pub(crate) fn missed_as_placed(cx: &Context<'_>, agent: &AgentId, id: &EnvelopeId) -> Option<u64> {
    let placed = cx.bus.show(agent, id.as_str()).ok()?.envelope?;
    Some(placed.missed.unwrap_or(0))
}

/// Instants that were missed, recorded once the schedule itself is kept: the record may have to be waited for.
#[derive(Default)]
pub(crate) struct Missed(Vec<(String, Value)>);

impl Missed {
    /// So many passed while nobody looked, and are told with one that came late.
    pub(crate) fn passed(&mut self, which: &str, agent: &AgentId, slot: Timestamp, further: u64) {
        if further > 0 {
            let why = format!("{further} passed after {slot:.0} while nobody looked");
            let data = json!({ "loop": which, "agent": agent, "slot": slot, "missed": further, "why": why });
            self.0.push((format!("{which}/{}", slot.as_second()), data));
        }
    }

    /// One passed while the one before it was not read, the first since that or another.
    pub(crate) fn unread(&mut self, which: &str, agent: &AgentId, last: Option<&EnvelopeId>) {
        let Some(last) = last else { return };
        let why = "the one before it is not read";
        let data = json!({ "loop": which, "agent": agent, "unread": last, "why": why });
        self.0.push((format!("{which}/{last}"), data));
    }

    /// Records them.
    pub(crate) fn record(self, cx: &Context<'_>) {
        events(cx, MISSED, &self.0);
    }
}

/// One prompt for one instant.
pub(crate) struct Scheduled<'a> {
    /// Which scheduler: a reserved name.
    pub(crate) from: &'static str,
    pub(crate) kind: &'static str,
    /// Of which entry or loop.
    pub(crate) thread: String,
    pub(crate) to: &'a AgentId,
    pub(crate) prompt: &'a str,
    /// Instants that passed beside it.
    pub(crate) missed: u64,
}

/// What became of one that is due.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// Its envelope is placed.
    Now,
    /// It was placed before.
    Before,
    /// The one before it waits.
    Waits,
}

impl Scheduled<'_> {
    /// Its envelope, under the id of the instant.
    ///
    /// # Errors
    /// A content that is no envelope's.
    pub(crate) fn envelope(self, cx: &Context<'_>, id: EnvelopeId) -> Result<Envelope> {
        let from: Sender = self.from.parse().expect("a sender");
        let mut envelope =
            Envelope::new(id, from, self.to.clone(), self.prompt.to_owned(), clock::wall_seconds());
        envelope.kind = Some(self.kind.to_owned());
        envelope.thread = Some(self.thread);
        envelope.missed = (self.missed > 0).then_some(self.missed);
        // Our own words: the home vouches for who says them. Without a key they are said all the same.
        if let Some(key) = key::load(cx.layout).ok().flatten() {
            envelope.sign(&key).map_err(netsky_bus::Error::from)?;
        }
        Ok(envelope)
    }
}
