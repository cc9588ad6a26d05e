//! Fault steppers: run a real program and break it at one exact system call.
//!
//! A [`Stepper`] runs a single-threaded program, or one that serves, under ptrace, sees each of its file-system calls
//! twice (entry and exit), and at the point the caller names kills it, pauses it or makes the call fail. Every run has a
//! hard time bound, and no traced process outlives its tracer.
//!
//! It knows nothing of netsky: what must hold after a kill is said by the tests that use it. Never shipped.
//!
//! Beside it: [`campaign`], a batch of a long run; [`corpus`], hostile inputs from a seed; [`element`], a strict reading of
//! what an agent is shown; [`history`], the checker of what many processes saw of one queue; [`power`], power cuts on real file systems; [`fuzz`], the bodies of
//! the fuzz targets, which do know netsky; with the feature `memory` a machine in memory (`memory`), and every short sequence
//! of the bus's operations cut everywhere on it (`crash`).

mod call;
pub mod campaign;
pub mod corpus;
#[cfg(feature = "memory")]
pub mod crash;
pub mod element;
pub mod fuzz;
pub mod history;
#[cfg(feature = "memory")]
pub mod memory;
pub mod power;
mod stepper;
mod tracee;

pub use call::Call;
pub use nix::errno::Errno;
pub use stepper::{Ended, Fault, Moment, Outcome, Paused, Point, Run, Served, Stepper, Trace, Watched};

use std::io;
use std::time::Duration;

/// Why a step could not be made; the program under test is dead in every case.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call of the tracer itself failed.
    #[error("{op}: {source}")]
    Tracer {
        /// What the tracer was doing.
        op: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The program never ran: it is missing or not executable.
    #[error("{program} did not start: {stderr}")]
    NotStarted {
        /// The program as it was named.
        program: String,
        /// What the shell that should have become it said.
        stderr: String,
    },
    /// The run took longer than its bound and was killed.
    #[error("{program} still ran after {limit:?} and was killed; last seen: {last}")]
    TimedOut {
        /// The program as it was named.
        program: String,
        /// The bound that it broke.
        limit: Duration,
        /// The last counted point.
        last: String,
    },
    /// The program started a thread, whose calls would go unseen.
    #[error("{program} started a second thread: its calls cannot be counted")]
    Threads {
        /// The program as it was named.
        program: String,
    },
    /// Faults other than kills need registers that only x86_64 is known to have.
    #[error("a call can be made to fail on x86_64 only")]
    Unsupported,
}

/// The result of every operation here.
pub type Result<T> = std::result::Result<T, Error>;

fn tracer(op: &'static str) -> impl FnOnce(Errno) -> Error {
    move |errno| Error::Tracer { op, source: errno.into() }
}
