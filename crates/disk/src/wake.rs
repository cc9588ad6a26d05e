//! Signals as a descriptor: a handler writes one byte into a pipe that the poll loop reads.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, getpid, kill_process};

/// Every classic signal that we were started with as ignored, and that may be caught.
///
/// Whoever starts programs catches these, so that they are at their default in there and not ignored by inheritance.
pub fn ignored() -> Vec<Signal> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    // The runtime ignores SIGPIPE for us and puts it back for what we start; the last three may not be caught.
    let left_alone = [Signal::PIPE, Signal::ILL, Signal::FPE, Signal::SEGV];
    (1..=31)
        .filter(|number| mask & (1 << (number - 1)) != 0)
        .filter_map(Signal::from_named_raw)
        .filter(|signal| !left_alone.contains(signal))
        .collect()
}

/// Outlive a write over the shell's limit on the size of a file (`ulimit -f`): it fails, as on a full disk, and its signal
/// does nothing. Caught and not ignored, so that it is at its default in every program that we start. Where it cannot be
/// caught such a write kills, as it would have.
pub fn outlive_large_files() {
    // SAFETY: the handler does nothing at all.
    let _ = unsafe { signal_hook_registry::register(Signal::XFSZ.as_raw(), || ()) };
}

/// Stop until somebody continues this process, as a SIGTSTP that was caught would have had it; that one does nothing where
/// no shell could.
///
/// # Errors
/// The system refuses.
pub fn stop_here() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::STOP)?)
}

/// The reading end; dropping it leaves the handlers in place, which then write into nothing.
#[derive(Debug)]
pub struct Wake {
    read: OwnedFd,
}

/// Bytes read at once; more signals than that between two rounds are only more of the same.
const BATCH: usize = 64;

impl Wake {
    /// Catch these signals from here on. Caught ones are back at their default in any program we start.
    ///
    /// # Errors
    /// No pipe can be made, or a signal cannot be caught.
    pub fn catch(signals: &[Signal]) -> io::Result<Wake> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // For the life of the process: a handler may run at any time.
        let write: &'static OwnedFd = Box::leak(Box::new(write));
        for signal in signals {
            let number = signal.as_raw();
            let byte = [u8::try_from(number).unwrap_or(0)];
            // SAFETY: the handler makes one write to a pipe that never closes and never blocks; it takes no
            // lock, allocates nothing and cannot panic. A full pipe loses only a byte that says the same.
            unsafe {
                signal_hook_registry::register(number, move || {
                    let _ = rustix::io::write(write, &byte);
                })?;
            }
        }
        Ok(Wake { read })
    }

    /// The signals that came since the last call.
    pub fn take(&self) -> Vec<Signal> {
        let mut bytes = [0; BATCH];
        let read = rustix::io::read(&self.read, &mut bytes[..]).unwrap_or(0);
        bytes[..read].iter().filter_map(|byte| Signal::from_named_raw(i32::from(*byte))).collect()
    }
}

/// The wish of others that this process ends, heard once and remembered.
#[derive(Debug)]
pub struct Stop {
    wake: Wake,
    came: Cell<bool>,
}

impl Stop {
    /// Hear it from here on: TERM, INT and HUP.
    ///
    /// # Errors
    /// As [`Wake::catch`].
    pub fn hear() -> io::Result<Stop> {
        Ok(Stop { wake: Wake::catch(&[Signal::TERM, Signal::INT, Signal::HUP])?, came: Cell::new(false) })
    }

    /// Whether it was heard by now.
    pub fn came(&self) -> bool {
        if !self.wake.take().is_empty() {
            self.came.set(true);
        }
        self.came.get()
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}
