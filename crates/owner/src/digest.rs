//! Telling the milestones: one push of all that wait, in their order.
//!
//! Promise: that it begins is on disk before it is sent, and that it was taken after. A death between the two sends the same events
//! again, flagged, and no other before them. A book that cannot be written sends nothing: a milestone can wait.

use std::time::Duration;

use netsky_disk::layout::Layout;
use netsky_disk::{clock, fault};
use netsky_model::feed::{Event, Terms, Verdict, digest};
use netsky_model::paging::Paging;

use crate::Result;
use crate::feed::{Book, is_quiet};
use crate::page::Page;
use crate::push::{Step, push};
use crate::send::Sent;
use crate::sending::Sending;

/// Tells what is due; none if another process sends.
///
/// # Errors
/// The book or the lock cannot be read, or that it begins cannot be written down.
pub fn send_digest(layout: &Layout, terms: &Terms, paging: &Paging) -> Result<Option<Sent>> {
    let Some(mut sending) = Sending::take(layout, Duration::ZERO)? else { return Ok(None) };
    let mut book = Book::read(layout, terms)?;
    let mut sent = Sent { problems: std::mem::take(&mut book.passed), ..Sent::default() };
    // What stands in for settings that do not read is not what was asked for, and milestones can wait until they do.
    let due = match book.feed.verdict(terms, is_quiet(terms), &clock::stamp()) {
        Verdict::Send { upto, repeated } if !paging.stand_in => Some((upto, repeated)),
        _ => None,
    };
    let Some((upto, repeated)) = due else {
        book.write(layout)?;
        return Ok(Some(sent));
    };
    let events = book.feed.upto(upto);
    let (count, page) = (events.len(), page(layout, events, repeated));
    book.feed.begin(upto, clock::stamp());
    book.write(layout)?;
    point("owner.digest.begun", layout)?;
    let pushed = push(layout, &terms.transports, &page, repeated, |step| match step {
        Step::Begins => sending.got_on(),
        Step::Ended(tried) => book.feed.tried(tried),
    });
    point("owner.digest.taken", layout)?;
    match pushed.by {
        Some(by) => {
            book.feed.took(clock::stamp());
            let events = if count == 1 { "event" } else { "events" };
            sent.done.push(format!("told the owner of {count} {events} by {by}"));
        }
        None => {
            book.feed.in_vain(pushed.doubtful, clock::stamp());
            sent.problems.push(format!("no transport took {count} events: {}", pushed.failed.join("; ")));
        }
    }
    if let Err(error) = book.write(layout) {
        sent.problems.push(crate::send::unwritten(&error));
    }
    Ok(Some(sent))
}

/// The message of these events. Sent again it has the same name.
fn page(layout: &Layout, events: Vec<Event>, repeated: bool) -> Page {
    let seqs = (events.first().map_or(0, |event| event.seq), events.last().map_or(0, |event| event.seq));
    Page {
        key: format!("digest/{}-{}", seqs.0, seqs.1),
        text: digest(&events),
        raised: events.last().map_or_else(clock::wall, |event| event.ts),
        repeated,
        events,
        ..Page::blank(layout)
    }
    .named(None)
}

fn point(name: &'static str, layout: &Layout) -> Result<()> {
    Ok(fault::point(name).map_err(|e| netsky_disk::Error::new("send from", layout.feed_book(), e))?)
}

#[cfg(test)]
mod tests;
