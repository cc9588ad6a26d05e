//! The one door to the outside: durable files, claims, locks, clocks, process identity, and the
//! layout of a home.
//!
//! Promise: what returns `Ok` from a durable call survives `kill -9` of any process and the loss of
//! power. Nothing else in the workspace opens a state file for writing, reads a clock, takes a lock,
//! looks at another process, or says `unsafe` (but the program start of `kernel`).
//! Leaves to others: every decision.
#![expect(
    unsafe_code,
    reason = "mapping the clock's word, leaving the session and asking for a peer; each has its paragraph"
)]

pub mod adopt;
pub mod alone;
pub mod bell;
pub mod bound;
pub mod cgroup;
pub mod clock;
pub mod copy;
pub mod env;
pub mod fault;
pub mod feed;
pub mod fs;
pub mod group;
pub mod hlc;
pub mod home;
pub mod identity;
pub mod input;
pub mod key;
pub mod layout;
pub mod lines;
pub mod lock;
pub mod names;
pub mod peer;
pub mod process;
pub mod random;
pub mod rows;
pub mod spawn;
pub mod state;
pub mod sweep;
pub mod throwaway;
pub mod wake;
pub mod watch;
pub mod words;

#[cfg(feature = "sim")]
pub mod sim;

mod error;
mod namespace;
mod room;
mod seam;
mod sys;

pub use error::{Error, ReadError, Result};
pub use room::room;
