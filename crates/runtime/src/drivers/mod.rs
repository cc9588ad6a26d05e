//! netsky-drivers: the one restartable process of a home that runs all drivers.
//!
//! Promise: it may die at any point, and be replaced by another build of itself, while agents work: their workers hold what
//! they print, and whoever comes next reads on where the last one had done all that followed from it. An envelope is in
//! exactly one folder meanwhile; what was put before a program twice has the same key.
//!
//! Leaves to others: starting and ending agents (`watchdog`), what a line means ([`crate::driver`]).

mod book;
mod context;
mod health;
mod learn;
pub(crate) mod lines;
mod mail;
mod meet;
mod owner;
mod reporter;
mod serve;
mod slot;
mod undriven;

pub use book::{Book, Waits};
pub use mail::URGENT;
pub use serve::{Ended, serve};
pub use undriven::Undriven;
