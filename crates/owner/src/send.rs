//! Sending: what is due by one process at a time, what is urgent at once.

use std::time::Duration;

use jiff::Timestamp;
use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::{clock, fault, random, state};
use netsky_ledger::{Facts, PAGE};
use netsky_model::paging::{Condition, Paging, TEST, Transport, Verdict, harmless};
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::book::Book;
use crate::page::Page;
use crate::push::{Pushed, Step, push};
use crate::sending::Sending;

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

/// A page that the record would not take, or that went out beside the book.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Waiting {
    v: u64,
    key: String,
    /// Which occurrence of it, of one that has names for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    occurrence: Option<String>,
    text: String,
    pub(crate) at: Timestamp,
    /// Whether the record has it too.
    #[serde(default)]
    is_fact: bool,
    /// How far it got beside the book.
    #[serde(default)]
    beside: Beside,
}

/// How far a page got beside the book.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Beside {
    /// Nowhere.
    #[default]
    No,
    /// A transport may have it.
    Begun,
    /// One took it.
    Sent(Stamp),
}

impl Waiting {
    fn new(key: &str, text: &str) -> Waiting {
        Waiting {
            v: 1,
            key: key.to_owned(),
            occurrence: None,
            text: text.to_owned(),
            at: clock::wall(),
            is_fact: false,
            beside: Beside::No,
        }
    }

    /// Whether it is a page that nobody has sent.
    pub(crate) fn is_unsent(&self) -> bool {
        self.beside == Beside::No
    }
}

/// Sends what is due; none if another process does.
///
/// # Errors
/// The book or the lock cannot be read. A book that cannot be written holds no page back: its pages may be sent again.
pub fn send_due(layout: &Layout, terms: &Paging, lasts: &dyn Fn(&str) -> bool) -> Result<Option<Sent>> {
    let Some(mut sending) = Sending::take(layout, Duration::ZERO)? else { return Ok(None) };
    let mut sent = Sent::default();
    let tested = test(layout, terms);
    let mut book = Book::read(layout, terms)?;
    sent.problems.append(&mut book.passed);
    if let Err(error) = take_waiting(layout, terms, &mut book) {
        sent.problems.push(format!("what waits for the book stays: {error}"));
    }
    sending.recall(&mut book);
    match tested {
        Ok(true) => book.tested = clock::stamp(),
        Ok(false) => {}
        Err(error) => sent.problems.push(format!("the test page: {error}")),
    }
    let (mut vain, mut wait) = (0, 0);
    let due = book.due(terms, &clock::stamp(), lasts);
    for (key, repeated) in due.iter().take(MOST) {
        // What is remembered nowhere would be sent at every tick.
        if !sending.has_room(key, terms.cool_down) && book.write(layout).map(|()| sending.forget()).is_err() {
            wait += 1;
            continue;
        }
        match deliver((layout, terms), &mut sending, &mut book, key, *repeated)?.0 {
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
    if wait > 0 {
        sent.problems.push(format!("{wait} more wait for a book that can be written, or a cool-down"));
    }
    book.forget(terms, &clock::stamp(), lasts);
    match book.write(layout) {
        Ok(()) => sending.forget(),
        Err(error) => sent.problems.push(unwritten(&error)),
    }
    Ok(Some(sent))
}

/// What it comes to that the book could not be written.
pub(crate) fn unwritten(why: &dyn std::fmt::Display) -> String {
    format!("what became of it is not written down, so it may be sent again: {why}")
}

/// Tells the owner now. Never an error: what does not work is said, and the rest goes on.
pub fn escalate(layout: &Layout, terms: &Paging, key: &str, text: &str) -> Escalated {
    let text = harmless(text);
    let mut missing = Vec::new();
    if terms.stand_in {
        missing.push("the transports of config.toml get it once that reads".to_owned());
    }
    let recorded = Facts::new(layout).append(PAGE, key, json!({ "text": text, "by": "escalate" }));
    let is_recorded = recorded.is_ok();
    missing.extend(recorded.err().map(|error| format!("the page is no fact: {error}")));
    missing.extend(fault::point("owner.page.recorded").err().map(|error| error.to_string()));
    let noted = match Sending::take(layout, PATIENCE) {
        Ok(Some(mut sending)) => noted((layout, terms), &mut sending, key, &text, is_recorded),
        Ok(None) => Err("pages are being sent by another process".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let outcome = match noted {
        Ok((outcome, untold)) => {
            missing.extend(untold);
            outcome
        }
        Err(why) => {
            missing.push(unwritten(&why));
            directly(layout, terms, key, &text, is_recorded)
        }
    };
    Escalated { key: key.to_owned(), outcome, missing }
}

/// By the book, which the caller has the lock of; with what could not be written down.
fn noted(
    (layout, terms): (&Layout, &Paging),
    sending: &mut Sending,
    key: &str,
    text: &str,
    is_recorded: bool,
) -> std::result::Result<(Outcome, Option<String>), String> {
    let told = |error: crate::Error| error.to_string();
    let mut book = Book::read(layout, terms).map_err(told)?;
    sending.recall(&mut book);
    // A fact that the record could not give back is sent all the same.
    if !is_recorded || !book.conditions.contains_key(key) {
        book.raise((key, None), text, clock::wall());
    }
    let condition = &book.conditions[key];
    let repeated = match (condition.verdict(terms, &clock::stamp(), true), &condition.sent) {
        (Verdict::Held, Some(since)) => {
            let since = since.clone();
            let untold = book.write(layout).err().map(|error| unwritten(&error));
            return Ok((Outcome::Held { since }, untold));
        }
        (Verdict::Send { repeated }, _) => repeated,
        _ => true,
    };
    let (outcome, untold) = deliver((layout, terms), sending, &mut book, key, repeated).map_err(told)?;
    let outcome = match outcome {
        // Neither the record nor the book has it.
        Outcome::Unsent { why, .. } if untold.is_some() && !is_recorded => {
            let waits = wait(layout, &random_name(), &Waiting::new(key, text)).is_ok();
            Outcome::Unsent { why, waits }
        }
        outcome => outcome,
    };
    Ok((outcome, untold))
}

/// Without a book, which is told later: of what was sent beside it whoever has it must not think that nobody got it.
fn directly(layout: &Layout, terms: &Paging, key: &str, text: &str, is_recorded: bool) -> Outcome {
    let condition = Condition::raised(text, clock::wall());
    let page = Page::of(layout, key, &condition, false);
    let name = random_name();
    let mut waiting = Waiting { is_fact: is_recorded, beside: Beside::Begun, ..Waiting::new(key, text) };
    let mut is_told = wait(layout, &name, &waiting).is_ok();
    let Pushed { by, failed: why, doubtful } = push(layout, &terms.transports, &page, false, drop);
    waiting.beside = match (&by, doubtful) {
        // By what stood in for the transports: they get it once a book can be had.
        (Some(_), _) if terms.stand_in => Beside::Begun,
        (Some(_), _) => Beside::Sent(clock::stamp()),
        (None, true) => Beside::Begun,
        (None, false) => Beside::No,
    };
    is_told = match (&waiting.beside, is_recorded) {
        // The fact alone says that.
        (Beside::No, true) => state::remove(layout.waiting_pages().join(&name)).is_ok(),
        _ => wait(layout, &name, &waiting).is_ok() || is_told,
    };
    match by {
        Some(by) => Outcome::Sent { by },
        None => Outcome::Unsent { why, waits: is_recorded || is_told },
    }
}

/// Sends the page of one condition of the book; what became of it is in the book and durable, or it says why not. A book that
/// cannot be written keeps no page back: then the note of the lock has what became of it.
fn deliver(
    (layout, terms): (&Layout, &Paging),
    sending: &mut Sending,
    book: &mut Book,
    key: &str,
    repeated: bool,
) -> Result<(Outcome, Option<String>)> {
    let Some(condition) = book.conditions.get_mut(key) else {
        return Ok((Outcome::Unsent { why: Vec::new(), waits: false }, None));
    };
    let page = Page::of(layout, key, condition, repeated);
    // Whoever finds this after our death knows that the owner may have it.
    condition.begin(clock::stamp());
    let doubt = condition.doubt.clone();
    if book.write(layout).is_err() {
        sending.remember(key, None, doubt);
    }
    point("owner.page.begun", layout)?;
    let pushed = push(layout, &terms.transports, &page, repeated, |step| match step {
        Step::Begins => sending.got_on(),
        Step::Ended(tried) => drop(book.conditions.get_mut(key).map(|condition| condition.tried(tried))),
    });
    let Pushed { by, failed, doubtful } = pushed;
    point("owner.page.taken", layout)?;
    let (now, mut doubt) = (clock::stamp(), None);
    if let Some(condition) = book.conditions.get_mut(key) {
        match by {
            Some(_) => condition.took(now.clone(), terms.stand_in),
            None => condition.in_vain(doubtful, now.clone()),
        }
        doubt.clone_from(&condition.doubt);
    }
    if page.test {
        book.failed_test.clone_from(&failed);
    }
    let untold = book.write(layout).err();
    match untold {
        // He surely has it not: nothing is to be known of it.
        Some(_) if by.is_none() && doubt.is_none() => sending.settle(key),
        Some(_) => sending.remember(key, by.is_some().then_some(now), doubt),
        None => sending.forget(),
    }
    let untold = untold.map(|error| unwritten(&error));
    Ok((by.map_or(Outcome::Unsent { why: failed, waits: true }, |by| Outcome::Sent { by }), untold))
}

fn point(name: &'static str, layout: &Layout) -> Result<()> {
    Ok(fault::point(name).map_err(|e| netsky_disk::Error::new("send from", layout.pages_folder(), e))?)
}

/// Raises the weekly test where it is due.
fn test(layout: &Layout, terms: &Paging) -> Result<bool> {
    let book = Book::read(layout, terms)?;
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
    let waiting = Waiting { occurrence: Some(occurrence.to_owned()), ..Waiting::new(condition, text) };
    wait(layout, &name, &waiting)
}

fn random_name() -> String {
    format!("{}.json", random::uuid_v7())
}

/// Keeps a page for whoever sends next.
fn wait(layout: &Layout, name: &str, waiting: &Waiting) -> Result<()> {
    Dir::make(layout.pages_folder())?;
    let folder = Dir::make(layout.waiting_pages())?;
    if folder.names()?.len() > WAITING {
        let why = format!("{WAITING} wait there already");
        return Err(netsky_disk::Error::because("keep a page in", folder.path(), why).into());
    }
    Ok(state::write_json(layout.waiting_pages().join(name), waiting)?)
}

/// What waits outside the record; what does not read is nobody's.
pub(crate) fn waiting(layout: &Layout) -> Vec<Waiting> {
    let names = Dir::open(layout.waiting_pages()).and_then(|folder| folder.names()).unwrap_or_default();
    let names = names.into_iter().filter(|name| name.ends_with(".json"));
    names.filter_map(|name| state::read_json(layout.waiting_pages().join(name)).ok().flatten()).collect()
}

/// Takes what waits into the book. The book first: a death in between raises it twice, and loses nothing.
fn take_waiting(layout: &Layout, terms: &Paging, book: &mut Book) -> Result<()> {
    let names = match Dir::open(layout.waiting_pages()) {
        Err(error) if error.is_not_found() => return Ok(()),
        opened => opened?.names()?,
    };
    let mut taken = Vec::new();
    for path in names.iter().filter(|name| name.ends_with(".json")).map(|n| layout.waiting_pages().join(n)) {
        match state::read_json::<Waiting>(&path) {
            Ok(Some(waiting)) => {
                let is_new = !waiting.is_fact || !book.conditions.contains_key(&waiting.key);
                if is_new && terms.tells(&waiting.key) {
                    let raised = (waiting.key.as_str(), waiting.occurrence.as_deref());
                    book.raise(raised, &waiting.text, waiting.at);
                }
                if let Some(condition) = book.conditions.get_mut(&waiting.key) {
                    match &waiting.beside {
                        Beside::No => {}
                        Beside::Begun => condition.begun = true,
                        Beside::Sent(at) => condition.took_beside(at, &clock::stamp()),
                    }
                }
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
