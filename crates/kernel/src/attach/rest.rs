//! The end of an attachment whose session is over: what its files have beyond what came over the connection.

use netsky_disk::fault;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::reach::ended;
use super::{AttachError, Attached, Input, KEYS, Left};
use crate::frame::FromWorker;
use crate::output_log::{Chunk, LogReader};

/// Bytes of output read at once from the files: a slow line takes a second for them, and then keys are looked at.
const PIECE: usize = 4 << 10;

impl Attached<'_> {
    /// The connection ended without an exit: the rest is in the files.
    pub(super) fn after_the_worker(&mut self) -> Result<Left, AttachError> {
        while let Some(frame) = self.client.buffered()? {
            if let Some(left) = self.show(frame)? {
                return Ok(left);
            }
        }
        let left = match ended(self.options) {
            Some(how) => Left::Ended(how),
            None => Left::WorkerDied,
        };
        Ok(self.rest()?.unwrap_or(left))
    }

    /// Print what is in the files by now beyond what came over the connection, as far as the person wants to see it; how that
    /// ended, if before its end. What a next generation prints from now on is another attachment's.
    pub(super) fn rest(&mut self) -> Result<Option<Left>, AttachError> {
        // Nobody is there to paint it.
        (self.painted, self.skips) = (false, false);
        let log = LogReader::open(&self.options.layout.out(&self.options.name))?;
        let end = log.span()?.end;
        fault::point("attach.rest")?;
        while self.at < end {
            let piece = usize::try_from(end - self.at).unwrap_or(PIECE).min(PIECE);
            let left = match log.read_from(self.at, piece)? {
                Chunk::Bytes { offset, bytes } => self.show(FromWorker::Output { offset, bytes })?,
                Chunk::Gap { from, to } => self.show(FromWorker::Gap { from, to })?,
                Chunk::End => break,
            };
            if left.is_some() {
                return Ok(left);
            }
            if self.leaves() {
                return Ok(None);
            }
        }
        Ok((!self.catch_up()).then_some(Left::Detached))
    }

    /// Whether the key that leaves was pressed. What else was typed has nobody to go to.
    fn leaves(&mut self) -> bool {
        if self.input != Input::Keys || !self.is_raw() {
            return false;
        }
        let (stdin, mut bytes) = (std::io::stdin(), [0; KEYS]);
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        if !matches!(poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..)) {
            return false;
        }
        match rustix::io::read(&stdin, &mut bytes[..]) {
            Ok(read @ 1..) => {
                // Nobody takes a paste, so that what comes are keys.
                self.keys.give_up_paste();
                self.keys.take(&bytes[..read]).1
            }
            Err(Errno::INTR | Errno::AGAIN) => false,
            // The terminal is gone.
            Ok(0) | Err(_) => true,
        }
    }
}
