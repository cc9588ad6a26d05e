//! A bell: one thread rings, another one wakes, whatever else it waits for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// Rings of one bell between two looks are one.
#[derive(Debug)]
pub struct Bell {
    read: OwnedFd,
    write: OwnedFd,
}

/// What ended a wait; both may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Woken {
    /// The bell rang.
    pub rung: bool,
    /// There is something to read beside it.
    pub beside: bool,
}

impl Bell {
    /// A bell that nobody has rung.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn new() -> io::Result<Bell> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Bell { read, write })
    }

    /// Wake who waits; who does not wait wakes at once the next time.
    pub fn ring(&self) {
        // A full pipe rings already.
        let _ = rustix::io::write(&self.write, &[1]);
    }

    /// Wait for a ring, or for something to read from `beside`, at most so long.
    ///
    /// # Errors
    /// The system refuses.
    pub fn wait(&self, beside: Option<BorrowedFd<'_>>, limit: Duration) -> io::Result<Woken> {
        let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        let mut fds = vec![PollFd::from_borrowed_fd(self.read.as_fd(), PollFlags::IN)];
        fds.extend(beside.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Woken { rung: false, beside: false }),
            Err(e) => return Err(e.into()),
        }
        let mut woken = fds.iter().map(|fd| !fd.revents().is_empty());
        let (rung, beside) = (woken.next() == Some(true), woken.next() == Some(true));
        if rung {
            let mut rings = [0; 64];
            while rustix::io::read(&self.read, &mut rings[..]) == Ok(rings.len()) {}
        }
        Ok(Woken { rung, beside })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_heard_once_also_by_who_did_not_wait_yet_and_never_blocks() {
        let (bell, other) = (Bell::new().expect("a bell"), Bell::new().expect("another"));
        for _ in 0..100_000 {
            bell.ring();
        }
        let wait = |beside| bell.wait(beside, Duration::from_millis(1)).expect("it waits");
        assert_eq!(wait(None), Woken { rung: true, beside: false });
        while wait(None).rung {}
        other.ring();
        assert_eq!(wait(Some(other.read.as_fd())), Woken { rung: false, beside: true });
    }
}
