//! `state/pages/book.json`: how far the page of each condition got. The record has the pages, this has what became of them; lost,
//! they are all sent once more.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use netsky_disk::layout::Layout;
use netsky_disk::{clock, state};
use netsky_ledger::{Fact, Mark, PAGE, facts_after};
use netsky_model::feed;
use netsky_model::paging::{Condition, Paging, Verdict};
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Result;

/// The book.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Book {
    v: u64,
    /// How far the record was read.
    mark: Mark,
    /// When the transports were tested last, or the book was begun.
    pub(crate) tested: Stamp,
    /// Transports that did not take the last test page, and why.
    pub(crate) failed_test: Vec<String>,
    pub(crate) conditions: BTreeMap<String, Condition>,
    /// What of the record was passed by.
    #[serde(skip)]
    pub(crate) passed: Vec<String>,
}

/// Pages that no transport took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unsent {
    /// How many.
    pub count: usize,
    /// How many of them are to be sent now; the others the owner may have, and they wait.
    pub due: usize,
    /// When the oldest was raised.
    pub oldest: Timestamp,
    /// Why the last attempt was in vain; none if there was none yet.
    pub why: Option<String>,
}

/// How things stand with the owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outlook {
    /// Pages that are due; none if all are sent.
    pub unsent: Option<Unsent>,
    /// Whether a transport is configured: without one nobody is reached beyond this machine.
    pub reaches: bool,
    /// Transports that did not take the last test page, and why.
    pub failed_test: Vec<String>,
    /// Whether the transports are to be tested now.
    pub test_due: bool,
}

impl Book {
    /// The book with what the record says since. What this constellation pages nobody for is not kept: none of it must ring once it
    /// is the one that speaks to the owner.
    pub(crate) fn read(layout: &Layout, terms: &Paging) -> Result<Book> {
        let path = layout.page_book();
        let (read, mut passed) = match state::read_json::<Book>(&path) {
            // Told by whoever writes it next, who puts it aside.
            Err(error) if error.is_damage() => (None, vec![error.to_string()]),
            read => (read?, Vec::new()),
        };
        let mut book = read.unwrap_or_else(|| Book {
            v: 1,
            mark: Mark::default(),
            tested: clock::stamp(),
            failed_test: Vec::new(),
            conditions: BTreeMap::new(),
            passed: Vec::new(),
        });
        match facts_after(layout, book.mark) {
            Ok((facts, mark, more)) => {
                book.mark = mark;
                passed.extend(more);
                for fact in facts.iter().filter(|fact| fact.kind == PAGE) {
                    let (condition, occurrence) = named(fact);
                    if terms.tells(condition) {
                        book.raise((condition, occurrence), &feed::page(&fact.key, &fact.data), fact.ts);
                    }
                }
            }
            // A record that does not read keeps nothing that is known from being sent.
            Err(error) => passed.push(error.to_string()),
        }
        book.passed = passed;
        Ok(book)
    }

    /// A condition is there, or there again; the occurrence that is known already is told twice.
    pub(crate) fn raise(&mut self, (key, occurrence): (&str, Option<&str>), text: &str, at: Timestamp) {
        let known = self.conditions.get(key).and_then(|condition| condition.occurrence.as_deref());
        if occurrence.is_some() && known == occurrence {
            return;
        }
        let condition = match self.conditions.get_mut(key) {
            Some(condition) => {
                condition.raise(text, at);
                condition
            }
            None => self.conditions.entry(key.to_owned()).or_insert(Condition::raised(text, at)),
        };
        condition.occurrence = occurrence.map(str::to_owned);
    }

    pub(crate) fn write(&self, layout: &Layout) -> Result<()> {
        let path = layout.page_book();
        if state::read_json::<Book>(&path).is_err_and(|error| error.is_damage()) {
            state::set_aside(&path)?;
        }
        Ok(state::write_json(path, self)?)
    }

    /// Which pages are due: who failed least first, so that one that no transport ever takes is in nobody's way.
    pub(crate) fn due(
        &self,
        terms: &Paging,
        now: &Stamp,
        lasts: &dyn Fn(&str) -> bool,
    ) -> Vec<(String, bool)> {
        let mut due: Vec<(u32, Timestamp, String, bool)> = Vec::new();
        for (key, condition) in &self.conditions {
            if terms.tells(key)
                && let Verdict::Send { repeated } = condition.verdict(terms, now, lasts(key))
            {
                due.push((condition.failures, condition.raised, key.clone(), repeated));
            }
        }
        due.sort();
        due.into_iter().map(|(_, _, key, repeated)| (key, repeated)).collect()
    }

    /// Forgets conditions that are over and were paged for long ago.
    pub(crate) fn forget(&mut self, terms: &Paging, now: &Stamp, lasts: &dyn Fn(&str) -> bool) {
        let kept = (terms.again + terms.cool_down).max(Duration::from_secs(7 * 24 * 60 * 60));
        self.conditions.retain(|key, condition| {
            let is_done = condition.verdict(terms, now, false) == Verdict::Done;
            let is_old =
                condition.sent.as_ref().is_some_and(|sent| now.age_of(sent).is_none_or(|age| age > kept));
            !is_done || !is_old || lasts(key)
        });
    }
}

/// How things stand; looking sends and changes nothing.
///
/// # Errors
/// The book cannot be read.
pub fn outlook(layout: &Layout, terms: &Paging, lasts: &dyn Fn(&str) -> bool) -> Result<Outlook> {
    let (book, now) = (Book::read(layout, terms)?, clock::stamp());
    let waiting: Vec<_> = crate::send::waiting(layout).into_iter().filter(|one| one.is_unsent()).collect();
    let due = book.due(terms, &now, lasts).len() + waiting.len();
    let is_unsent = |verdict| matches!(verdict, Verdict::Send { .. } | Verdict::Doubted);
    let told = |(key, condition): &(&String, &Condition)| condition.verdict(terms, &now, lasts(key));
    let own = book.conditions.iter().filter(|(key, _)| terms.tells(key));
    let unsent = own.filter(|one| is_unsent(told(one)));
    let unsent: Vec<&Condition> = unsent.map(|(_, condition)| condition).collect();
    let raised = unsent.iter().map(|condition| condition.raised).chain(waiting.iter().map(|one| one.at));
    let last = unsent.iter().max_by_key(|condition| condition.failures);
    let why = last.and_then(|last| last.why());
    let count = unsent.len() + waiting.len();
    Ok(Outlook {
        unsent: raised.min().map(|oldest| Unsent { count, due, oldest, why }),
        reaches: !terms.transports.is_empty(),
        failed_test: book.failed_test.clone(),
        test_due: terms.is_test_due(&book.tested, &now),
    })
}

/// Which condition a fact raises, and which occurrence of it; of one that names none each fact is another.
fn named(fact: &Fact) -> (&str, Option<&str>) {
    match fact.data.get("condition").and_then(Value::as_str) {
        Some(condition) => (condition, Some(&fact.key)),
        None => (&fact.key, None),
    }
}
