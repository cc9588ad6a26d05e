//! What a schedule sends, whichever it is: the envelope of one instant, and what became of it.

use jiff::Timestamp;
use netsky_disk::{clock, key};
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, EnvelopeId, Sender};

use serde_json::{Value, json};

use crate::context::Context;
use crate::error::Result;
use crate::event::{MISSED, event};

/// Instants of one entry that were told of before and are passed over in one tick: a death leaves one, a file from a backup many.
pub(crate) const PASSED_OVER: usize = 100;

/// Most loops and entries that one fact names.
const NAMED: usize = 50;

/// Whose mail it is that is due for an agent: agentinfinity answers nobody, and agent0 does what it is asked. Said to it at once, so
/// that one which agent0 has not read is seen to wait.
pub(crate) fn reader(agent: &AgentId) -> AgentId {
    if *agent == AgentId::infinity() { AgentId::root() } else { agent.clone() }
}

/// How many more instants the envelope of that id told of, which somebody placed who died before he could keep that. Of one that
/// is not there any more nobody knows.
pub(crate) fn missed_as_placed(cx: &Context<'_>, agent: &AgentId, id: &EnvelopeId) -> Option<u64> {
    let placed = cx.bus.show(&reader(agent), id.as_str()).ok()?.envelope?;
    Some(placed.missed.unwrap_or(0))
}

/// Instants that were missed, recorded once the schedule itself is kept: two facts a tick at most, as each is waited for.
#[derive(Default)]
pub(crate) struct Missed {
    /// While nobody looked.
    passed: Vec<Value>,
    /// While the one before them was not read.
    unread: Vec<Value>,
}

impl Missed {
    /// So many passed while nobody looked, and are told with one that came late.
    pub(crate) fn passed(&mut self, which: &str, agent: &AgentId, slot: Timestamp, further: u64) {
        if further > 0 {
            let one = json!({ "loop": which, "agent": agent, "slot": slot, "missed": further });
            self.passed.push(one);
        }
    }

    /// One passed while the one before it was not read, the first since that.
    pub(crate) fn unread(&mut self, which: &str, agent: &AgentId, last: Option<&EnvelopeId>) {
        self.unread.push(json!({ "loop": which, "agent": agent, "unread": last }));
    }

    /// Records them. Nothing is lost where the record does not take it: each envelope says how many it stands for.
    pub(crate) fn record(self, cx: &Context<'_>) {
        record(cx, &self.passed, "nobody looked", json!({}));
        record(cx, &self.unread, "the one before it was not read", json!({ "unread": true }));
    }
}

/// Records these as one occurrence, by the first of them.
fn record(cx: &Context<'_>, missed: &[Value], why: &str, mut data: Value) {
    let Some(first) = missed.first() else { return };
    let of = |key: &str| first[key].as_str().unwrap_or_default();
    let more = match missed.len() {
        1 => String::new(),
        all => format!(" and {} more", all - 1),
    };
    data["loop"] = format!("{}{more}", of("loop")).into();
    data["agent"] = of("agent").into();
    data["why"] = why.into();
    data["missed"] = missed[..missed.len().min(NAMED)].into();
    event(cx, MISSED, &format!("{}/{}{}", of("loop"), of("slot"), of("unread")), &data);
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
            Envelope::new(id, from, reader(self.to), self.prompt.to_owned(), clock::wall_seconds());
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
