//! Reach the owner: the transports of pages, and which page got how far.
//!
//! Promise: a page is a fact first and then sent. It is unsent, and said to be so, until a transport took it; a death between the
//! two repeats it, flagged, and loses nothing. Nothing here asks for the bus, the database, an anchor or an agent, and a
//! record that takes no fact keeps no page from its transports.
//! Leaves to others: what is worth a page, and when somebody looks (`watchdog`).
//!
//! Milestones go the same way, with others and later: `feed` has which the owner was told of, `digest` tells them.
//!
//! Reading order: [`Page`] → `transport` (with `http`, `secret`) → `push` → `book` → `sending` → `send`; `feed` → `digest`.
#![forbid(unsafe_code)]

mod book;
mod digest;
mod feed;
mod http;
mod page;
mod push;
mod secret;
mod send;
mod sending;
mod test;
mod transport;

pub use book::{Outlook, Unsent, outlook};
pub use digest::send_digest;
pub use feed::{Digest, Reader, is_quiet, milestones, zone};
pub use page::Page;
pub use send::{Escalated, Outcome, Sent, escalate, keep, send_due};
pub use sending::{is_sending, prepare};
pub use test::{Tested, test};

/// Why pages were not looked at or not sent at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or a lock.
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
    /// The record.
    #[error(transparent)]
    Record(#[from] netsky_ledger::Error),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
