//! What the owner sees: which facts are events, what each says, and when those that can wait are told.
//!
//! Promise: an event is made of one fact and nothing else, so the feed can be rebuilt from the record at any time and says the
//! same. What can wait is told in the order of the record, each once, and never dropped: what there is no time for now is told
//! with what comes later. Pure: `owner` reads the record, asks here, and sends; pages are decided in [`crate::paging`].
//!
//! Reading order: [`Event`] → [`Seen`] → [`Terms`] → [`Feed`].

mod terms;
mod text;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::paging::{Doubt, PAGE, Try, is_over};
use crate::stamp::Stamp;

pub use terms::{Terms, Window};
pub use text::{digest, page};

/// Most events of one digest: a telephone shows a few, and the rest is in `netsky events`.
pub const MOST: usize = 100;
/// Facts whose repeat is still known. One that is told again later than that is an event again.
const KNOWN: usize = 256;
/// In what time the rate of digests is counted.
const HOUR: Duration = Duration::from_secs(60 * 60);

/// How soon the owner hears of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// At once, by itself, and until somebody has it.
    Page,
    /// With others, in a digest.
    Milestone,
    /// Only when he looks.
    Quiet,
}

impl Level {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Level::Page => "page",
            Level::Milestone => "milestone",
            Level::Quiet => "quiet",
        }
    }
}

/// The kinds of facts that are events. A crashloop and a budget are told by their pages.
pub const KINDS: [(&str, Level); 14] = [
    (PAGE, Level::Page),
    ("clone.finished", Level::Milestone),
    ("clone.blocked", Level::Milestone),
    ("harvest.started", Level::Quiet),
    ("harvest.landed", Level::Milestone),
    ("harvest.conflict", Level::Milestone),
    ("harvest.refused", Level::Milestone),
    ("gate.failed", Level::Milestone),
    ("watchdog.repaired", Level::Milestone),
    ("watchdog.crashloop", Level::Quiet),
    ("agent.blocked", Level::Milestone),
    ("loop.missed", Level::Milestone),
    ("budget.reached", Level::Quiet),
    ("owner.message", Level::Milestone),
];

/// One fact as the owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the record.
    pub seq: u64,
    /// When it was recorded.
    pub ts: Timestamp,
    /// What kind of fact.
    pub kind: String,
    /// Which occurrence; of a page its condition.
    pub key: String,
    /// How soon he hears of it.
    pub level: Level,
    /// What it says, in characters that are harmless anywhere.
    pub text: String,
}

impl Event {
    /// The event that a fact is; none for other facts.
    pub fn of((seq, ts): (u64, Timestamp), kind: &str, key: &str, data: &Value) -> Option<Event> {
        let (_, level) = KINDS.into_iter().find(|(known, _)| *known == kind)?;
        // An agent that is slower than its loop is no news.
        let level = if kind == "loop.missed" && data.get("unread").is_some() { Level::Quiet } else { level };
        let key = match level {
            Level::Page => data.get("condition").and_then(Value::as_str).unwrap_or(key),
            Level::Milestone | Level::Quiet => key,
        };
        let text = text::of(kind, key, data);
        Some(Event { seq, ts, kind: kind.to_owned(), key: key.to_owned(), level, text })
    }
}

/// The last facts that were events, by kind and key: one that was recorded twice is one event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seen(Vec<String>);

impl Seen {
    /// Whether an event is another than those before it; from here on it is known. A page raised again is one again: paging has
    /// its own measure.
    pub fn is_new(&mut self, event: &Event) -> bool {
        if event.level == Level::Page {
            return true;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(event.kind.as_bytes()).update(b"\0").update(event.key.as_bytes());
        let sum = hasher.finalize().to_hex()[..16].to_owned();
        let is_new = !self.0.contains(&sum);
        if is_new {
            let over = (self.0.len() + 1).saturating_sub(KNOWN);
            self.0.drain(..over);
            self.0.push(sum);
        }
        is_new
    }
}

/// The milestones that are not told yet, and how far the telling got.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feed {
    /// In the order of the record; at most [`MOST`].
    pub waiting: Vec<Event>,
    /// Up to which of them a transport may have been told, and nothing of that was written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<u64>,
    /// How long it has to wait then; none the first time after a death.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
    /// When the digests of the last hour were taken.
    pub taken: Vec<Stamp>,
    /// Attempts in vain since a transport took one.
    pub failures: u32,
    /// The last attempts.
    pub tries: Vec<Try>,
}

/// What is to be done about the milestones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// There are none.
    Nothing,
    /// They wait: for others, for the end of the quiet hours, or for the next hour.
    Wait,
    /// The owner may have them: later.
    Doubted,
    /// Tell them.
    Send {
        /// Up to which.
        upto: u64,
        /// The owner may have them already.
        repeated: bool,
    },
}

impl Feed {
    /// Whether there is room for one more; where not, it is read again once these are told.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < MOST
    }

    /// What is due; `is_quiet` says that now is a quiet hour of the owner's.
    pub fn verdict(&self, terms: &Terms, is_quiet: bool, now: &Stamp) -> Verdict {
        let (Some(first), Some(last)) = (self.waiting.first(), self.waiting.last()) else {
            return Verdict::Nothing;
        };
        // Nobody else's owner is told, and none is waked.
        if !terms.root || is_quiet {
            return Verdict::Wait;
        }
        if let Some(upto) = self.begun {
            return match &self.doubt {
                Some(doubt) if !doubt.is_over(HOUR, now) => Verdict::Doubted,
                _ => Verdict::Send { upto, repeated: true },
            };
        }
        let rate = self.taken.iter().filter(|taken| !is_over(HOUR, taken, now)).count();
        if rate >= terms.most as usize || (self.has_room() && !is_old(first.ts, terms.digest, now.wall)) {
            return Verdict::Wait;
        }
        Verdict::Send { upto: last.seq, repeated: false }
    }

    /// The events of the digest that goes up to one.
    pub fn upto(&self, upto: u64) -> Vec<Event> {
        self.waiting.iter().take_while(|event| event.seq <= upto).cloned().collect()
    }

    /// A digest begins. Whoever finds it so after our death sends the same again: at once the first time, then ever later.
    pub fn begin(&mut self, upto: u64, now: Stamp) {
        if self.begun.replace(upto).is_some() {
            self.doubted(now).times += 1;
        }
    }

    fn doubted(&mut self, now: Stamp) -> &mut Doubt {
        Doubt::renewed(&mut self.doubt, now)
    }

    /// An attempt ended.
    pub fn tried(&mut self, tried: Try) {
        Try::keep(&mut self.tries, tried);
    }

    /// A transport took it.
    pub fn took(&mut self, now: Stamp) {
        if let Some(upto) = self.begun.take() {
            self.waiting.retain(|event| event.seq > upto);
        }
        self.taken.retain(|taken| !is_over(HOUR, taken, &now));
        self.taken.push(now);
        (self.doubt, self.failures) = (None, 0);
    }

    /// None did; `doubtful` where one may have all the same: then the same is sent again, and no other. So it is where an attempt
    /// before this one was doubtful: that none took it now does not say that none had it then.
    pub fn in_vain(&mut self, doubtful: bool, now: Stamp) {
        match doubtful || self.doubt.is_some() {
            true => drop(self.doubted(now)),
            false => self.begun = None,
        }
        self.failures += 1;
    }

    /// Why it was not taken last.
    pub fn why(&self) -> Option<String> {
        Try::why(&self.tries)
    }
}

/// Whether an instant lies so far back. The record has no boot clock; what lies ahead is of a clock that was wrong.
fn is_old(at: Timestamp, time: Duration, now: Timestamp) -> bool {
    Duration::try_from(now.duration_since(at)).map_or(true, |age| age >= time)
}

#[cfg(test)]
mod tests;
