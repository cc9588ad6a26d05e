//! What a test shifts under a real program: its wall clock, and which boot it believes to be on.
//!
//! `NETSKY_WALL_OFFSET=FILE` names a file with milliseconds that are added to the wall clock; it is read at each look at
//! the clock, so that the clock steps while the program runs. `NETSKY_BOOT_ID=0a1b2c3d` stands for a reboot that no test
//! can make. Absent from release builds.

use jiff::Timestamp;

/// The wall clock as the test wants it.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn wall(now: Timestamp) -> Timestamp {
    now
}

/// The wall clock as the test wants it.
#[cfg(debug_assertions)]
pub(crate) fn wall(now: Timestamp) -> Timestamp {
    let Some(file) = crate::env::path("NETSKY_WALL_OFFSET") else { return now };
    let text = std::fs::read_to_string(&file).expect("the offset that a test named can be read");
    let millis: i64 = text.trim().parse().expect("milliseconds");
    now + jiff::SignedDuration::from_millis(millis)
}

/// The boot as the test wants it.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn boot_id() -> Option<String> {
    None
}

/// The boot as the test wants it.
#[cfg(debug_assertions)]
pub(crate) fn boot_id() -> Option<String> {
    crate::env::text("NETSKY_BOOT_ID")
}
