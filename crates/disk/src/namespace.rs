//! Pid namespaces: in which one we are, and what can be known of a process in another.
//!
//! A pid means something in its own namespace only. From within one, a process of another is *unknown*: not seen, and not
//! dead. Only the namespace that the machine started with sees every process there is, so only there the death of a process
//! of another namespace can be proved, also when that namespace is gone as a whole.
//!
//! Promise: whoever cannot see for certain gets an error or *unknown*. That is so where `/proc` shows another namespace than
//! ours (a sandbox that forgot to mount its own: its pids are other processes), and in a time namespace of its own (start
//! times and the boot clock are shifted there).

use std::path::Path;
use std::sync::OnceLock;

use netsky_model::process::{Life, ProcessId};

use crate::error::{Error, Result};
use crate::process::{Stat, is_gone};

/// The pid namespace that a machine starts with; a fixed number of the kernel's interface (`linux/nsfs.h`).
const INITIAL_PID: u64 = 0xEFFF_FFFC;
/// The same for time namespaces.
const INITIAL_TIME: u64 = 0xEFFF_FFFA;

/// Inode of our pid namespace.
///
/// # Errors
/// `/proc` cannot be read, or does not show the processes and the clock that we live by.
pub(crate) fn own() -> Result<u64> {
    const NS: &str = "/proc/self/ns/pid";
    static OWN: OnceLock<u64> = OnceLock::new();
    if let Some(own) = OWN.get() {
        return Ok(*own);
    }
    let me = std::fs::read_link("/proc/self").map_err(|e| Error::new("read", "/proc/self", e))?;
    if me.as_os_str() != std::process::id().to_string().as_str() {
        let why = "it shows another pid namespace than this process is in; mount a /proc of this one";
        return Err(Error::because("trust", "/proc", why));
    }
    let time = rustix::fs::stat("/proc/self/ns/time").map(|stat| stat.st_ino);
    // A kernel without time namespaces has no such file.
    if time.is_ok_and(|time| time != INITIAL_TIME) {
        let why = "this process is in a time namespace of its own, where start times are others";
        return Err(Error::because("trust", "/proc", why));
    }
    let own = rustix::fs::stat(NS).map_err(|e| Error::new("look at", NS, e))?.st_ino;
    Ok(*OWN.get_or_init(|| own))
}

/// Whether every process of the machine is seen from here.
pub fn sees_all() -> bool {
    // Where init is hidden (`hidepid`), so may others be.
    own().is_ok_and(|own| own == INITIAL_PID) && matches!(Stat::look(1), Ok(Some(_)))
}

/// What is known here of a process in another pid namespace of this boot.
pub(crate) fn probe_foreign(id: &ProcessId) -> Life {
    if !sees_all() {
        return Life::Unknown;
    }
    let Ok(pids) = crate::sweep::pids() else { return Life::Unknown };
    let lives: Vec<Life> = pids.into_iter().map(|pid| is_that(pid, id).unwrap_or(Life::Unknown)).collect();
    [Life::Alive, Life::Unknown].into_iter().find(|life| lives.contains(life)).unwrap_or(Life::Dead)
}

/// Whether the process that has a pid here is the one that is meant: alive, or dead for "not that one".
fn is_that(pid: u32, id: &ProcessId) -> std::io::Result<Life> {
    let here = Path::new("/proc").join(pid.to_string());
    let status = match std::fs::read_to_string(here.join("status")) {
        Err(e) if is_gone(&e) => return Ok(Life::Dead),
        read => read?,
    };
    // Its pid in each namespace from ours down to its own.
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let pids = pids.ok_or_else(|| std::io::Error::other("no NSpid"))?;
    let innermost = pids.split_whitespace().last().and_then(|pid| pid.parse().ok());
    let stat = Stat::look(pid)?.filter(|stat| !stat.zombie);
    if innermost != Some(id.pid) || stat.is_none_or(|stat| stat.start_time != id.start_time) {
        return Ok(Life::Dead);
    }
    match rustix::fs::stat(here.join("ns/pid")) {
        Ok(ns) if ns.st_ino == id.ns => Ok(Life::Alive),
        Ok(_) => Ok(Life::Dead),
        Err(e) if is_gone(&e.into()) => Ok(Life::Dead),
        Err(e) => Err(e.into()),
    }
}
