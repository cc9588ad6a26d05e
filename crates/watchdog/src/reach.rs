//! Pages that are due, as part of the tick: it looks, and starts a process that sends them.
//!
//! A process of its own, because a transport may take its ten seconds and there may be many: the lock of the one actor is
//! held for none of them, and a tick that is killed at its deadline takes no half-sent page with it.

use std::collections::BTreeSet;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::spawn::Program;
use netsky_owner::{Digest, Outlook, Sent, is_quiet, is_sending, milestones, outlook, send_digest, send_due};
use netsky_runtime::Config;

use crate::context::Context;
use crate::error::Result;
use crate::standing;
use crate::tick::Ticked;

/// The condition that an agent hangs; behind it stands the agent.
pub(crate) const HANG: &str = "hang.";
/// The condition that it keeps dying; behind it stands the agent.
pub(crate) const CRASHLOOP: &str = "crashloop.";
/// The condition that agentinfinity does not come up.
pub(crate) const AGENTINIT: &str = "agentinit";

/// What the tick does about pages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Nothing is due.
    Nothing,
    /// Somebody sends already.
    Wait,
    /// Start who sends.
    Send,
}

/// Whether somebody has to be started; pages may be held for a while.
pub(crate) fn decide(seen: &Outlook, is_held: bool, feed: &Digest, is_sending: bool) -> Act {
    let is_page_due = seen.unsent.as_ref().is_some_and(|unsent| unsent.due > 0) || seen.test_due;
    match (is_page_due && !is_held) || feed.due || feed.behind {
        false => Act::Nothing,
        true if is_sending => Act::Wait,
        true => Act::Send,
    }
}

/// Looks, and has sent what is due.
pub(crate) fn reach(cx: &Context<'_>, ticked: &mut Ticked) -> Result<()> {
    let seen = look(cx.layout)?;
    let terms = Config::last_good(cx.layout).owner;
    // What the owner is told of later keeps no page back.
    let feed = milestones(cx.layout, &terms).unwrap_or_else(|error| {
        ticked.problems.push(format!("events: {error}"));
        Digest::default()
    });
    let is_held = holds_pages(&terms);
    if decide(&seen, is_held, &feed, is_sending(cx.layout)?) == Act::Send {
        let home = cx.layout.home().display().to_string();
        let program = Program {
            path: cx.netsky.clone(),
            args: vec!["watchdog".to_owned(), "pages".to_owned()],
            set: [(netsky_disk::env::HOME.to_owned(), home)].into(),
            ..Program::default()
        };
        program.detach()?;
        let count = seen.unsent.filter(|_| !is_held).map_or(0, |unsent| unsent.due);
        ticked.done.extend(match (count, feed.due) {
            (0, false) if seen.test_due => Some("started the test of the page transports".to_owned()),
            (0, false) => None,
            (0, true) => Some(format!("started to tell the owner of {}", counted(feed.waiting, "event"))),
            (count, _) => Some(format!("started to send {}", counted(count, "page"))),
        });
    }
    Ok(())
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Whether pages wait for the end of the quiet hours.
fn holds_pages(terms: &netsky_model::feed::Terms) -> bool {
    terms.hold_pages && is_quiet(terms)
}

/// How things stand with the owner.
pub(crate) fn look(layout: &Layout) -> Result<Outlook> {
    let last = markers(layout);
    Ok(outlook(layout, &Config::last_good(layout).page, &|key| is_lasting(&last, key))?)
}

/// What of the milestones the owner was not told of, where that is because no transport took it.
pub(crate) fn untold(layout: &Layout) -> Option<String> {
    let seen = match milestones(layout, &Config::last_good(layout).owner) {
        Ok(seen) => seen,
        Err(error) => return Some(format!("events: {error}")),
    };
    let events = counted(seen.waiting, "event");
    Some(format!("the owner was not told of {events}: {}; it is tried again", seen.why?))
}

/// Send what is due, pages first; none if another process does.
///
/// # Errors
/// The record, the book of pages or that of milestones cannot be used.
pub fn send_pages(layout: &Layout) -> Result<Option<Sent>> {
    let (last, config) = (markers(layout), Config::last_good(layout));
    let mut sent = None;
    if !holds_pages(&config.owner) {
        sent = send_due(layout, &config.page, &|key| is_lasting(&last, key))?;
        if sent.is_none() {
            return Ok(None);
        }
    }
    let digest = send_digest(layout, &config.owner, &config.page);
    let Some(pages) = &mut sent else { return Ok(digest?) };
    // What became of the pages is told whatever becomes of the digest.
    match digest {
        Ok(Some(digest)) => {
            pages.done.extend(digest.done);
            pages.problems.extend(digest.problems);
        }
        Ok(None) => {}
        Err(error) => pages.problems.push(format!("events: {error}")),
    }
    Ok(sent)
}

/// The markers of `state/`, and what stands without one.
fn markers(layout: &Layout) -> BTreeSet<String> {
    let names = Dir::open(layout.state()).and_then(|folder| folder.names()).unwrap_or_default();
    names.into_iter().chain(standing::paged(layout)).collect()
}

/// Whether a condition is there still, by its marker. What has none is an event: it is raised again where it happens again.
fn is_lasting(markers: &BTreeSet<String>, condition: &str) -> bool {
    let of = |kind: &str, what: &str| Some(format!("{}-{what}", condition.strip_prefix(kind)?));
    if markers.contains(condition) {
        return true;
    }
    let marker = match condition {
        AGENTINIT => Some("agentinit-escalation".to_owned()),
        _ => of(HANG, "hang-suspected").or_else(|| of(CRASHLOOP, "crashloop-suspected")),
    };
    marker.is_some_and(|marker| markers.contains(&marker))
}

#[cfg(test)]
mod tests {
    use super::*;
    use netsky_owner::Unsent;

    #[test]
    fn t27_what_is_due_is_sent_by_one_process_at_a_time() {
        let unsent = Unsent { count: 1, due: 1, oldest: netsky_disk::clock::wall(), why: None };
        let doubted = Unsent { due: 0, ..unsent.clone() };
        let nothing = Outlook { unsent: None, reaches: true, failed_test: Vec::new(), test_due: false };
        let due = Outlook { unsent: Some(unsent), ..nothing.clone() };
        let test = Outlook { test_due: true, ..nothing.clone() };
        let feed = Digest::default();
        let act = |seen: &Outlook, is_sending| decide(seen, false, &feed, is_sending);
        assert_eq!(act(&nothing, false), Act::Nothing);
        assert_eq!(act(&due, false), Act::Send);
        assert_eq!(act(&test, false), Act::Send);
        assert_eq!(act(&due, true), Act::Wait);
        for held in [&due, &test] {
            assert_eq!(decide(held, true, &feed, false), Act::Nothing, "in quiet hours");
        }
        for feed in [Digest { due: true, ..feed.clone() }, Digest { behind: true, ..feed.clone() }] {
            assert_eq!(decide(&due, true, &feed, false), Act::Send);
        }
        let doubted = Outlook { unsent: Some(doubted), ..nothing };
        assert_eq!(act(&doubted, false), Act::Nothing, "the owner may have it");
    }

    #[test]
    fn i10_only_what_is_still_suspected_lasts() {
        let markers = ["agent0-hang-suspected", "agent1-crashloop-suspected", "agentinit-escalation"]
            .map(str::to_owned)
            .into();
        for lasts in ["hang.agent0", "crashloop.agent1", "agentinit"] {
            assert!(is_lasting(&markers, lasts), "{lasts}");
        }
        for over in
            ["hang.agent1", "crashloop.agent0", "hang.", "crashloop", "poison/agent0/x", "escalate/agent0"]
        {
            assert!(!is_lasting(&markers, over), "{over}");
        }
    }
}
