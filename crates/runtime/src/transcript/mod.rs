//! What an agent and those around it said to each other, read from what its program prints.
//!
//! Promise: reading changes nothing. The lines go through a driver of their own; what that would write to the program is
//! dropped, and no receipt follows. What is kept is bounded, whatever a program prints.
//!
//! What is told is a program's word, and may be made to deceive a terminal or a reader.
//! Left to others: what it looks like, and that it is harmless there (`cli`); whose turn it was (`drivers`).

mod told;

use std::collections::VecDeque;

use jiff::Timestamp;
use netsky_kernel::drain::Usage;

use crate::driver::{Ask, Doing, Driver, Entry, Learnt, Out, Outcome, driver_of, keep_newest};
use crate::drivers::lines::Lines;

pub use told::Told;

/// Most bytes of one text that are kept: what is longer nobody reads in a terminal.
const MOST: usize = 64 << 10;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// A message was put before the program.
    Told(Told),
    /// The model says something, in markdown.
    Says(Text),
    /// It uses a tool.
    Uses {
        /// Which.
        name: String,
        /// For what, on one line.
        input: String,
    },
    /// What the tool gave back.
    Result {
        /// Whether it failed.
        failed: bool,
        /// The first line that says anything.
        first: String,
        /// How many lines there are beside it.
        more: usize,
    },
    /// The program says something of itself.
    Note(Text),
    /// It asks somebody something.
    Asked(Ask),
    /// That is answered, or nobody waits for it any more.
    Withdrawn {
        /// Which.
        id: String,
    },
    /// A turn is over.
    Ended {
        /// How.
        outcome: Outcome,
        /// What it took.
        usage: Usage,
    },
    /// The program cannot go on as it should, and why.
    Trouble(Doing),
    /// It made a summary of what it knew.
    Compacted,
    /// Another generation of the session begins: nobody waits for what was asked before.
    Began,
    /// A line was longer than any message.
    TooLong,
}

/// A text of bounded length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text {
    /// Its beginning, or all of it.
    pub text: String,
    /// How many bytes were left out.
    pub left_out: usize,
}

impl From<String> for Text {
    fn from(mut text: String) -> Text {
        let whole = text.len();
        text.truncate(text.floor_char_boundary(MOST));
        text.shrink_to_fit();
        Text { left_out: whole - text.len(), text }
    }
}

/// What an agent's program prints, on its way to people.
pub struct Transcript {
    runtime: String,
    driver: Box<dyn Driver>,
    lines: Lines,
    /// Offset at which the generation begins that runs, where it is not there yet.
    begins: Option<u64>,
    /// It was begun in the middle of a line, whose end is not here yet.
    in_line: bool,
    has_told: bool,
    /// The newest messages that were shown: who takes several together may say the earlier ones again with the last.
    shown: VecDeque<(String, u32)>,
}

/// Most messages that are known to have been shown: more than go in together.
const SHOWN: usize = 64;

impl Transcript {
    /// Of a program of this kind, from an offset in its output on; none where nobody drives such programs.
    ///
    /// `begins` is where the generation that runs begins. `in_line` says that the offset may be in the middle of a line.
    pub fn new(runtime: &str, from: u64, begins: Option<u64>, in_line: bool) -> Option<Transcript> {
        Some(Transcript {
            runtime: runtime.to_owned(),
            driver: fresh(runtime)?,
            lines: Lines::at(from),
            begins: begins.filter(|begins| *begins > from),
            // A generation's first line is a whole one.
            in_line: in_line && begins != Some(from),
            has_told: false,
            shown: VecDeque::new(),
        })
    }

    /// Takes output in; what follows from it, in order.
    pub fn take(&mut self, offset: u64, bytes: &[u8], now: Timestamp) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let before = match self.begins {
            Some(begins) => usize::try_from(begins.saturating_sub(offset)).unwrap_or(usize::MAX),
            None => 0,
        };
        let (old, new) = bytes.split_at(before.min(bytes.len()));
        self.read(offset, old, now, &mut pieces);
        let at = offset + old.len() as u64;
        if self.begins.is_some_and(|begins| begins <= at) {
            self.begin(at, &mut pieces);
        }
        self.read(at, new, now, &mut pieces);
        self.has_told |= !pieces.is_empty();
        pieces
    }

    /// Output is lost up to there.
    pub fn skip_to(&mut self, offset: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if self.begins.is_some_and(|begins| begins <= offset) {
            self.begin(offset, &mut pieces);
        }
        self.lines.skip_to(offset);
        self.in_line = true;
        pieces
    }

    /// What it asks and nobody has answered, as far as it was read.
    pub fn asks(&self) -> &[Ask] {
        self.driver.asks()
    }

    /// What it does, as far as it was read.
    pub fn doing(&self) -> &Doing {
        self.driver.doing()
    }

    /// What an earlier program left open is nobody's, and its ids come again.
    fn begin(&mut self, at: u64, pieces: &mut Vec<Piece>) {
        self.begins = None;
        if let Some(driver) = fresh(&self.runtime) {
            self.driver = driver;
        }
        self.lines.skip_to(at);
        self.in_line = false;
        if self.has_told || !pieces.is_empty() {
            pieces.push(Piece::Began);
        }
    }

    fn read(&mut self, offset: u64, bytes: &[u8], now: Timestamp, pieces: &mut Vec<Piece>) {
        let (driver, in_line, shown) = (&mut self.driver, &mut self.in_line, &mut self.shown);
        self.lines.push(offset, bytes, |line, _| {
            // The end of a line whose beginning nobody has seen may read as another one.
            if std::mem::take(in_line) {
                return;
            }
            let Some(line) = line else { return pieces.push(Piece::TooLong) };
            let mut out = Out::default();
            driver.line(line, now, &mut out);
            let told = pieces.len();
            for learnt in out.learnt {
                tell(&**driver, learnt, pieces);
            }
            pieces
                .extract_if(told.., |piece| matches!(piece, Piece::Told(told) if is_shown(shown, told)))
                .for_each(drop);
        });
    }
}

/// Whether a message stands there already; from now on it does.
fn is_shown(shown: &mut VecDeque<(String, u32)>, told: &Told) -> bool {
    let Some(id) = &told.id else { return false };
    if shown.contains(id) {
        return true;
    }
    keep_newest(id.clone(), shown, SHOWN);
    false
}

/// A driver that knows nothing.
fn fresh(runtime: &str) -> Option<Box<dyn Driver>> {
    driver_of(runtime, &serde_json::Value::Null)
}

fn tell(driver: &dyn Driver, learnt: Learnt, pieces: &mut Vec<Piece>) {
    pieces.push(match learnt {
        Learnt::Said(Entry::User { text }) => {
            return pieces.extend(told::read(&text).into_iter().map(Piece::Told));
        }
        Learnt::Said(Entry::Agent { text }) => Piece::Says(text.into()),
        Learnt::Said(Entry::Tool { name, input }) => Piece::Uses { name, input },
        Learnt::Said(Entry::Result { failed, text }) => folded(failed, &text),
        Learnt::Said(Entry::Note { text }) => Piece::Note(text.into()),
        Learnt::Asked(ask) => Piece::Asked(ask),
        Learnt::Withdrawn { id } => Piece::Withdrawn { id },
        Learnt::TurnEnded(end) => Piece::Ended { outcome: end.outcome, usage: end.usage },
        Learnt::Doing => match driver.doing() {
            doing @ (Doing::Throttled { .. } | Doing::FailedAuth { .. }) => Piece::Trouble(doing.clone()),
            _ => return,
        },
        Learnt::Compacted => Piece::Compacted,
        Learnt::NoConversation(why) => Piece::Note(why.into()),
        Learnt::Up { .. }
        | Learnt::Conversation(_)
        | Learnt::Model(_)
        | Learnt::Settled(_)
        | Learnt::Untaken(_)
        | Learnt::TurnBegan
        | Learnt::Context(_)
        | Learnt::Unknown(_) => return,
    });
}

/// Of what a tool gave back one line is shown, and how much there is beside it.
fn folded(failed: bool, text: &str) -> Piece {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = Text::from(lines.next().unwrap_or_default().to_owned()).text;
    Piece::Result { failed, first, more: lines.count() }
}

#[cfg(test)]
mod tests;
