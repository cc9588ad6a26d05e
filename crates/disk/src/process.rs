//! Other processes, by identity: a pid is a number that the system hands out again (faults T8, A20).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use netsky_model::process::{Life, ProcessId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
pub use rustix::process::Signal;
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::error::{Error, Result};

/// First 8 hex digits of the kernel's boot id.
pub fn boot_id() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let hex: String = text.chars().filter(char::is_ascii_hexdigit).take(8).collect();
        if hex.len() == 8 { hex } else { "00000000".to_owned() }
    })
}

/// Nothing this process makes is open to others, whatever umask it inherited; the first line of every `main`.
pub fn private_umask() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

/// Inode of our pid namespace.
fn own_ns() -> u64 {
    static NS: OnceLock<u64> = OnceLock::new();
    *NS.get_or_init(|| rustix::fs::stat("/proc/self/ns/pid").map_or(0, |stat| stat.st_ino))
}

/// This process.
pub fn me() -> ProcessId {
    identify(std::process::id()).expect("this process runs, so /proc knows it")
}

/// The process that has a pid now; none if there is none, or only a zombie of it.
pub fn identify(pid: u32) -> Option<ProcessId> {
    let stat = Stat::read(pid)?;
    (!stat.zombie).then(|| ProcessId {
        pid,
        start_time: stat.start_time,
        boot_id: boot_id().to_owned(),
        ns: own_ns(),
    })
}

/// What is known of a process from its identity.
pub fn probe(id: &ProcessId) -> Life {
    // Another boot ended everything of the earlier one, in whatever namespace it was.
    if id.boot_id != boot_id() {
        return Life::Dead;
    }
    if id.ns != own_ns() {
        return Life::Unknown;
    }
    match identify(id.pid) {
        Some(now) if now.start_time == id.start_time => Life::Alive,
        _ => Life::Dead,
    }
}

/// Whether that very process runs. A process of another namespace does not count as running here.
pub fn is_alive(id: &ProcessId) -> bool {
    probe(id) == Life::Alive
}

/// The fields of `/proc/<pid>/stat` that matter here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stat {
    pub(crate) zombie: bool,
    pub(crate) parent: u32,
    pub(crate) start_time: u64,
}

impl Stat {
    pub(crate) fn read(pid: u32) -> Option<Stat> {
        let text = std::fs::read(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
        // The program's name stands in parentheses and may hold any byte, these too.
        let tail = &text[text.iter().rposition(|b| *b == b')')? + 1..];
        let tail = String::from_utf8_lossy(tail);
        let fields: Vec<&str> = tail.split_whitespace().collect();
        Some(Stat {
            zombie: matches!(*fields.first()?, "Z" | "X" | "x"),
            parent: fields.get(1)?.parse().ok()?,
            start_time: fields.get(19)?.parse().ok()?,
        })
    }
}

/// A handle on one process that cannot come to mean another.
#[derive(Debug)]
pub struct PidFd {
    fd: OwnedFd,
    pid: u32,
}

impl PidFd {
    /// Take hold of a process; none if it is gone.
    ///
    /// # Errors
    /// The system has no descriptors left or no pidfds.
    pub fn open(id: &ProcessId) -> Result<Option<PidFd>> {
        let Some(pid) = killable(id.pid) else { return Ok(None) };
        let fd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => fd,
            Err(Errno::SRCH) => return Ok(None),
            Err(e) => return Err(Error::new("take hold of process", id.pid.to_string(), e)),
        };
        // The pid may have been handed on before we held it; from here on it cannot be.
        Ok(is_alive(id).then_some(PidFd { fd, pid: id.pid }))
    }

    /// Send a signal; false if the process is gone.
    ///
    /// # Errors
    /// The system refuses.
    pub fn signal(&self, signal: Signal) -> Result<bool> {
        match pidfd_send_signal(&self.fd, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(e) => Err(Error::new("signal process", self.pid.to_string(), e)),
        }
    }

    /// Wait for its end; false if it still runs after `limit`.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn wait(&self, limit: Duration) -> Result<bool> {
        let until = crate::clock::boot() + limit;
        loop {
            let left = until.saturating_sub(crate::clock::boot());
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(e) => return Err(Error::new("wait for process", self.pid.to_string(), e)),
            }
        }
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<PidFd> for OwnedFd {
    fn from(held: PidFd) -> OwnedFd {
        held.fd
    }
}

/// Send a signal to that very process; false if it is gone.
///
/// # Errors
/// The system refuses.
pub fn signal(id: &ProcessId, signal: Signal) -> Result<bool> {
    match PidFd::open(id)? {
        Some(held) => held.signal(signal),
        None => Ok(false),
    }
}

/// A pid that may be signalled: never init, a group, everything, or ourselves.
fn killable(pid: u32) -> Option<Pid> {
    let raw = i32::try_from(pid).ok()?;
    (raw > 1 && pid != std::process::id()).then(|| Pid::from_raw(raw))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t8_a_pid_with_another_start_is_dead_and_a_foreign_namespace_is_unknown() {
        let me = me();
        assert_eq!(probe(&me), Life::Alive);
        assert_eq!(probe(&ProcessId { start_time: me.start_time + 1, ..me.clone() }), Life::Dead);
        assert_eq!(probe(&ProcessId { boot_id: "ffffffff".to_owned(), ..me.clone() }), Life::Dead);
        assert_eq!(probe(&ProcessId { ns: me.ns + 1, ..me }), Life::Unknown);
    }

    #[test]
    fn a20_init_and_ourselves_cannot_be_signalled() {
        let me = me();
        for pid in [0, 1, me.pid, u32::MAX] {
            assert_eq!(killable(pid), None, "{pid}");
        }
        assert!(!signal(&ProcessId { pid: 1, ..me }, Signal::KILL).expect("refused quietly"));
    }
}
