//! Runtimes: how a kind of program becomes an agent of a constellation.
//!
//! Promise: what a slot runs is decided from the configuration once, kept in the desired state, and
//! turned into a kernel session the same way at every start. Nothing here starts, stops or judges.
//! Leaves to others: sessions (`kernel`), when to start (`watchdog`). Drivers with receipts come later;
//! this slice has the runtime `command`: any program that uses the bus verbs itself.
#![forbid(unsafe_code)]

mod command;
mod config;
mod outbox;

pub use command::{Launch, TAG_NONCE, TAG_SINCE, inherited};
pub use config::{Config, ConfigError, Record, Slot, Trouble};
pub use outbox::carry_all;
