//! Named fault points: the places where a test stops, kills or fails this program.
//!
//! `NETSKY_FAULT="bus.send.renamed=kill@2"` acts at the second hit of that point; actions are `kill`
//! (SIGKILL), `stop` (SIGSTOP) and `error` (the caller gets EIO). `NETSKY_FAULT_LOG=FILE` gets one line
//! a hit, so that a test which did not hit its point can fail. Absent from release builds.

use std::io;

/// Mark a point. In release builds it is `Ok(())` and costs nothing.
///
/// # Errors
/// Only what a test injects.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn point(_name: &'static str) -> io::Result<()> {
    Ok(())
}

/// Mark a point: acts when `NETSKY_FAULT` names it.
///
/// # Errors
/// Only what a test injects.
#[cfg(debug_assertions)]
pub fn point(name: &'static str) -> io::Result<()> {
    use std::sync::atomic::{AtomicU32, Ordering};
    crate::sys::simulated!(world => {
        world.point(name);
        Ok(())
    });
    // One point is named per process, so one counter is enough.
    static HITS: AtomicU32 = AtomicU32::new(0);
    let Ok(plan) = std::env::var("NETSKY_FAULT") else { return Ok(()) };
    let Some((point, action)) = plan.split_once('=') else { return Ok(()) };
    if point != name {
        return Ok(());
    }
    let (action, nth) = action.split_once('@').unwrap_or((action, "1"));
    if HITS.fetch_add(1, Ordering::Relaxed) + 1 != nth.parse().unwrap_or(1) {
        return Ok(());
    }
    log_hit(name);
    let signal = match action {
        "kill" => rustix::process::Signal::KILL,
        "stop" => rustix::process::Signal::STOP,
        _ => return Err(io::Error::from_raw_os_error(5)),
    };
    rustix::process::kill_process(rustix::process::getpid(), signal)?;
    Ok(())
}

#[cfg(debug_assertions)]
fn log_hit(name: &str) {
    use std::io::Write;
    let Ok(path) = std::env::var("NETSKY_FAULT_LOG") else { return };
    if let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path) {
        // A test's own log: what cannot be written shows as a hit that is missing.
        let _ = writeln!(file, "{name}");
    }
}
