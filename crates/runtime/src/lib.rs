//! Runtimes: how a kind of program becomes an agent of a constellation.
//!
//! Promise: what a slot runs is decided from the configuration once, kept in the desired state, and
//! turned into a kernel session the same way at every start; and a message that a driven program was given has a receipt. Nothing
//! here starts or ends an agent, or judges one.
//! Leaves to others: sessions (`kernel`), when to start (`watchdog`).
#![forbid(unsafe_code)]

mod answer;
mod config;
pub mod driver;
pub mod drivers;
mod launch;
mod outbox;
pub mod prompts;
pub mod transcript;
mod up_proof;

pub use answer::{interrupt, leave as leave_answer, retry};
pub use config::{Bounds, Config, ConfigError, Gate, Hang, Precision, Record, Repository, Slot, Trouble};
pub use launch::{Launch, TAG_NONCE, TAG_SINCE, conversation, converses, inherited, wished_argv, writes_to};
pub use outbox::carry_all;
pub use up_proof::UpProof;
