//! Who was turned away or cut off: a line in `anchor.log`, for whoever wonders why a client got nothing.
//!
//! Promise: the first of each kind is told at once, with who it was and why; those of the next [`EVERY`] are counted, and the
//! count is told then, whether another one comes or not. So a flood costs one line a kind and [`EVERY`], and nobody goes
//! uncounted. What a client sent is not in it: it may be a secret.

use std::fmt;
use std::time::Duration;

use netsky_disk::clock;
use tokio::net::unix::UCred;

use super::state::Anchor;
use crate::log::say;

/// How long those of one kind are counted after one was told.
const EVERY: Duration = Duration::from_secs(10);

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// Of another user, or of nobody who can be named.
    Foreign,
    /// As many as may be are connected.
    Full,
    /// It sent a line that is no request; it stays connected.
    Malformed,
    /// It sent a line over the limit.
    TooLong,
    /// It left an answer, or rows that it follows, unread for too long.
    Unread,
    /// It went in the middle of a line.
    Half,
}

impl Reason {
    const ALL: [Reason; 6] =
        [Reason::Foreign, Reason::Full, Reason::Malformed, Reason::TooLong, Reason::Unread, Reason::Half];

    fn words(self) -> &'static str {
        match self {
            Reason::Foreign => "foreign client refused",
            Reason::Full => "client refused, all slots are taken",
            Reason::Malformed => "line refused",
            Reason::TooLong => "client cut off, its line is too long",
            Reason::Unread => "client cut off, it does not read",
            Reason::Half => "client gone in the middle of a line",
        }
    }
}

/// Who is at the other end of a connection, as far as the system says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) Option<UCred>);

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(cred) = &self.0 else { return f.write_str("of nobody known") };
        match cred.pid().filter(|pid| *pid > 0) {
            Some(pid) => write!(f, "pid {pid}, uid {}", cred.uid()),
            None => write!(f, "pid not seen from here, uid {}", cred.uid()),
        }
    }
}

/// One kind, since it was told last.
#[derive(Debug, Clone, Copy, Default)]
struct Since {
    told: Option<Duration>,
    more: u64,
}

/// What was told, and what was only counted.
#[derive(Debug, Default)]
pub(super) struct Rejected([Since; Reason::ALL.len()]);

impl Rejected {
    /// Whether this one gets a line at `now` on the boot clock, and how many before it got none.
    fn one(&mut self, reason: Reason, now: Duration) -> Option<u64> {
        let since = &mut self.0[reason as usize];
        if since.told.is_some_and(|told| now.saturating_sub(told) < EVERY) {
            since.more += 1;
            return None;
        }
        since.told = Some(now);
        Some(std::mem::take(&mut since.more))
    }

    #[cfg(test)]
    pub(super) fn has_told(&self, reason: Reason) -> bool {
        self.0[reason as usize].told.is_some()
    }

    /// Those that were counted and whose time is over; with `all` also the others.
    fn rest(&mut self, now: Duration, all: bool) -> Vec<(Reason, u64)> {
        let mut rest = Vec::new();
        for reason in Reason::ALL {
            let since = &mut self.0[reason as usize];
            let over = all || since.told.is_none_or(|told| now.saturating_sub(told) >= EVERY);
            if over && since.more > 0 {
                // A line was written: the next ones are counted again.
                since.told = Some(now);
                rest.push((reason, std::mem::take(&mut since.more)));
            }
        }
        rest
    }
}

impl Anchor {
    /// Says that a client was turned away or cut off.
    pub(super) fn reject(&self, reason: Reason, peer: Peer, why: &dyn fmt::Display) {
        let told = self.rejected.borrow_mut().one(reason, clock::boot());
        match told {
            None => {}
            Some(0) => say!("{} ({peer}): {why}", reason.words()),
            Some(more) => say!("{} ({peer}): {why}; and {more} more before it", reason.words()),
        }
    }

    /// Says how many more there were; with `all` also of those that are still counted.
    pub(super) fn tell_rejected(&self, all: bool) {
        let rest = self.rejected.borrow_mut().rest(clock::boot(), all);
        for (reason, more) in rest {
            say!("{}: {more} more", reason.words());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a12_a_flood_costs_a_line_a_kind_and_ten_seconds_and_nobody_goes_uncounted() {
        let mut rejected = Rejected::default();
        let (mut lines, mut counted) = (0, 0);
        let mut told = |more: u64| {
            lines += 1;
            counted += more;
        };
        // Two kinds for a minute, by turns; the anchor looks once a second.
        for n in 0..60_000u64 {
            let now = Duration::from_secs(7) + Duration::from_millis(n);
            let reason = if n % 2 == 0 { Reason::Malformed } else { Reason::Full };
            if let Some(before) = rejected.one(reason, now) {
                told(before + 1);
            }
            if n % 1_000 == 999 {
                rejected.rest(now, false).into_iter().for_each(|(_, more)| told(more));
            }
        }
        rejected.rest(Duration::from_secs(70), true).into_iter().for_each(|(_, more)| told(more));
        assert_eq!(counted, 60_000);
        assert!(lines <= 2 * 8, "{lines}");
    }

    #[test]
    fn the_count_is_told_although_nobody_comes_any_more() {
        let mut rejected = Rejected::default();
        let began = Duration::from_secs(100);
        assert_eq!(rejected.one(Reason::TooLong, began), Some(0));
        assert_eq!(rejected.one(Reason::TooLong, began + EVERY / 2), None);
        assert_eq!(rejected.one(Reason::Unread, began + EVERY / 2), Some(0), "kinds are told apart");
        assert_eq!(rejected.rest(began + EVERY / 2, false), []);
        assert_eq!(rejected.rest(began + EVERY, false), [(Reason::TooLong, 1)]);
        assert_eq!(rejected.rest(began + EVERY * 3, true), []);
    }
}
