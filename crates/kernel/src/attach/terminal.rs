//! The person's own terminal: raw while attached, and put back whatever happens.

use std::io::{self, Write};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// A terminal in raw mode; dropping it restores everything, also when a panic unwinds.
pub(super) struct Raw {
    saved: Termios,
    /// What undoes what the session's program did to the screen.
    pub(super) undo: Vec<u8>,
}

impl Raw {
    /// Make standard input raw.
    pub(super) fn enter() -> io::Result<Raw> {
        let saved = tcgetattr(io::stdin())?;
        let mut raw = saved.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Raw { saved, undo: Vec::new() })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that has gone cannot be put back, and nobody would see it.
        let mut out = io::stdout().lock();
        let _ = out.write_all(&self.undo).and_then(|()| out.flush());
        // Flush: answers of the terminal that come late must not be typed into the person's shell.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.saved);
    }
}

/// Lines and columns of the window; none if it does not say.
pub(super) fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}
