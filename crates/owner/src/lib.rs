//! Reach the owner: the transports of pages, and which page got how far.
//!
//! Promise: a page is a fact first and then sent. It is unsent, and said to be so, until a transport took it; a death between the
//! two repeats it, flagged, and loses nothing. Nothing here asks for the bus, the database, an anchor or an agent, and a
//! record that takes no fact keeps no page from its transports.
//! Leaves to others: what is worth a page, and when somebody looks (`watchdog`).
//!
//! Reading order: [`Page`] → `transport` (with `http`, `secret`) → `book` → `sending` → `send`.
#![forbid(unsafe_code)]

mod book;
mod http;
mod page;
mod secret;
mod send;
mod sending;
mod transport;

pub use book::{Outlook, Unsent, outlook};
pub use page::Page;
pub use send::{Escalated, Outcome, Sent, escalate, keep, send_due};
pub use sending::{is_sending, prepare};

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
