//! Who came to stay: a row for each client that begins to follow the journal, or comes to a terminal.
//!
//! Promise: arrivals are rows of the journal and stand nowhere else. A flood of clients costs [`A_SECOND`] rows a second and
//! one that counts the rest.

use std::time::Duration;

use netsky_disk::clock;
use netsky_model::id::AgentId;
use netsky_model::process::ProcessId;

use super::state::Anchor;
use crate::rpc::{EventKind, event_data};

/// Rows of arrivals within a second.
const A_SECOND: u32 = 10;

/// Arrivals of the second that runs.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// By the boot clock.
    began: Duration,
    told: u32,
    more: u64,
}

impl Arrivals {
    pub(super) fn new() -> Arrivals {
        Arrivals { began: clock::boot(), told: 0, more: 0 }
    }

    /// Whether this one gets a row, and how many before it got none.
    fn one(&mut self, now: Duration) -> (bool, u64) {
        let mut before = 0;
        if self.is_over(now) {
            before = self.more;
            *self = Arrivals { began: now, told: 0, more: 0 };
        }
        let told = self.told < A_SECOND;
        self.told += u32::from(told);
        self.more += u64::from(!told);
        (told, before)
    }

    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.began) >= Duration::from_secs(1)
    }

    /// How many got none, once their second is over, or where it is the last.
    fn rest(&mut self, now: Duration, is_last: bool) -> u64 {
        if is_last || self.is_over(now) { std::mem::take(&mut self.more) } else { 0 }
    }
}

impl Anchor {
    /// Counts those who got no row, also where nobody comes after them.
    pub(super) fn tell_arrived(&self, is_last: bool) {
        let more = self.arrivals.borrow_mut().rest(clock::boot(), is_last);
        self.more_arrived(more);
    }

    fn more_arrived(&self, more: u64) {
        if more > 0 {
            let data = event_data::Arrived { pid: None, terminal: None, more: Some(more) };
            self.observe(EventKind::Arrived, None, data);
        }
    }

    /// Writes down that a client came to stay, and at whose terminal if it is at one.
    pub(super) fn arrived(&self, client: Option<&ProcessId>, terminal: Option<&AgentId>) {
        let (told, before) = self.arrivals.borrow_mut().one(clock::boot());
        self.more_arrived(before);
        if told {
            let (pid, terminal) = (client.map(|client| client.pid), terminal.cloned());
            self.observe(EventKind::Arrived, None, event_data::Arrived { pid, terminal, more: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a12_a_flood_of_clients_costs_a_bounded_number_of_rows_and_nobody_goes_uncounted() {
        let mut arrivals = Arrivals::new();
        let began = arrivals.began;
        let mut rows = 0;
        let mut counted = 0;
        for n in 0..10_000u32 {
            // A minute of them.
            let (told, before) = arrivals.one(began + Duration::from_millis(u64::from(n) * 6));
            rows += u32::from(told) + u32::from(before > 0);
            counted += u64::from(told) + before;
        }
        assert!(rows <= 61 * (A_SECOND + 1), "{rows}");
        let last = arrivals.began;
        assert_eq!((arrivals.rest(last, false), counted + arrivals.rest(last, true)), (0, 10_000));
        assert_eq!(arrivals.rest(last, true), 0, "once");
    }
}
