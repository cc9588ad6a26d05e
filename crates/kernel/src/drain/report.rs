//! What a session can say about itself.

use netsky_model::lifecycle::ContextPct;
use netsky_model::stamp::Stamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A JSON value as its provider wrote it, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct JsonText(pub(super) String);

impl TryFrom<String> for JsonText {
    type Error = serde_json::Error;

    fn try_from(text: String) -> Result<JsonText, serde_json::Error> {
        serde_json::from_str::<serde::de::IgnoredAny>(&text)?;
        Ok(JsonText(text))
    }
}

impl From<JsonText> for String {
    fn from(text: JsonText) -> String {
        text.0
    }
}

impl JsonText {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Tokens and money; sums over a lineage in a snapshot, one turn's share in a report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens read.
    #[serde(default)]
    pub input: u64,
    /// Tokens written.
    #[serde(default)]
    pub output: u64,
    /// Tokens read from the provider's cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Tokens written to it.
    #[serde(default)]
    pub cache_write: u64,
    /// Millionths of the currency of the bill; absent where nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

impl Usage {
    /// Counts `turn` in: a sum stays at its most rather than turn over, and a cost counts where one is known.
    pub fn add(&mut self, turn: &Usage) {
        for (sum, part) in [
            (&mut self.input, turn.input),
            (&mut self.output, turn.output),
            (&mut self.cache_read, turn.cache_read),
            (&mut self.cache_write, turn.cache_write),
        ] {
            *sum = sum.saturating_add(part);
        }
        if let Some(cost) = turn.cost_micros {
            self.cost_micros = Some(self.cost_micros.unwrap_or(0).saturating_add(cost));
        }
    }
}

/// Which model answers, and how it is asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// Whose.
    #[serde(default)]
    pub provider: String,
    /// Its name there.
    #[serde(default)]
    pub name: String,
    /// Where, if not at the provider's own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Everything else, as the program keeps it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub config: Value,
}

/// What the program's loop may do; opaque here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoopConfig {
    /// Its tools.
    #[serde(default)]
    pub tools: Value,
    /// What they may do unasked.
    #[serde(default)]
    pub permissions: Value,
    /// Where it stops.
    #[serde(default)]
    pub limits: Value,
}

/// A turn that is over.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// Its number, where the program counts; else it is the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// What the conversation grew by, in the provider's own form.
    #[serde(default)]
    pub messages: Vec<JsonText>,
    /// What this turn took.
    #[serde(default)]
    pub usage: Usage,
    /// The model from now on, if that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// The same for the loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_config: Option<LoopConfig>,
}

/// One thing that a session says about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// A turn is over: the boundary at which a lineage can be brought back.
    Turn(Box<Turn>),
    /// A tool call is about to be made.
    Intent {
        /// The program's own id of the call.
        id: String,
        /// Which tool.
        tool: String,
        /// What it is given.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        input: Value,
    },
    /// A tool call came back.
    Result {
        /// Of which intent.
        id: String,
        /// It failed; the program knows.
        #[serde(default)]
        failed: bool,
        /// What came back.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        output: Value,
    },
    /// A turn begins: something was put before the program. Told by the kernel itself for what comes through it.
    Begun,
    /// How much of its context is used.
    Context {
        /// That share.
        used: ContextPct,
    },
    /// It made its context smaller by itself: there is room in it again.
    Compacted,
    /// The one turn in which it writes its handoff begins.
    Finalization,
    /// What the program is doing, in its own word.
    Phase {
        /// The word.
        phase: String,
        /// When it is over at the latest, if the program knows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Stamp>,
    },
    /// The program's own name for its conversation.
    SessionId {
        /// That name.
        session_id: String,
        /// Where the program keeps it, if it says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transcript: Option<String>,
    },
    /// What the program leaves to the next generation of its lineage.
    Handoff {
        /// In its own words.
        text: String,
    },
    /// The program has what an earlier generation left to it.
    Acknowledge,
}

impl Report {
    /// The word for it on the command line and in the journal.
    pub fn word(&self) -> &'static str {
        match self {
            Report::Turn(_) => "turn",
            Report::Intent { .. } => "intent",
            Report::Result { .. } => "result",
            Report::Begun => "begun",
            Report::Context { .. } => "context",
            Report::Compacted => "compacted",
            Report::Finalization => "finalization",
            Report::Phase { .. } => "phase",
            Report::SessionId { .. } => "session-id",
            Report::Handoff { .. } => "handoff",
            Report::Acknowledge => "acknowledge",
        }
    }

    /// Whether it is synced before it is answered: a turn is what a lineage comes back from, an intent must be known before
    /// its effect. What the others say is less harmful lost than late: a lost result is an outcome that nobody knows.
    pub(super) fn durable(&self) -> bool {
        matches!(
            self,
            Report::Turn(_)
                | Report::Intent { .. }
                | Report::Compacted
                | Report::Finalization
                | Report::Handoff { .. }
                | Report::Acknowledge
        )
    }
}
