//! The person's own terminal: raw while attached, and put back whatever happens.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use netsky_disk::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetwinsize, tcsetattr};

/// Bytes written at once.
pub(super) const PIECE: usize = 512;
/// How long a terminal that takes nothing is waited for at the end; its settings are back by then.
const UNDO: Duration = Duration::from_secs(1);

/// A terminal in raw mode; dropping it restores everything, also when a panic unwinds.
pub(super) struct Raw {
    saved: Termios,
    /// The screen, opened anew so that our writes never block and those of the shell that shares ours still do.
    screen: OwnedFd,
    /// What undoes what the session's program did to the screen.
    pub(super) undo: Vec<u8>,
}

impl Raw {
    /// Make standard input raw.
    pub(super) fn enter() -> io::Result<Raw> {
        let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let screen = rustix::fs::open("/proc/self/fd/1", flags, Mode::empty())?;
        let saved = tcgetattr(io::stdin())?;
        let mut raw = saved.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Raw { saved, screen, undo: Vec::new() })
    }
}

impl AsFd for Raw {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.screen.as_fd()
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // The settings first, and at once: a pane that is frozen still gets its keyboard back. A terminal that has gone
        // cannot be put back, and nobody would see it.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.saved);
        write_undo(&self.screen, &self.undo);
        // Answers of the terminal that come late must not be typed into the person's shell.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    }
}

fn write_undo(screen: &OwnedFd, undo: &[u8]) {
    let until = clock::boot() + UNDO;
    let mut rest = undo;
    while !rest.is_empty() && clock::boot() < until {
        let left = until.saturating_sub(clock::boot());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(screen, PollFlags::OUT)], Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return,
        }
        match rustix::io::write(screen, &rest[..rest.len().min(PIECE)]) {
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return,
        }
    }
}

/// Lines and columns of the window; none if it does not say.
pub(super) fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}
