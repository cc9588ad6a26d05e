//! Delayed and repeated work: loops and cron entries as files, what is due, and when the next time is.
//!
//! Promise: what is due is decided from a file and an instant alone, by pure functions; an instant that was fired is never
//! due again, whatever the clocks do. An entry that does not read keeps no other from being due.
//! Left to others: sending what is due (`watchdog`, through `bus`), printing (`cli`).
#![forbid(unsafe_code)]

pub mod cron;
pub mod interval;
pub mod loops;

use std::time::Duration;

use netsky_disk::layout::Layout;
use netsky_model::envelope::Envelope;

/// How many instants passed while an envelope of a schedule was not read; none of any other.
pub fn missed(layout: &Layout, envelope: &Envelope) -> Option<u64> {
    let (thread, id) = (envelope.thread.as_deref()?, envelope.id.as_ref()?);
    match envelope.kind.as_deref()? {
        "loop-tick" => loops::missed(layout, thread, id),
        "cron-tick" => cron::missed(layout, thread, id),
        _ => None,
    }
}

/// When the first of a schedule comes that had not come at a given instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coming {
    /// So long after that instant.
    In(Duration),
    /// None does.
    Never,
    /// Only a tick can say it.
    Unknown,
}

impl Coming {
    fn first(all: impl Iterator<Item = Duration>) -> Coming {
        all.filter(|left| !left.is_zero()).min().map_or(Coming::Never, Coming::In)
    }
}
