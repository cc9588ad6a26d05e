//! What was promised: told by the programs as they go, so that it can be known for any moment of the past.

use std::collections::{BTreeMap, BTreeSet};

use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::life::MAX_ATTEMPTS;

/// A message is known by the first word of its text: its id may be known only when the send returns.
pub(super) type Key = String;

/// One thing that a program knows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Note {
    /// A send begins.
    Sending { key: Key, agent: AgentId, chosen: Option<EnvelopeId> },
    /// A send said so.
    Sent { key: Key, duplicate: bool },
    /// A claim is held, durable.
    Claimed { key: Key, attempt: u32 },
    /// A claim goes back as it was, unseen.
    PuttingBack { key: Key },
    /// The text was put before the agent.
    Surfaced { key: Key, attempt: u32, flagged: bool },
    /// Its delivery was recorded.
    Delivered { key: Key },
    /// An ack begins.
    Acking { key: Key },
    /// An ack said so.
    Acked { key: Key },
    /// Something ended, or gave up, that may have held envelopes: each may come back once more.
    Ended,
    /// An agent's channel was made.
    Created(AgentId),
    /// Somebody put a file into the inbox that is no message.
    Dropped(String),
}

/// What was promised about one message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Promise {
    pub(super) agent: AgentId,
    pub(super) chosen: Option<EnvelopeId>,
    /// Its place among all sends, while nothing but a sequence of sends decides it.
    pub(super) order: Option<usize>,
    pub(super) sent: bool,
    pub(super) claimed: u32,
    /// The attempt it was last shown with.
    pub(super) surfaced: u32,
    pub(super) delivered: bool,
    pub(super) acking: bool,
    pub(super) acked: bool,
}

/// Everything that was promised up to a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct History {
    pub(super) promises: BTreeMap<Key, Promise>,
    pub(super) created: BTreeSet<AgentId>,
    pub(super) dropped: BTreeSet<String>,
    /// How often something ended.
    pub(super) ends: u32,
}

impl History {
    /// Adds what a program says; what it must not say is returned.
    pub(super) fn add(&mut self, note: &Note) -> Result<(), String> {
        match note {
            Note::Sending { key, agent, chosen } => self.begin(key, agent, chosen.as_ref()),
            Note::Ended => self.ends += 1,
            Note::Created(agent) => drop(self.created.insert(agent.clone())),
            Note::Dropped(name) => drop(self.dropped.insert(name.clone())),
            Note::Sent { key, duplicate } => {
                let promise = self.promise(key)?;
                if promise.sent && !duplicate {
                    return Err(format!("{key} was sent before, and sent again it is no duplicate"));
                }
                promise.sent = true;
            }
            Note::Claimed { key, attempt } => {
                let promise = self.promise(key)?;
                (promise.claimed, promise.delivered) = (*attempt, false);
            }
            Note::PuttingBack { key } => {
                let promise = self.promise(key)?;
                promise.claimed = promise.surfaced;
            }
            Note::Surfaced { key, attempt, flagged } => return self.surface(key, *attempt, *flagged),
            Note::Delivered { key } => self.promise(key)?.delivered = true,
            Note::Acking { key } => self.promise(key)?.acking = true,
            Note::Acked { key } => self.promise(key)?.acked = true,
        }
        Ok(())
    }

    fn begin(&mut self, key: &Key, agent: &AgentId, chosen: Option<&EnvelopeId>) {
        let order = Some(self.promises.len());
        let promise = Promise {
            agent: agent.clone(),
            chosen: chosen.cloned(),
            order,
            sent: false,
            claimed: 0,
            surfaced: 0,
            delivered: false,
            acking: false,
            acked: false,
        };
        // Of a message whose send was cut it is not known when it got its place.
        self.promises.entry(key.clone()).and_modify(|old| old.order = None).or_insert(promise);
    }

    pub(super) fn promise(&mut self, key: &str) -> Result<&mut Promise, String> {
        self.promises.get_mut(key).ok_or_else(|| format!("nobody ever sent {key}"))
    }

    fn surface(&mut self, key: &str, attempt: u32, flagged: bool) -> Result<(), String> {
        let most = (self.ends + 1).min(MAX_ATTEMPTS);
        let promise = self.promise(key)?;
        if promise.acked {
            return Err(format!("{key} was acked and is surfaced again"));
        }
        if promise.surfaced >= attempt {
            return Err(format!("{key} was surfaced as attempt {} and again as {attempt}", promise.surfaced));
        }
        if attempt > most {
            return Err(format!("{key} is surfaced as attempt {attempt}, and only {most} were due"));
        }
        if flagged != (attempt > 1) {
            return Err(format!("{key}, attempt {attempt}, is surfaced with redelivered = {flagged}"));
        }
        promise.surfaced = attempt;
        Ok(())
    }
}
