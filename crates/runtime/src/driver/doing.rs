//! What an agent does at this moment, in words that are the same for every kind of program.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What an agent does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Doing {
    /// It has not said that it takes messages.
    #[default]
    Starting,
    /// It waits for a message.
    Idle,
    /// A turn is under way, and the model speaks.
    Working,
    /// A turn is under way, and the model has not begun to answer.
    WaitingForModel,
    /// A tool runs.
    ToolRunning {
        /// Which.
        tool: String,
    },
    /// It waits for somebody: see its asks.
    Blocked {
        /// What for, on one line.
        on: String,
    },
    /// The provider wants a pause.
    Throttled {
        /// When the program tries again, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// In the program's words.
        why: String,
    },
    /// Keys or a login do not hold.
    FailedAuth {
        /// In the program's words.
        why: String,
    },
    /// Nothing comes, and nothing excuses that.
    Wedged {
        /// Which way.
        how: Wedge,
        /// Since when, in words.
        why: String,
    },
    /// No program runs.
    Down,
}

/// The ways in which an agent hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wedge {
    /// The model was asked and has not begun to answer.
    NoAnswer,
    /// The model began to answer and stopped in the middle.
    Stalled,
    /// The model's connection lives and carries nothing but signs of life.
    PingsOnly,
    /// The program is stopped, or does not come to its own loop.
    Frozen,
    /// The program does not read what it is given.
    Deaf,
    /// The program has said nothing that its driver understands.
    Unheard,
    /// Nobody speaks to the program, whatever it does.
    Undriven,
    /// The program says that it will not take part, and why.
    Refused,
}

impl Doing {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Doing::Starting => "starting",
            Doing::Idle => "idle",
            Doing::Working => "working",
            Doing::WaitingForModel => "waiting-for-model",
            Doing::ToolRunning { .. } => "tool-running",
            Doing::Blocked { .. } => "blocked",
            Doing::Throttled { .. } => "throttled",
            Doing::FailedAuth { .. } => "failed-auth",
            Doing::Wedged { .. } => "wedged",
            Doing::Down => "down",
        }
    }

    /// Whether a turn is under way.
    pub fn is_busy(&self) -> bool {
        !matches!(self, Doing::Starting | Doing::Idle | Doing::Down | Doing::FailedAuth { .. })
    }
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doing::ToolRunning { tool } => write!(f, "runs {tool}"),
            Doing::Blocked { on } => write!(f, "blocked: {on}"),
            Doing::Throttled { until: Some(until), why } => write!(f, "throttled until {until}: {why}"),
            Doing::Throttled { until: None, why } => write!(f, "throttled: {why}"),
            Doing::FailedAuth { why } => write!(f, "failed authentication: {why}"),
            Doing::Wedged { how, why } => write!(f, "wedged ({}): {why}", how.word()),
            other => f.write_str(other.word()),
        }
    }
}

impl Wedge {
    /// What it means, for people.
    pub fn words(self) -> &'static str {
        match self {
            Wedge::NoAnswer => "the model was asked and has not begun to answer",
            Wedge::Stalled => "the model stopped in the middle of an answer",
            Wedge::PingsOnly => "the model's connection lives and carries no answer",
            Wedge::Frozen => "its program is stopped or does not answer",
            Wedge::Deaf => "its program does not read what it is given",
            Wedge::Unheard => {
                "its program has not said that it takes messages, nor anything else that its driver understands"
            }
            Wedge::Undriven => "netsky-drivers cannot speak to it",
            Wedge::Refused => "its program refuses what it is asked to begin with",
        }
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Wedge::NoAnswer => "no-answer",
            Wedge::Stalled => "stalled",
            Wedge::PingsOnly => "pings-only",
            Wedge::Frozen => "frozen",
            Wedge::Deaf => "deaf",
            Wedge::Unheard => "unheard",
            Wedge::Undriven => "undriven",
            Wedge::Refused => "refused",
        }
    }
}

/// What a program asks somebody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The program's own id of it.
    pub id: String,
    /// What is asked.
    pub kind: AskKind,
    /// The tool that it is about.
    pub tool: String,
    /// For people: what it wants to do, or its question.
    pub text: String,
    /// What the driver needs for the answer.
    #[serde(default)]
    pub detail: serde_json::Value,
}

/// What sort of question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AskKind {
    /// Whether it may do something.
    Permission,
    /// What somebody wants.
    Question,
}

impl Ask {
    /// How many things it asks at once.
    pub fn questions(&self) -> usize {
        self.detail["questions"].as_array().map_or(0, Vec::len)
    }

    /// The one whose id is this, or begins with it; none where none does.
    ///
    /// # Errors
    /// Several begin with it.
    pub fn find<'a>(asks: &'a [Ask], id: &str) -> Result<Option<&'a Ask>, SeveralFit> {
        // The whole of one may be the beginning of another: some programs count.
        if let Some(ask) = asks.iter().find(|ask| ask.id == id) {
            return Ok(Some(ask));
        }
        let mut fits = asks.iter().filter(|ask| !id.is_empty() && ask.id.starts_with(id));
        let first = fits.next();
        if fits.next().is_some() { Err(SeveralFit) } else { Ok(first) }
    }
}

/// Several questions begin with what was to name one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeveralFit;
