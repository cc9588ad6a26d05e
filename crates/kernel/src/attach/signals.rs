//! The signals that come to an attachment: those that end it, a new size of the window, and to stop for a while.

use netsky_disk::process::Signal;
use netsky_disk::wake;

use super::modes::Modes;
use super::terminal::Terminal;
use super::{AttachError, Attached, Left};

/// Signals that end a process which does not catch them, but for those of its own mistakes and those that nobody can catch.
const ENDING: [Signal; 13] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::VTALARM,
    Signal::PROF,
    Signal::IO,
    Signal::POWER,
    Signal::STKFLT,
    Signal::XCPU,
];

/// Those that are caught; without a terminal for the output there is nothing to put back. Where keys come one by one none
/// of them stops us, and whoever does (`kill -TSTP`) can let us go on.
pub(super) fn caught(has_screen: bool, raw: bool) -> Vec<Signal> {
    if !has_screen {
        return Vec::new();
    }
    let stop = raw.then_some(Signal::TSTP);
    // What we were told to ignore we go on ignoring: an attach in the background is not ended from the keyboard.
    let ignored = wake::ignored();
    let asked = ENDING.into_iter().chain(stop).filter(|signal| !ignored.contains(signal));
    asked.chain([Signal::WINCH]).collect()
}

impl Attached<'_> {
    pub(super) fn signals(&mut self) -> Result<Option<Left>, AttachError> {
        let mut signals = std::mem::take(&mut self.pending);
        signals.extend(self.wake.take());
        for signal in signals {
            match signal {
                Signal::WINCH => drop(self.tell_size()?),
                Signal::TSTP => {
                    if let Some(left) = self.stop()? {
                        return Ok(Some(left));
                    }
                }
                // On pipes this terminal is not raw, and its keys come as signals.
                Signal::INT | Signal::QUIT if !self.is_raw() => return Ok(Some(Left::Detached)),
                other => return Ok(Some(Left::Signalled(other.as_raw()))),
            }
        }
        Ok(None)
    }

    /// How a signal that came while output was written ends this, if it does.
    pub(super) fn pending_end(&self) -> Option<Left> {
        let ends = self.pending.iter().find(|signal| ![Signal::WINCH, Signal::TSTP].contains(*signal))?;
        let by_key = !self.is_raw() && matches!(*ends, Signal::INT | Signal::QUIT);
        Some(if by_key { Left::Detached } else { Left::Signalled(ends.as_raw()) })
    }

    /// Stops, as it was told to: meanwhile the terminal is somebody else's, as it was before. Once it goes on it takes it anew.
    fn stop(&mut self) -> Result<Option<Left>, AttachError> {
        let before = self.terminal.take().and_then(Terminal::leave);
        wake::stop_here()?;
        let terminal = Terminal::enter(before.is_some())?;
        // What a shell has set for its own prompt meanwhile is not what was there.
        self.terminal = Some(terminal.of(before));
        self.modes = Modes::default();
        if self.reader.is_some() {
            self.note_undo();
        }
        self.tell_size()?;
        if self.painted {
            // What stands there by now goes up.
            self.following = false;
            return self.paint_anew(self.at);
        }
        self.ask_to_paint()?;
        Ok(None)
    }
}
