//! What a test shifts under a real program: its wall clock, and which boot it believes to be on.
//!
//! `NETSKY_WALL_OFFSET=FILE` names a file with milliseconds that are added to the wall clock; it is read at each look at
//! the clock, so that the clock steps while the program runs. `NETSKY_BOOT_ID=0a1b2c3d` stands for a reboot that no test
//! can make. `NETSKY_CGROUP` is `off` (none is to be had), `old` (the kernel has no `cgroup.kill`), or `make=28`, `enter=19`,
//! `kill=5`, `remove=16`: that step fails with that number. Absent from release builds.

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

/// Whether the test wants no cgroup to be had.
pub(crate) fn cgroup_is_off() -> bool {
    cgroup().is_some_and(|asked| asked == "off")
}

/// Whether the test wants a kernel without `cgroup.kill`.
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
