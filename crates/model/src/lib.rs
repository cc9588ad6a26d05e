//! Pure data and transition functions: what every layer above agrees on.
//!
//! Promise: nothing in here does I/O, reads a clock, knows a path or is async. A value that exists
//! is valid: ids, file names and envelopes are parsed once, at the boundary.
//! Leaves to others: reading, writing, waiting (`disk`), and deciding when (the engines).
#![forbid(unsafe_code)]

pub mod backoff;
pub mod budget;
pub mod canonical;
pub mod chain;
pub mod desired;
pub mod dispatch;
pub mod duration;
pub mod envelope;
pub mod feed;
pub mod hlc;
pub mod id;
pub mod life;
pub mod lifecycle;
pub mod name;
pub mod paging;
pub mod process;
pub mod provenance;
pub mod quota;
pub mod render;
pub mod restart;
pub mod stamp;
pub mod task;
pub mod tending;
pub mod witness;

mod lookalike;
mod strict_json;

#[cfg(test)]
mod samples;
