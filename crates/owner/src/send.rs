//! Sending: what is due by one process at a time, what is urgent at once.

use std::time::Duration;

use jiff::Timestamp;
use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{clock, fault, random, state};
use netsky_ledger::{Facts, PAGE};
use netsky_model::paging::{Condition, Paging, TEST, Transport, Try, Verdict, harmless};
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::book::Book;
use crate::page::Page;
use crate::transport::{attempt, chain};

/// Most pages of one look: the next goes on.
const MOST: usize = 20;
/// After so many pages that no transport took the rest waits: all of them are down, and each costs its deadline.
const VAIN: usize = 3;
/// How long an escalation waits for whoever sends; past that it sends beside it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most pages that wait outside the record: the newest are what it is about.
const WAITING: usize = 100;

/// What became of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// A transport took it.
    Sent {
        /// Which.
        by: String,
    },
    /// The owner was told of that condition a while ago; told again after the cool-down.
    Held {
        /// When.
        since: Stamp,
    },
    /// No transport took it.
    Unsent {
        /// What each said.
        why: Vec<String>,
        /// Whether it is kept, so that a tick sends it.
        waits: bool,
    },
}

/// What became of an escalation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Escalated {
    /// The condition.
    pub key: String,
    /// What became of the page.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What of the record of it is missing.
    pub missing: Vec<String>,
}

/// What one look sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// Pages that a transport took.
    pub done: Vec<String>,
    /// Pages that none took, and what else is wrong.
    pub problems: Vec<String>,
}

/// A page that the record would not take.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Waiting {
    v: u64,
    key: String,
    /// Which occurrence of it, of one that has names for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    occurrence: Option<String>,
    text: String,
    pub(crate) at: Timestamp,
}

/// Sends what is due; none if another process does.
///
/// # Errors
/// What was sent could not be written down: nothing is sent then.
pub fn send_due(layout: &Layout, terms: &Paging, lasts: &dyn Fn(&str) -> bool) -> Result<Option<Sent>> {
    let Some(_held) = hold(layout, Duration::ZERO)? else { return Ok(None) };
    let mut sent = Sent::default();
    let tested = test(layout, terms);
    let mut book = Book::read(layout)?;
    sent.problems.append(&mut book.passed);
    take_waiting(layout, &mut book)?;
    match tested {
        Ok(true) => book.tested = clock::stamp(),
        Ok(false) => {}
        Err(error) => sent.problems.push(format!("the test page: {error}")),
    }
    let mut vain = 0;
    for (key, repeated) in book.due(terms, &clock::stamp(), lasts).into_iter().take(MOST) {
        match deliver(layout, terms, &mut book, &key, repeated)? {
            Outcome::Unsent { why, .. } => {
                sent.problems.push(format!("no transport took the page of {key}: {}", why.join("; ")));
                vain += 1;
            }
            Outcome::Sent { by } => sent.done.push(format!("paged for {key} by {by}")),
            Outcome::Held { .. } => {}
        }
        if vain == VAIN {
            break;
        }
    }
    book.forget(terms, &clock::stamp(), lasts);
    book.write(layout)?;
    Ok(Some(sent))
}

/// Tells the owner now. Never an error: what does not work is said, and the rest goes on.
pub fn escalate(layout: &Layout, terms: &Paging, key: &str, text: &str) -> Escalated {
    let text = harmless(text);
    let mut missing = Vec::new();
    let recorded = Facts::new(layout).append(PAGE, key, json!({ "text": text, "by": "escalate" }));
    let is_recorded = recorded.is_ok();
    missing.extend(recorded.err().map(|error| format!("the page is no fact: {error}")));
    missing.extend(fault::point("owner.page.recorded").err().map(|error| error.to_string()));
    let noted = match hold(layout, PATIENCE) {
        Ok(Some(held)) => noted(layout, terms, key, &text, is_recorded).map(|outcome| (outcome, held)),
        Ok(None) => Err("pages are being sent by another process".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let outcome = match noted {
        Ok((outcome, _held)) => outcome,
        Err(why) => {
            missing.push(format!("what became of it is not written down, so it may be sent again: {why}"));
            directly(layout, terms, key, &text, is_recorded)
        }
    };
    Escalated { key: key.to_owned(), outcome, missing }
}

/// By the book, which the caller has the lock of.
fn noted(
    layout: &Layout,
    terms: &Paging,
    key: &str,
    text: &str,
    is_recorded: bool,
) -> std::result::Result<Outcome, String> {
    let told = |error: crate::Error| error.to_string();
    let mut book = Book::read(layout).map_err(told)?;
    // A fact that the record could not give back is sent all the same.
    if !is_recorded || !book.conditions.contains_key(key) {
        book.raise((key, None), text, clock::wall());
    }
    let condition = &book.conditions[key];
    match (condition.verdict(terms, &clock::stamp(), true), &condition.sent) {
        (Verdict::Held, Some(since)) => {
            let since = since.clone();
            book.write(layout).map_err(told)?;
            Ok(Outcome::Held { since })
        }
        (Verdict::Send { repeated }, _) => deliver(layout, terms, &mut book, key, repeated).map_err(told),
        _ => deliver(layout, terms, &mut book, key, true).map_err(told),
    }
}

/// Without a book.
fn directly(layout: &Layout, terms: &Paging, key: &str, text: &str, is_recorded: bool) -> Outcome {
    let condition = Condition::raised(text, clock::wall());
    let page = Page::of(key, &condition, false, layout.home().display().to_string());
    let mut why = Vec::new();
    for (name, transport) in chain(terms) {
        match attempt(layout, &transport, &page) {
            Ok(()) => return Outcome::Sent { by: name },
            Err(refused) => why.push(format!("{name}: {}", refused.why)),
        }
    }
    let waits = is_recorded || wait(layout, &random_name(), (key, None), text).is_ok();
    Outcome::Unsent { why, waits }
}

/// Sends the page of one condition of the book; what became of it is in the book and durable.
fn deliver(layout: &Layout, terms: &Paging, book: &mut Book, key: &str, repeated: bool) -> Result<Outcome> {
    let Some(condition) = book.conditions.get_mut(key) else {
        return Ok(Outcome::Unsent { why: Vec::new(), waits: false });
    };
    let page = Page::of(key, condition, repeated, layout.home().display().to_string());
    // Whoever finds this after our death knows that the owner may have it.
    condition.begun = true;
    book.write(layout)?;
    point("owner.page.begun", layout)?;
    let (mut by, mut failed, mut doubtful) = (None, Vec::new(), false);
    for (name, transport) in chain(terms) {
        let tried = attempt(layout, &transport, &page);
        let error = tried.as_ref().err().map(|refused| refused.why.clone());
        doubtful |= tried.as_ref().is_err_and(|refused| refused.doubtful);
        failed.extend(error.as_ref().map(|why| format!("{name}: {why}")));
        let tried = Try { transport: name.clone(), at: clock::stamp(), error };
        let took = tried.error.is_none();
        if let Some(condition) = book.conditions.get_mut(key) {
            condition.tried(tried);
        }
        if took {
            by = by.or(Some(name));
            // A test shows of each whether it works: the first alone would hide a fallback that does not.
            if !page.test {
                break;
            }
        }
    }
    point("owner.page.taken", layout)?;
    if let Some(condition) = book.conditions.get_mut(key) {
        match by {
            Some(_) => condition.took(clock::stamp()),
            None => condition.in_vain(doubtful),
        }
    }
    if page.test {
        book.failed_test.clone_from(&failed);
    }
    book.write(layout)?;
    Ok(by.map_or(Outcome::Unsent { why: failed, waits: true }, |by| Outcome::Sent { by }))
}

fn point(name: &'static str, layout: &Layout) -> Result<()> {
    Ok(fault::point(name).map_err(|e| netsky_disk::Error::new("send from", layout.pages_folder(), e))?)
}

fn hold(layout: &Layout, limit: Duration) -> netsky_disk::Result<Option<Lock>> {
    Dir::make(layout.pages_folder())?;
    match limit.is_zero() {
        true => Lock::try_take(layout.pages_lock()),
        false => Lock::take_within(layout.pages_lock(), limit),
    }
}

/// Raises the weekly test where it is due.
fn test(layout: &Layout, terms: &Paging) -> Result<bool> {
    let book = Book::read(layout)?;
    if !terms.is_test_due(&book.tested, &clock::stamp()) {
        return Ok(false);
    }
    let transports: Vec<&str> = terms.transports.iter().map(Transport::word).collect();
    let text = format!("Test page: {} may reach you. Nothing is wrong.", transports.join(", "));
    Facts::new(layout).append(PAGE, TEST, json!({ "text": text, "by": "test" }))?;
    Ok(true)
}

/// Keeps a page that the record would not take, for whoever sends next. Kept twice an occurrence is one page, and with the
/// fact that is made of it later.
///
/// # Errors
/// So many wait there already, or the disk refuses.
pub fn keep(layout: &Layout, condition: &str, occurrence: &str, text: &str) -> Result<()> {
    let name = format!("{}.json", blake3::hash(occurrence.as_bytes()).to_hex());
    wait(layout, &name, (condition, Some(occurrence)), text)
}

fn random_name() -> String {
    format!("{}.json", random::uuid_v7())
}

/// Keeps a page that the record would not take and no transport took.
fn wait(layout: &Layout, name: &str, (key, occurrence): (&str, Option<&str>), text: &str) -> Result<()> {
    Dir::make(layout.pages_folder())?;
    let folder = Dir::make(layout.waiting_pages())?;
    if folder.names()?.len() > WAITING {
        let why = format!("{WAITING} wait there already");
        return Err(netsky_disk::Error::because("keep a page in", folder.path(), why).into());
    }
    let (key, occurrence) = (key.to_owned(), occurrence.map(str::to_owned));
    let waiting = Waiting { v: 1, key, occurrence, text: text.to_owned(), at: clock::wall() };
    Ok(state::write_json(layout.waiting_pages().join(name), &waiting)?)
}

/// What waits outside the record; what does not read is nobody's.
pub(crate) fn waiting(layout: &Layout) -> Vec<Waiting> {
    let names = Dir::open(layout.waiting_pages()).and_then(|folder| folder.names()).unwrap_or_default();
    let names = names.into_iter().filter(|name| name.ends_with(".json"));
    names.filter_map(|name| state::read_json(layout.waiting_pages().join(name)).ok().flatten()).collect()
}

/// Takes what waits into the book. The book first: a death in between raises it twice, and loses nothing.
fn take_waiting(layout: &Layout, book: &mut Book) -> Result<()> {
    let names = match Dir::open(layout.waiting_pages()) {
        Err(error) if error.is_not_found() => return Ok(()),
        opened => opened?.names()?,
    };
    let mut taken = Vec::new();
    for path in names.iter().filter(|name| name.ends_with(".json")).map(|n| layout.waiting_pages().join(n)) {
        match state::read_json::<Waiting>(&path) {
            Ok(Some(waiting)) => {
                book.raise((&waiting.key, waiting.occurrence.as_deref()), &waiting.text, waiting.at);
                taken.push(path);
            }
            Ok(None) => {}
            Err(error) => book.passed.push(error.to_string()),
        }
    }
    if !taken.is_empty() {
        book.write(layout)?;
    }
    for path in taken {
        state::remove(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
