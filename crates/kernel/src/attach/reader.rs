//! Who understands what a session prints: a person is then shown that, and not the bytes.
//!
//! Promise: a session that is read so is typed to by nobody from here, and is told no size of any window.

use super::{AttachError, Attached, Left, Options, terminal};
use crate::worker_client::WorkerClient;

/// The end of a paste, as a terminal says it.
const PASTED: &[u8] = b"\x1b[201~";

/// What is made of a session's output, and of what a person types at it.
///
/// What each returns is written to this terminal as it is.
pub trait Reader {
    /// Output of the session.
    fn output(&mut self, offset: u64, bytes: &[u8]) -> Vec<u8>;

    /// Output that is no longer kept.
    fn gap(&mut self, from: u64, to: u64) -> Vec<u8>;

    /// All that was printed before we came was told. Called once.
    fn caught_up(&mut self) -> Vec<u8>;

    /// Keys, without the one that leaves; only of a terminal whose output is one too.
    fn keys(&mut self, bytes: &[u8]) -> Typed;

    /// The window has so many columns, and what stands in it may have to be drawn anew.
    fn window(&mut self, columns: u16) -> Vec<u8>;

    /// What puts a terminal right that is left.
    fn undo(&self) -> Vec<u8>;
}

/// What came of keys.
#[derive(Debug, Default)]
pub struct Typed {
    /// What is shown.
    pub shown: Vec<u8>,
    /// Whether the person leaves.
    pub leaves: bool,
}

/// As [`super::attach`], and shown is what a reader makes of the output from an offset on: nothing reaches the program from here.
///
/// # Errors
/// Its worker or this terminal cannot be used.
pub fn read(
    options: &Options,
    client: WorkerClient,
    from: u64,
    reader: &mut dyn Reader,
) -> Result<Left, AttachError> {
    Attached::new(options, client, Some((from, reader)))?.until_left()
}

impl Attached<'_> {
    /// Tell a reader once that it has all that was there before us; false when nobody takes what it shows any more.
    pub(super) fn catch_up(&mut self) -> bool {
        match &mut self.reader {
            Some(reader) if !std::mem::replace(&mut self.is_caught_up, true) => {
                let shown = reader.caught_up();
                self.write(&shown)
            }
            _ => true,
        }
    }

    /// The size of the window is the reader's to know, and not the program's.
    pub(super) fn tell_reader_size(&mut self) -> Option<(u16, u16)> {
        let size = terminal::size().filter(|_| self.terminal.is_some())?;
        let shown = self.reader.as_mut()?.window(size.1);
        self.write(&shown);
        Some(size)
    }

    /// The end of a paste was lost.
    pub(super) fn end_readers_paste(&mut self) {
        let Some(reader) = &mut self.reader else { return };
        let shown = reader.keys(PASTED).shown;
        self.write(&shown);
    }
}
