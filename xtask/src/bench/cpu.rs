//! Time of a core that processes took, as `/proc` counts it.

use std::time::Duration;

use anyhow::{Context, Result};

/// What `/proc` counts in: part of what Linux promises to programs.
const TICK: Duration = Duration::from_millis(10);

/// Where a process's own time stands behind its name, in user mode and in the kernel; its ended children's follows.
const OWN: usize = 11;

/// What these processes took.
pub(super) fn of(processes: &[u32]) -> Result<Duration> {
    processes.iter().map(|pid| Ok(counted(*pid)?[..2].iter().sum::<Duration>())).sum()
}

/// The same, with what their children took that have ended and were waited for.
pub(super) fn with_children_of(processes: &[u32]) -> Result<Duration> {
    processes.iter().map(|pid| Ok(counted(*pid)?.iter().sum::<Duration>())).sum()
}

/// What the children of a process took that have ended and were waited for.
pub(super) fn of_children_of(pid: u32) -> Result<Duration> {
    Ok(counted(pid)?[2..].iter().sum())
}

/// Its own time in user mode and in the kernel, and that of its children.
fn counted(pid: u32) -> Result<[Duration; 4]> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in brackets may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let mut all = [Duration::ZERO; 4];
    for (n, time) in all.iter_mut().enumerate() {
        *time = TICK * fields.get(OWN + n).context("a short stat")?.parse::<u32>()?;
    }
    Ok(all)
}
