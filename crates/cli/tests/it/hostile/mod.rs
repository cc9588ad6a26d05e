//! The hostile corpus of faults.md 4.2 against the real program: many attempts of each attack, no success.
//!
//! Inputs come from `netsky_sim::corpus`; a failure prints the seed that repeats it.

mod bombs;
mod copies;
mod files;
mod ids;
mod many;
mod render;
mod senders;
mod things;
