//! The person's own terminal: raw while keys are typed at it, and put back whatever happens.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use netsky_disk::{clock, fault};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetwinsize, tcsetattr};

/// Bytes written at once.
pub(super) const PIECE: usize = 512;
/// How long a terminal that takes nothing is waited for at the end; its settings are back by then.
const UNDO: Duration = Duration::from_secs(1);
/// What is said next begins a line of its own, and nothing of the session stands below it.
const BELOW: &[u8] = b"\r\n\x1b[J";

/// A terminal that a session's output is shown on; dropping it restores everything, also when a panic unwinds.
pub(super) struct Terminal {
    /// The settings before, where it is raw.
    saved: Option<Termios>,
    screen: OwnedFd,
    /// What undoes what the session's program did to the screen; empty where nothing was shown.
    pub(super) undo: Vec<u8>,
}

impl Terminal {
    /// Take standard output, which is a terminal; `raw` makes standard input raw, which then is one too.
    pub(super) fn enter(raw: bool) -> io::Result<Terminal> {
        let screen = screen()?;
        let saved = if raw { Some(tcgetattr(io::stdin())?) } else { None };
        if let Some(mut raw) = saved.clone() {
            raw.make_raw();
            tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        }
        Ok(Terminal { saved, screen, undo: Vec::new() })
    }

    /// Put it back; the settings that were before, where it was raw.
    pub(super) fn leave(self) -> Option<Termios> {
        self.saved.clone()
    }

    /// As it is, with these settings to be put back.
    pub(super) fn of(mut self, before: Option<Termios>) -> Terminal {
        self.saved = before;
        self
    }

    /// One that nobody looks at.
    #[cfg(test)]
    pub(super) fn nowhere() -> Terminal {
        let screen = rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        Terminal { saved: None, screen: screen.expect("it is there"), undo: Vec::new() }
    }

    /// Whether keys come from it one by one.
    pub(super) fn is_raw(&self) -> bool {
        self.saved.is_some()
    }
}

/// Standard output, opened anew so that our writes never block and those of the shell that shares ours still do. A terminal
/// that was handed on to another user (`su`) does not open: then it is the shared one, and a frozen pane may hold a piece up.
fn screen() -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let anew = || Ok(rustix::fs::open("/proc/self/fd/1", flags, Mode::empty())?);
    fault::point("attach.screen").and_then(|()| anew()).or_else(|_| io::stdout().as_fd().try_clone_to_owned())
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.screen.as_fd()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The settings first, and at once: a pane that is frozen still gets its keyboard back. A terminal that has gone
        // cannot be put back, and nobody would see it.
        if let Some(saved) = &self.saved {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, saved);
        }
        if !self.undo.is_empty() {
            self.undo.extend_from_slice(BELOW);
            write_undo(&self.screen, &self.undo);
        }
        if self.saved.is_some() {
            // Answers of the terminal that come late must not be typed into the person's shell.
            let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        }
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
