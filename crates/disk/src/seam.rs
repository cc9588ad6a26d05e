//! What a test shifts under a real program: its wall clock, and which boot it believes to be on.
//!
//! `NETSKY_WALL_OFFSET=FILE` names a file with milliseconds that are added to the wall clock; it is read at each look at
//! the clock, so that the clock steps while the program runs. `NETSKY_BOOT_ID=0a1b2c3d` stands for a reboot that no test
//! can make. `NETSKY_SLEPT=FILE` names milliseconds that the machine has slept: added to the wall and the boot clock, and not
//! to the one that stands still in a suspend. `NETSKY_CGROUP` is `off` (none is to be had), `old` (the kernel has no `cgroup.kill`,
//! and nobody is born into a group), or `make=28`, `enter=19`, `kill=5`, `remove=16`: that step fails with that number. Absent from release builds.

use std::time::Duration;

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
    let millis = asked("NETSKY_WALL_OFFSET").unwrap_or(0) + asked("NETSKY_SLEPT").unwrap_or(0);
    now + jiff::SignedDuration::from_millis(millis)
}

/// The clock since boot as the test wants it.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn boot(now: Duration) -> Duration {
    now
}

/// The clock since boot as the test wants it.
#[cfg(debug_assertions)]
pub(crate) fn boot(now: Duration) -> Duration {
    now + Duration::from_millis(asked("NETSKY_SLEPT").unwrap_or(0).unsigned_abs())
}

/// The milliseconds in the file that a variable names.
#[cfg(debug_assertions)]
fn asked(variable: &str) -> Option<i64> {
    let text = std::fs::read_to_string(crate::env::path(variable)?).expect("what a test named can be read");
    Some(text.trim().parse().expect("milliseconds"))
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

/// Whether the test wants no cgroup to be had.
pub(crate) fn cgroup_is_off() -> bool {
    cgroup().is_some_and(|asked| asked == "off")
}

/// Whether the test wants a kernel without `cgroup.kill` and `CLONE_INTO_CGROUP`.
pub(crate) fn cgroup_is_old() -> bool {
    cgroup().is_some_and(|asked| asked == "old")
}

/// Fails as the test wants a step with a cgroup to fail.
pub(crate) fn cgroup_fails(step: &str) -> std::io::Result<()> {
    let asked = cgroup();
    let number = asked.as_deref().and_then(|asked| asked.split_once('=')).filter(|(of, _)| *of == step);
    match number.and_then(|(_, number)| number.parse().ok()) {
        Some(number) => Err(std::io::Error::from_raw_os_error(number)),
        None => Ok(()),
    }
}

#[cfg(not(debug_assertions))]
#[inline(always)]
fn cgroup() -> Option<String> {
    None
}

#[cfg(debug_assertions)]
fn cgroup() -> Option<String> {
    crate::env::text("NETSKY_CGROUP")
}
