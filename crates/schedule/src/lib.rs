//! Delayed and repeated work: loops and cron entries as files, what is due, and when the next time is.
//!
//! Promise: what is due is decided from a file and an instant alone, by pure functions; an instant that was fired is never
//! due again, whatever the clocks do. An entry that does not read keeps no other from being due.
//! Left to others: sending what is due (`watchdog`, through `bus`), printing (`cli`).
#![forbid(unsafe_code)]

pub mod interval;
pub mod loops;
