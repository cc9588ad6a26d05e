//! The checker: reads a home and `/proc`, and says which invariants hold.
//!
//! Promise: it changes nothing, starts nothing and needs nobody alive. What it finds while files move is looked at again:
//! only what every look shows is reported. It shares no code with what it audits beyond names and formats.
//!
//! Reading order: [`read`] gathers what there is in one look ([`Seen`](read::Seen)); each invariant is a pure function over
//! that, one file each. Leaves to others: printing (`verb/check.rs`), repair (the tick and the bus).

mod facts;
mod read;
mod verdict;

mod conservation;
mod contents;
mod epochs;
mod processes;
mod restart;
mod surfacings;

use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::layout::Layout;

pub(crate) use facts::{BadFact, Facts};
pub(crate) use verdict::{Finding, Verdict};

/// Looks that must all show a finding. A file that moves is seen in its new place by the next.
const LOOKS: usize = 3;
/// Time between two looks: longer than any move, short enough for a person who waits.
const PAUSE: Duration = Duration::from_millis(300);

/// Checks the home at `layout`, one verdict an invariant.
///
/// # Errors
/// What makes looking impossible: descriptors ran out, or the disk fails.
pub(crate) fn check(layout: &Layout, facts: &Facts) -> netsky_disk::Result<Vec<Verdict>> {
    let mut verdicts = look(layout, facts)?;
    for _ in 1..LOOKS {
        if verdicts.iter().all(Verdict::holds) {
            break;
        }
        clock::pause(PAUSE);
        let again = look(layout, facts)?;
        verdicts = verdicts.into_iter().zip(again).map(|(before, now)| now.confirming(&before)).collect();
    }
    Ok(verdicts)
}

fn look(layout: &Layout, facts: &Facts) -> netsky_disk::Result<Vec<Verdict>> {
    let seen = read::look(layout)?;
    Ok(vec![
        conservation::check(&seen, facts),
        surfacings::check(&seen, facts),
        contents::check(&seen),
        epochs::check(&seen),
        restart::check(&seen),
        processes::check(&seen),
    ])
}
