//! One loop, as its file says it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};

/// Newest version of the file that this program understands.
pub(crate) const VERSION: u64 = 1;

/// When a dynamic loop fires where nobody says when: 25 minutes.
pub const DYNAMIC_DELAY: Duration = Duration::from_secs(1500);

/// Longest prompt, in bytes: it fits into an envelope, and its file into what is read of one.
pub const MAX_PROMPT: usize = 32 * 1024;

/// Longest file that a verb makes: each control character of a prompt takes six bytes in it.
const LONGEST: usize = 64 * 1024;

/// Where files lie that are no loops, below `state/loops/`.
pub const BROKEN: &str = "broken";

/// `loop-<8 hex>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LoopId(pub(crate) u32);

/// Text that names no loop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("loop id {0:?} is not loop-<8 hex digits>")]
pub struct BadLoopId(String);

impl LoopId {
    /// A loop of random digits.
    pub fn from_random(digits: u32) -> LoopId {
        LoopId(digits)
    }

    /// The name of its file.
    pub(crate) fn file(self) -> String {
        format!("{self}.toml")
    }
}

impl fmt::Display for LoopId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("loop-{:08x}", self.0))
    }
}

impl FromStr for LoopId {
    type Err = BadLoopId;

    fn from_str(text: &str) -> Result<LoopId, BadLoopId> {
        let bad = || BadLoopId(text.chars().take(40).collect());
        let digits = text.strip_prefix("loop-").filter(|digits| digits.len() == 8).ok_or_else(bad)?;
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if !digits.bytes().all(is_hex) {
            return Err(bad());
        }
        u32::from_str_radix(digits, 16).map(LoopId).map_err(|_| bad())
    }
}

impl TryFrom<String> for LoopId {
    type Error = BadLoopId;

    fn try_from(text: String) -> Result<LoopId, BadLoopId> {
        text.parse()
    }
}

impl From<LoopId> for String {
    fn from(id: LoopId) -> String {
        id.to_string()
    }
}

/// How a loop goes on after it has fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It waits to be rescheduled.
    Dynamic,
    /// It fires again an interval later.
    Fixed,
}

impl Mode {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Dynamic => "dynamic",
            Mode::Fixed => "fixed",
        }
    }
}

/// A loop. The keys of the seed come first, in its order; those behind them are absent where they say nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Loop {
    /// Format version; absent in files of the first one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub v: u64,
    /// Its name, as its file's.
    pub id: LoopId,
    /// Who is sent the prompt.
    pub agent: AgentId,
    /// When it was made; a fixed loop keeps its phase to that.
    pub created_utc: Timestamp,
    /// How it goes on.
    pub mode: Mode,
    /// What is sent.
    pub prompt: String,
    /// The instant that it fires for next; once it has fired and waits, a proposal.
    pub next_fire_utc: Timestamp,
    /// When it fired last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_fire_utc: Option<Timestamp>,
    /// Seconds from one instant to the next; of fixed loops alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_secs: Option<u64>,
    /// Whether it is to fire at `next_fire_utc`; absent is yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub armed: Option<bool>,
    /// A dynamic loop that arms itself again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keep_alive: bool,
    /// It fires for no instant from then on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_utc: Option<Timestamp>,
    /// Instants that passed beside the one it last fired for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed: u64,
    /// Why it could not be delivered, until it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Nothing is due until it is resumed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// What it last sent: whether that was read decides about the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_id: Option<EnvelopeId>,
    /// How often a wall clock that was far ahead was set right: its instants come again, and are others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub clock_steps: u64,
    /// `next_fire_utc` on the boot clock; absent in files that people wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<Clock>,
    /// Keys of newer versions, kept as they are.
    #[serde(flatten)]
    pub extra: toml::Table,
}

/// When an instant comes by the boot clock, which no step of the wall clock moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Of which instant this is: if `next_fire_utc` is another, somebody edited it, and this says nothing.
    pub of: Timestamp,
    /// First 8 hex digits of the boot id.
    pub boot_id: String,
    /// Milliseconds of that boot's clock.
    pub boot_ms: u64,
    /// How long it was away when this was written, in seconds.
    pub in_secs: u64,
}

fn one() -> u64 {
    VERSION
}

fn is_one(v: &u64) -> bool {
    *v == VERSION
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Loop {
    /// A new one, dynamic without an `interval`.
    pub fn new(id: LoopId, agent: AgentId, prompt: String, interval: Option<Duration>, now: &Stamp) -> Loop {
        let created = whole(now.wall);
        let mut new = Loop {
            v: VERSION,
            id,
            agent,
            created_utc: created,
            mode: interval.map_or(Mode::Dynamic, |_| Mode::Fixed),
            prompt,
            next_fire_utc: created,
            last_fire_utc: None,
            interval_secs: interval.map(|interval| interval.as_secs()),
            armed: None,
            keep_alive: false,
            expires_utc: None,
            missed: 0,
            last_error: None,
            paused: false,
            last_id: None,
            clock_steps: 0,
            clock: None,
            extra: toml::Table::new(),
        };
        new.arm(now, interval.unwrap_or(DYNAMIC_DELAY));
        new
    }

    /// It as somebody wants it who was shown `before` and wrote `after`: what they changed, and else what it is by now.
    ///
    /// # Errors
    /// What was written is no loop, or another one: line, column and reason.
    pub fn edited(&self, before: &str, after: &str) -> Result<Loop, String> {
        let located = |text: &str, error: toml::de::Error| located(text, &error);
        let wanted: Loop = toml::from_str(after).map_err(|error| located(after, error))?;
        if wanted.id != self.id {
            return Err(format!("its id is {}, and stays {}", wanted.id, self.id));
        }
        let table = |text: &str| toml::from_str::<toml::Table>(text).map_err(|error| located(text, error));
        let (before, after) = (table(before)?, table(after)?);
        let mut now = table(&self.text().map_err(|error| error.to_string())?)?;
        now.retain(|key, _| after.contains_key(key) || !before.contains_key(key));
        now.extend(after.into_iter().filter(|(key, value)| before.get(key) != Some(value)));
        now.try_into().map_err(|error: toml::de::Error| error.message().to_owned())
    }

    /// Why it is not to be written by who makes or changes it, if anything: a tick must have room for what it adds.
    pub fn unfit(&self) -> Option<String> {
        let bytes = self.text().map_or(0, |text| text.len());
        let is_long = bytes > LONGEST;
        self.flaw()
            .or_else(|| is_long.then(|| format!("its file would have {bytes} bytes, the limit is {LONGEST}")))
    }

    /// Whether it fires at its time.
    pub fn is_armed(&self) -> bool {
        self.armed != Some(false)
    }

    /// From one instant to the next; of fixed loops alone.
    pub fn interval(&self) -> Option<Duration> {
        self.interval_secs.filter(|_| self.mode == Mode::Fixed).map(Duration::from_secs)
    }

    /// It fires for no instant from so long after now on.
    pub fn expire(&mut self, after: Duration, now: &Stamp) {
        let after = SignedDuration::try_from(after).ok();
        self.expires_utc = after.and_then(|after| whole(now.wall).checked_add(after).ok());
    }

    /// Its file.
    ///
    /// # Errors
    /// A key of a newer program that no file can have.
    pub fn text(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// Why it is none, whatever it was read from.
    pub fn flaw(&self) -> Option<String> {
        match (self.mode, self.interval_secs) {
            (Mode::Fixed, None) => return Some("mode \"fixed\" needs interval_secs".to_owned()),
            (Mode::Fixed, Some(0)) => return Some("interval_secs is 0".to_owned()),
            (Mode::Fixed, Some(secs)) if secs > crate::interval::LONGEST.as_secs() => {
                return Some("interval_secs is over ten years".to_owned());
            }
            // The sample that people know has one of a dynamic loop: it says nothing.
            _ => {}
        }
        if self.prompt.trim().is_empty() {
            return Some("prompt is empty".to_owned());
        }
        let bytes = self.prompt.len();
        (bytes > MAX_PROMPT).then(|| format!("prompt has {bytes} bytes, the limit is {MAX_PROMPT}"))
    }
}

/// Where a text is wrong, and why, on one line.
pub(crate) fn located(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| text.floor_char_boundary(span.start));
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    format!("line {line}, column {column}: {}", error.message().replace('\n', ", "))
}

/// An instant to the second, as files show it.
pub(crate) fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_id_is_its_word_and_eight_digits() {
        let id: LoopId = "loop-7f3c2a10".parse().expect("one");
        assert_eq!((id.to_string().as_str(), id.file().as_str()), ("loop-7f3c2a10", "loop-7f3c2a10.toml"));
        for text in
            ["7f3c2a10", "loop-7f3c2a1", "loop-7f3c2a100", "loop-7F3C2A10", "loop-../../..", "loop-+f3c2a10"]
        {
            assert!(text.parse::<LoopId>().is_err(), "{text}");
        }
    }
}
