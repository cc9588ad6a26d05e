//! What a session says about its own progress, and what a lineage is brought back from.
//!
//! Promise: everything that was reported is a row of `drain/<lineage>.turns.jsonl`, chained by hashes; a [`State`] is the fold
//! of these rows, live and on a restart. At each turn boundary the state is written down beside ([`snapshot`]), so that
//! nobody folds the rows before it again, but for seeing that they hold; the last two are kept.
//!
//! A tool call is an *intent* before it runs and a *result* after. An intent without a result is an outcome that nobody
//! knows: it is shown, and nothing here does it again.
//!
//! Left to others: who may report (`anchor/report`), what a state means for a session (`anchor/revive`).

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use netsky_model::id::Generation;
use netsky_model::lifecycle::{ContextPct, LifecycleState};
use netsky_model::stamp::Stamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod handoff;
mod report;
pub mod snapshot;
mod store;
#[cfg(test)]
mod tests;
mod told;

pub use handoff::{Handoff, LONGEST as LONGEST_HANDOFF, waiting as waiting_handoff};
pub use report::{JsonText, LoopConfig, Model, Report, Turn, Usage};
pub use store::{Drain, DrainError, Whole, read};
pub(crate) use store::{Taken, untold};
pub use told::Told;

/// Version of a row.
pub(crate) const ROW_VERSION: u64 = 1;
/// Tool calls that may be open at once; what is reported beyond that is refused.
pub const OPEN_INTENTS: usize = 256;
/// Most bytes of what all open calls together were given; a report beyond that is refused. A snapshot holds them.
pub const OPEN_BYTES: usize = 1 << 20;
/// Calls whose names are remembered: whoever reports does so one after the other, and repeats at once.
pub const RECENT: usize = 64;
/// Longest id, tool name, phase word or conversation id, in bytes.
pub const LONGEST_WORD: usize = 256;

/// One row of the turns log; `prev` and `hash` stand behind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) v: u64,
    /// Counts from 1.
    pub(crate) n: u64,
    pub(crate) ts: Timestamp,
    pub(crate) generation: Generation,
    /// The name of the call that told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
    pub(crate) report: Report,
}

/// A tool call without a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Intent {
    /// Which tool.
    pub tool: String,
    /// What it was given.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// The generation that began it; where that is over, nobody knows how it went.
    pub generation: Generation,
    /// After how many turns.
    pub turn: u64,
}

/// The messages so far; themselves they are in the turns log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Messages {
    /// How many.
    pub count: u64,
    /// blake3, hex: each step over the digest before and the next message's text.
    pub digest: String,
}

impl Default for Messages {
    fn default() -> Messages {
        Messages { count: 0, digest: netsky_model::chain::GENESIS.to_owned() }
    }
}

impl Messages {
    fn push(&mut self, message: &JsonText) {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.digest.as_bytes()).update(message.as_str().as_bytes());
        self.digest = hasher.finalize().to_hex().to_string();
        self.count += 1;
    }
}

/// What the reports so far say about a lineage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// Turns that are over.
    pub turn: u64,
    /// The generation that reported last.
    pub generation: Generation,
    /// Where the context of that generation stands.
    pub lifecycle: LifecycleState,
    /// Whether a turn of it is under way, as far as its reports and prompts say; never at a turn boundary.
    pub under_way: bool,
    /// Whether the turn that was under way when its finalization was asked for still is: the next end is not its last.
    pub one_before: bool,
    /// Its last word about it.
    pub context_pct: Option<ContextPct>,
    /// Its last word about what it does.
    pub phase: Option<String>,
    /// When it says that this is over at the latest.
    pub phase_until: Option<Stamp>,
    /// The program's own name for its conversation.
    pub session_id: Option<String>,
    /// Where the program keeps that.
    pub transcript: Option<String>,
    /// The sums of all turns.
    pub usage: Usage,
    /// Who answered last.
    pub model: Option<Model>,
    /// What the loop may do.
    pub loop_config: LoopConfig,
    /// The messages so far.
    pub messages: Messages,
    /// Tool calls without a result, by their ids.
    pub intents: BTreeMap<String, Intent>,
    /// What a generation leaves to the next one; none once that has acknowledged it.
    pub handoff: Option<Handoff>,
    /// The newest named calls that told something, oldest first, at most [`RECENT`].
    pub recent: VecDeque<Told>,
}

/// What a session says about itself, as clients see it beside what the kernel knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// Turns of the lineage that are over.
    #[serde(default)]
    pub turn: u64,
    /// Where the context of the newest generation stands.
    #[serde(default)]
    pub lifecycle: LifecycleState,
    /// How much of it is used; null where nobody said.
    #[serde(default)]
    pub context_pct: Option<ContextPct>,
    /// What the program says it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// When it says that this is over at the latest: until then its silence is no hang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_until: Option<Stamp>,
    /// The program's own name for its conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Tool calls of generations that are over, whose outcome nobody knows.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unknown: usize,
    /// What a generation leaves to the next one, until that has acknowledged it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<HandoffView>,
}

/// A handoff, without what is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandoffView {
    /// Whose it is.
    pub generation: Generation,
    /// Whether its program has written its part.
    pub written: bool,
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

/// Most turns of a lineage: what comes behind it no reader of JSON is sure to tell apart.
const LAST_TURN: u64 = (1 << 53) - 1;

/// Why a report does not fit what was reported before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// An earlier generation speaks.
    #[error("generation {said} is over, {newest} has reported")]
    Stale {
        /// Whose report it is.
        said: Generation,
        /// Who reported last.
        newest: Generation,
    },
    /// The turn is over already.
    #[error("turn {said} is over, {done} are")]
    OldTurn {
        /// Its number.
        said: u64,
        /// Turns that are over.
        done: u64,
    },
    /// Over [`LAST_TURN`].
    #[error("there is no turn {said}: the last one is {LAST_TURN}")]
    NoTurn {
        /// Its number.
        said: u64,
    },
    /// The same generation has that call open.
    #[error("intent {id} is open already")]
    OpenIntent {
        /// The call.
        id: String,
    },
    /// Nobody has that call open.
    #[error("there is no open intent {id}")]
    NoIntent {
        /// The call.
        id: String,
    },
    /// [`OPEN_INTENTS`] are open.
    #[error("{OPEN_INTENTS} intents are open already")]
    TooManyIntents,
    /// With it the open ones hold more than [`OPEN_BYTES`].
    #[error("the open intents were given {open} bytes, this one {bytes}; the limit is {OPEN_BYTES}")]
    IntentsTooLarge {
        /// Of those that are open.
        open: usize,
        /// Of this one.
        bytes: usize,
    },
    /// A finalization turn begins only where a context is nearly used, and once.
    #[error("a finalization turn begins when a generation is dying, and once")]
    NotDying,
    /// A handoff is written where a context nears its end.
    #[error("a handoff is written from aging on, at 70 % of a context")]
    NotAging,
    /// A handoff of no bytes, or of more than [`LONGEST_HANDOFF`].
    #[error("a handoff has 1 to {LONGEST_HANDOFF} bytes")]
    LongHandoff,
    /// What an earlier generation left still waits, and has the place.
    #[error("what generation {of} left has not been acknowledged: acknowledge it, then leave another")]
    Unacknowledged {
        /// Whose.
        of: Generation,
    },
    /// No earlier generation left anything that waits.
    #[error("no handoff of an earlier generation waits to be acknowledged")]
    NoHandoff,
    /// The finalization turn is over.
    #[error("the context of this generation is dead: nothing begins in it any more")]
    Dead,
    /// That name was used for a report of this kind that said something else.
    #[error(
        "request_id {request_id} was used for another {kind} of generation {generation}: nothing was told"
    )]
    OtherCall {
        /// The name.
        request_id: String,
        /// The kind's word.
        kind: &'static str,
        /// Whose reports both are.
        generation: Generation,
    },
    /// A word that is empty, too long or not printable.
    #[error("{what} must have 1 to {LONGEST_WORD} bytes and no control characters")]
    BadWord {
        /// Which.
        what: &'static str,
    },
}

impl State {
    /// Takes a report in; a refused one changes nothing.
    ///
    /// # Errors
    /// [`Misfit`].
    pub fn take(&mut self, generation: Generation, report: &Report) -> Result<(), Misfit> {
        self.check(generation, report)?;
        if generation > self.generation {
            if self.lifecycle == LifecycleState::Dead {
                // It ended with the context; the record of the handoff has its name.
                (self.session_id, self.transcript) = (None, None);
            }
            // Its context, its phase and its lifecycle begin anew; what the lineage has behind it stays.
            (self.lifecycle, self.context_pct) = (LifecycleState::default(), None);
            (self.phase, self.phase_until) = (None, None);
            (self.under_way, self.one_before) = (false, false);
            self.generation = generation;
        }
        match report {
            Report::Turn(turn) => self.take_turn(generation, turn),
            Report::Intent { id, tool, input } => {
                let (tool, input) = (tool.clone(), input.clone());
                self.intents.insert(id.clone(), Intent { tool, input, generation, turn: self.turn });
                self.under_way = true;
            }
            Report::Result { id, .. } => {
                self.intents.remove(id);
                self.under_way = true;
            }
            Report::Begun => self.under_way = true,
            Report::Context { used } => {
                self.context_pct = Some(*used);
                self.lifecycle = self.lifecycle.evaluate(*used);
            }
            Report::Compacted => {
                self.lifecycle = self.lifecycle.compacted();
                if self.lifecycle == LifecycleState::Healthy {
                    self.context_pct = None;
                    // What it prepared for its end is not what it will leave.
                    self.handoff.take_if(|handoff| handoff.generation == generation);
                }
            }
            Report::Finalization => {
                // Said again while a turn of before is under way: that one is over now.
                self.one_before = self.under_way && self.lifecycle == LifecycleState::Dying;
                self.lifecycle = LifecycleState::Draining;
            }
            Report::Phase { phase, until } => {
                (self.phase, self.phase_until) = (Some(phase.clone()), until.clone());
            }
            Report::SessionId { session_id, transcript } => {
                self.session_id = Some(session_id.clone());
                self.transcript.clone_from(transcript);
            }
            Report::Handoff { .. } => {}
            Report::Acknowledge => self.handoff = None,
        }
        self.prepare(report);
        Ok(())
    }

    fn check(&self, generation: Generation, report: &Report) -> Result<(), Misfit> {
        if generation < self.generation {
            return Err(Misfit::Stale { said: generation, newest: self.generation });
        }
        let word = |what, text: &str| match text.len() {
            1..=LONGEST_WORD if !text.chars().any(char::is_control) => Ok(()),
            _ => Err(Misfit::BadWord { what }),
        };
        let dead = generation == self.generation && self.lifecycle == LifecycleState::Dead;
        match report {
            Report::Intent { .. } | Report::Handoff { .. } if dead => Err(Misfit::Dead),
            Report::Handoff { .. }
                if generation > self.generation || self.lifecycle == LifecycleState::Healthy =>
            {
                Err(Misfit::NotAging)
            }
            Report::Handoff { text } if !(1..=LONGEST_HANDOFF).contains(&text.len()) => {
                Err(Misfit::LongHandoff)
            }
            Report::Handoff { .. } => Ok(()),
            Report::Acknowledge if self.waiting(generation).is_some() => Ok(()),
            Report::Acknowledge => Err(Misfit::NoHandoff),
            // Turn 0 is none: what the conversation held before the first.
            Report::Turn(turn)
                if turn.turn.is_some_and(|said| said <= self.turn && (said, self.turn) != (0, 0)) =>
            {
                Err(Misfit::OldTurn { said: turn.turn.unwrap_or_default(), done: self.turn })
            }
            Report::Turn(_) | Report::Begun | Report::Context { .. } | Report::Compacted => Ok(()),
            Report::Intent { id, tool, .. } => {
                word("an intent's id", id)?;
                word("a tool's name", tool)?;
                match self.intents.get(id) {
                    // What an earlier generation left open may be decided upon anew, under the same name.
                    Some(open) if open.generation == generation => Err(Misfit::OpenIntent { id: id.clone() }),
                    None if self.intents.len() >= OPEN_INTENTS => Err(Misfit::TooManyIntents),
                    _ => Ok(()),
                }
            }
            Report::Result { id, .. } if self.intents.contains_key(id) => Ok(()),
            Report::Result { id, .. } => {
                word("an intent's id", id)?;
                Err(Misfit::NoIntent { id: id.clone() })
            }
            Report::Finalization
                if generation == self.generation
                    && (self.lifecycle == LifecycleState::Dying || self.one_before) =>
            {
                Ok(())
            }
            Report::Finalization => Err(Misfit::NotDying),
            Report::Phase { phase, .. } => word("a phase", phase),
            Report::SessionId { session_id, transcript } => {
                word("a session id", session_id)?;
                transcript.as_ref().map_or(Ok(()), |path| word("a transcript's path", path))
            }
        }
    }

    /// Whether there is room for an intent beside those that are open, for a handoff, or for another turn. What is in the log
    /// already had it.
    fn check_room(&self, generation: Generation, report: &Report) -> Result<(), Misfit> {
        if let Report::Handoff { .. } = report
            && let Some(unread) = self.unread(generation)
        {
            return Err(Misfit::Unacknowledged { of: unread.generation });
        }
        if let Report::Turn(turn) = report {
            let said = turn.turn.unwrap_or(self.turn.saturating_add(1));
            return if said > LAST_TURN { Err(Misfit::NoTurn { said }) } else { Ok(()) };
        }
        let Report::Intent { id, input, .. } = report else { return Ok(()) };
        let size = |input: &Value| input.to_string().len();
        let others = self.intents.iter().filter(|(open, _)| *open != id);
        let (open, bytes) = (others.map(|(_, intent)| size(&intent.input)).sum::<usize>(), size(input));
        if open + bytes > OPEN_BYTES { Err(Misfit::IntentsTooLarge { open, bytes }) } else { Ok(()) }
    }

    fn take_turn(&mut self, generation: Generation, turn: &Turn) {
        self.turn = turn.turn.unwrap_or(self.turn.saturating_add(1));
        self.under_way = false;
        if !std::mem::take(&mut self.one_before) && self.lifecycle == LifecycleState::Draining {
            // That was the finalization turn.
            self.lifecycle = LifecycleState::Dead;
        }
        turn.messages.iter().for_each(|message| self.messages.push(message));
        self.usage.add(&turn.usage);
        if let Some(model) = &turn.model {
            self.model = Some(model.clone());
        }
        if let Some(config) = &turn.loop_config {
            self.loop_config = config.clone();
        }
        // Whoever finished a turn was shown what generations before it left open.
        self.intents.retain(|_, intent| intent.generation == generation);
    }

    /// Whether that call has told this before.
    ///
    /// # Errors
    /// [`Misfit::OtherCall`]: it told something else.
    pub(crate) fn has_told(
        &self,
        request_id: &str,
        generation: Generation,
        report: &Report,
    ) -> Result<bool, Misfit> {
        let call = Told::new(request_id, generation, report);
        match self.recent.iter().rev().find(|told| told.is_call(&call)) {
            Some(told) if told.digest == call.digest || told.kind.is_empty() => Ok(true),
            Some(_) => {
                Err(Misfit::OtherCall { request_id: call.request_id, kind: report.word(), generation })
            }
            None => Ok(false),
        }
    }

    /// Remembers a call that told something.
    pub(crate) fn remember(&mut self, told: Told) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(told);
    }

    /// As clients of that generation see it: of an earlier one only what the lineage has behind it. `over`: what it had begun
    /// and not told of has no outcome that anybody knows.
    pub fn progress(&self, newest: Generation, over: bool) -> Progress {
        let (turn, session_id) = (self.turn, self.conversation(newest).map(str::to_owned));
        let handoff = self
            .handoff
            .as_ref()
            .map(|handoff| HandoffView { generation: handoff.generation, written: handoff.text.is_some() });
        let unknown = self.unknown(if over { newest.next() } else { newest }).count();
        let kept = Progress { turn, session_id, unknown, handoff, ..Progress::default() };
        if self.generation < newest {
            return kept;
        }
        Progress {
            lifecycle: self.lifecycle,
            context_pct: self.context_pct,
            phase: self.phase.clone(),
            phase_until: self.phase_until.clone(),
            ..kept
        }
    }

    /// Tool calls of generations that are over: how they went, nobody knows.
    pub fn unknown(&self, newest: Generation) -> impl Iterator<Item = (&String, &Intent)> {
        self.intents.iter().filter(move |(_, intent)| intent.generation < newest)
    }
}
