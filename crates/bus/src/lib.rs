//! Messages between agents: one file each, the folder is the state.
//!
//! Promise: what [`Bus::send`] accepted is on disk and survives a kill and a power cut; each envelope is in exactly one
//! folder of its life; a claim ends only when its owner is proved dead; a repeat carries the same id and a higher
//! attempt. Every move goes through [`netsky_model::life::transition`], recovery included.
//!
//! Leaves to others: what a session is and which generation lives (`runtime`, `watchdog`), how a text is shown (the
//! faces), the record (a [`netsky_model::witness::Witness`] is told of each move). The bus holds no lease and no timer.
#![forbid(unsafe_code)]

mod error;

mod ack;
mod back;
mod batch;
mod bus;
mod channel;
mod claim;
mod consume;
mod forward;
mod ids;
mod kept;
mod list;
mod outbox;
mod overdue;
mod poison;
mod queue;
mod quota;
mod release;
mod retention;
mod retry;
mod send;
mod sender;
mod wait;

pub use ack::Acked;
pub use back::Returned;
pub use batch::MAX_GROUP;
pub use bus::{Bus, Missed};
pub use claim::{Batch, Claim, Drained, PassedBy, Put};
pub use consume::{News, Terms};
pub use error::{Error, Result};
pub use forward::Forwarded;
pub use list::{Entry, Listing};
pub use outbox::Carried;
pub use overdue::Unacked;
pub use poison::Quarantined;
pub use queue::{Aside, Few, Stuck};
pub use release::{Owner, Released};
pub use retention::Removed;
pub use retry::Retried;
pub use send::{Draft, Sent};
pub use sender::check as check_sender;
