//! Signals as a descriptor: a handler writes one byte into a pipe that the poll loop reads.
#![expect(unsafe_code, reason = "a signal handler runs anywhere; it has its paragraph")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;

/// The reading end; dropping it leaves the handlers in place, which then write into nothing.
#[derive(Debug)]
pub(crate) struct Wake {
    read: OwnedFd,
}

/// Bytes read at once; more signals than that between two rounds are only more of the same.
const BATCH: usize = 64;

impl Wake {
    /// Catch these signals from here on. Caught ones are back at their default in any program we start.
    pub(crate) fn catch(signals: &[Signal]) -> io::Result<Wake> {
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
    pub(crate) fn take(&self) -> Vec<Signal> {
        let mut bytes = [0; BATCH];
        let read = rustix::io::read(&self.read, &mut bytes[..]).unwrap_or(0);
        bytes[..read].iter().filter_map(|byte| Signal::from_named_raw(i32::from(*byte))).collect()
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}
