//! `state/owner/feed.json`: which milestones the owner was told of. The record has the events, this how far they got; lost,
//! those of the last day are told once more.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use netsky_disk::layout::Layout;
use netsky_disk::{clock, state};
use netsky_ledger::{Fact, Mark, facts_after};
use netsky_model::feed::{Event, Feed, Level, Seen, Terms, Verdict};
use serde::{Deserialize, Serialize};

use crate::Result;

/// Where nothing is known of what the owner was told, he knows what is older.
const FORGOTTEN: Duration = Duration::from_secs(24 * 60 * 60);

/// The book.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Book {
    v: u64,
    /// How far the record was read.
    mark: Mark,
    /// Which events were met last.
    seen: Seen,
    #[serde(flatten)]
    pub(crate) feed: Feed,
    /// Whether it is to be written although nothing is due: the record went on by whole files since, nothing was ever written
    /// and something waits, which the next to read would take for old one day, or milestones were passed by.
    #[serde(skip)]
    behind: bool,
    /// What of the record was passed by.
    #[serde(skip)]
    pub(crate) passed: Vec<String>,
}

/// How things stand with the milestones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Digest {
    /// How many wait.
    pub waiting: usize,
    /// When the oldest of them was recorded.
    pub oldest: Option<Timestamp>,
    /// Whether they are to be told now.
    pub due: bool,
    /// Whether whoever sends has only to read on.
    pub behind: bool,
    /// Why the last attempt was in vain; none if there was none since the last that was not.
    pub why: Option<String>,
}

impl Book {
    /// The book with what the record says since. Beside the root nothing of that is for the owner, and it is passed by.
    pub(crate) fn read(layout: &Layout, terms: &Terms) -> Result<Book> {
        let (read, mut passed) = match state::read_json::<Book>(layout.feed_book()) {
            // Told by whoever writes it next, who puts it aside.
            Err(error) if error.is_damage() => (None, vec![error.to_string()]),
            read => (read?, Vec::new()),
        };
        let is_known = read.is_some();
        let mut book = read.unwrap_or_else(|| Book {
            v: 1,
            mark: Mark::default(),
            seen: Seen::default(),
            feed: Feed::default(),
            behind: false,
            passed: Vec::new(),
        });
        // Where there is no room nothing can be taken, and the record is not read.
        if terms.root && !book.feed.has_room() {
            book.passed = passed;
            return Ok(book);
        }
        match facts_after(layout, book.mark) {
            Ok((facts, mark, more)) => {
                book.behind = book.mark.is_behind(mark);
                passed.extend(more);
                let since = clock::wall() - FORGOTTEN;
                // What was passed by is so for good: whoever becomes the root later would tell it.
                book.behind |= !terms.root && facts.iter().any(is_milestone);
                let facts = facts.iter().filter(|fact| terms.root && (is_known || fact.ts >= since));
                book.mark = match book.take(facts) {
                    None => mark,
                    Some(seq) => book.mark.up_to(seq),
                };
                book.behind |= !is_known && !book.feed.waiting.is_empty();
            }
            // A record that does not read keeps nothing that is known from being told.
            Err(error) => passed.push(error.to_string()),
        }
        book.passed = passed;
        Ok(book)
    }

    /// Takes the milestones among facts while there is room; up to which fact, if not all.
    fn take<'f>(&mut self, facts: impl Iterator<Item = &'f Fact>) -> Option<u64> {
        let mut last = 0;
        for fact in facts {
            if let Some(event) = event(fact).filter(|event| event.level == Level::Milestone) {
                if !self.feed.has_room() {
                    return Some(last);
                }
                if self.seen.is_new(&event) {
                    self.feed.waiting.push(event);
                }
            }
            last = fact.seq;
        }
        None
    }

    pub(crate) fn write(&self, layout: &Layout) -> Result<()> {
        let path = layout.feed_book();
        if state::read_json::<Book>(&path).is_err_and(|error| error.is_damage()) {
            state::set_aside(&path)?;
        }
        if let Some(folder) = path.parent() {
            netsky_disk::fs::Dir::make(folder)?;
        }
        Ok(state::write_json(path, self)?)
    }
}

fn is_milestone(fact: &Fact) -> bool {
    event(fact).is_some_and(|event| event.level == Level::Milestone)
}

fn event(fact: &Fact) -> Option<Event> {
    Event::of((fact.seq, fact.ts), &fact.kind, &fact.key, &fact.data)
}

/// Whether now is a quiet hour of the owner's.
pub fn is_quiet(terms: &Terms) -> bool {
    terms.is_quiet(clock::wall(), &zone(terms))
}

/// In which zone the owner's days and hours are. One that this machine does not know is UTC.
pub fn zone(terms: &Terms) -> TimeZone {
    TimeZone::get(&terms.tz).unwrap_or(TimeZone::UTC)
}

/// How things stand; looking sends and changes nothing.
///
/// # Errors
/// The book cannot be read.
pub fn milestones(layout: &Layout, terms: &Terms) -> Result<Digest> {
    let book = Book::read(layout, terms)?;
    let verdict = book.feed.verdict(terms, is_quiet(terms), &clock::stamp());
    Ok(Digest {
        waiting: book.feed.waiting.len(),
        oldest: book.feed.waiting.first().map(|event| event.ts),
        due: matches!(verdict, Verdict::Send { .. }),
        behind: book.behind,
        why: (book.feed.failures > 0).then(|| book.feed.why()).flatten(),
    })
}

/// The feed as the record has it.
#[derive(Debug, Default)]
pub struct Reader {
    mark: Mark,
    seen: Seen,
    told: BTreeSet<String>,
}

impl Reader {
    /// The events since the last call, from the beginning of the record at the first; and what of it was passed by, once.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn read(&mut self, layout: &Layout) -> Result<(Vec<Event>, Vec<String>)> {
        let (facts, mark, mut passed) = facts_after(layout, self.mark)?;
        self.mark = mark;
        let mut events: Vec<Event> = facts.iter().filter_map(event).collect();
        events.retain(|event| self.seen.is_new(event));
        passed.retain(|what| self.told.insert(what.clone()));
        Ok((events, passed))
    }
}
