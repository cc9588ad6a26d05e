//! A bound on work that nothing can interrupt: at its end the process says one line and ends.
//!
//! Promise: who is bounded ends at its time wherever it is, in a library's code too; nothing of it runs on. Only for
//! work that holds nothing which has to be put back.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;
use signal_hook_registry::SigId;

/// Ends the process unless it is dropped before. One at a time.
#[derive(Debug)]
pub struct Bound {
    /// A handler that stays would answer for the next one, with its own line.
    handler: SigId,
}

impl Bound {
    /// From now on: `after` that time by the clock `line` goes to standard error, if that takes it at once, and the process
    /// ends with `code`.
    ///
    /// # Errors
    /// The signal cannot be caught, or no timer be set.
    pub fn set(after: Duration, line: &str, code: i32) -> io::Result<Bound> {
        let line: &'static [u8] = Box::leak(line.as_bytes().to_vec().into_boxed_slice());
        // SAFETY: the handler makes two calls and ends the process; it takes no lock, allocates nothing and cannot panic.
        let handler = unsafe {
            signal_hook_registry::register(Signal::ALARM.as_raw(), move || {
                if is_ready() {
                    let _ = rustix::io::write(rustix::stdio::stderr(), line);
                }
                libc::_exit(code);
            })?
        };
        let bound = Bound { handler };
        hear_alarms()?;
        timer(after)?;
        Ok(bound)
    }
}

/// Whether standard error takes a line at once: a full pipe or a stopped terminal would hold us for ever.
fn is_ready() -> bool {
    let stderr = rustix::stdio::stderr();
    let mut asked = [PollFd::from_borrowed_fd(stderr, PollFlags::OUT)];
    let found = rustix::event::poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    found.is_ok() && asked[0].revents().contains(PollFlags::OUT)
}

impl Drop for Bound {
    fn drop(&mut self) {
        // A timer that could be set can be taken back.
        let _ = timer(Duration::ZERO);
        signal_hook_registry::unregister(self.handler);
    }
}

/// A signal that whoever started us had blocked stays blocked over an exec, and would never come.
fn hear_alarms() -> io::Result<()> {
    let mut alarms = std::mem::MaybeUninit::uninit();
    // SAFETY: the set is made empty before anything else is done with it, and the former mask is not asked for.
    let failed = unsafe {
        libc::sigemptyset(alarms.as_mut_ptr());
        libc::sigaddset(alarms.as_mut_ptr(), libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, alarms.as_ptr(), std::ptr::null_mut())
    };
    match failed {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Sets the timer of the process; zero takes it back.
fn timer(after: Duration) -> io::Result<()> {
    let seconds = libc::time_t::try_from(after.as_secs()).unwrap_or(libc::time_t::MAX);
    let value = libc::timeval { tv_sec: seconds, tv_usec: after.subsec_micros().into() };
    let once = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: value };
    // SAFETY: both pointers are good for the call, and the second may be null.
    match unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const once, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
