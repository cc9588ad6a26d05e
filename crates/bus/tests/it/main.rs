//! The bus against a real home: one module an operation; the ids in the names are those of the fault matrix.

mod ack;
mod back;
mod claim;
mod clocks;
mod consume;
mod contended;
mod forward;
mod home;
mod ids;
mod list;
mod others;
mod outbox;
mod quarantine;
mod quota;
mod release;
mod retention;
mod retry;
mod send;
mod skipped;
mod wait;
mod walk;
