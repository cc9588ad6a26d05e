//! The way into the program: one bounded queue, from the newest driver or an attached person.
//!
//! Promise: a frame is taken whole or refused whole, in the order it came; input of an older driver than one
//! seen before is refused (fencing), so that what a paused driver says late changes nothing. What came under a name is
//! taken once, however often it comes: of the last [`NAMES`] of them.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::frame::{Refusal, RefusalKind};

/// Most bytes that wait for a program which does not read; as much as the largest frame carries.
const QUEUE: usize = 1 << 20;
/// Beyond this much waiting a question is not answered: a flood of them must leave room for whoever types.
const ANSWERED: usize = QUEUE / 2;
/// How many names of what was typed are remembered: a caller repeats within seconds, not hundreds of calls later.
const NAMES: usize = 256;

/// What waits for the program.
#[derive(Debug, Default)]
pub(super) struct Input {
    queue: VecDeque<u8>,
    epoch: u64,
    /// Names of what was taken, oldest first.
    names: VecDeque<String>,
    closing: bool,
    closed: bool,
}

impl Input {
    /// The highest epoch seen.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Take bytes for the program.
    pub(super) fn offer(&mut self, epoch: u64, bytes: &[u8]) -> Result<(), Refusal> {
        self.admit(epoch)?;
        if self.queue.len() + bytes.len() > QUEUE {
            let waiting = self.queue.len();
            let text = format!("{waiting} bytes wait for a program that does not read; the limit is {QUEUE}");
            return Err(Refusal { kind: RefusalKind::Full, text });
        }
        self.queue.extend(bytes);
        Ok(())
    }

    /// Take what its terminal answers the program.
    pub(super) fn answer(&mut self, answer: &str) {
        if !self.closing && !self.closed && self.queue.len() + answer.len() <= ANSWERED {
            self.queue.extend(answer.as_bytes());
        }
    }

    /// Take bytes for the program once under a name; true if they were taken before.
    pub(super) fn offer_once(&mut self, epoch: u64, id: String, bytes: &[u8]) -> Result<bool, Refusal> {
        if self.names.contains(&id) {
            return Ok(true);
        }
        self.offer(epoch, bytes)?;
        if !id.is_empty() {
            if self.names.len() == NAMES {
                self.names.pop_front();
            }
            self.names.push_back(id);
        }
        Ok(false)
    }

    /// End the program's input after what is queued.
    pub(super) fn close(&mut self, epoch: u64) -> Result<(), Refusal> {
        self.admit(epoch)?;
        self.closing = true;
        Ok(())
    }

    fn admit(&mut self, epoch: u64) -> Result<(), Refusal> {
        if epoch != 0 && epoch < self.epoch {
            let text = format!("epoch {epoch} is over, {} has taken its place", self.epoch);
            return Err(Refusal { kind: RefusalKind::StaleEpoch, text });
        }
        self.epoch = self.epoch.max(epoch);
        if self.closing || self.closed {
            let text = "the program takes no more input".to_owned();
            return Err(Refusal { kind: RefusalKind::Closed, text });
        }
        Ok(())
    }

    /// Whether there is something to do as soon as the program's end can be written to.
    pub(super) fn waits(&self) -> bool {
        !self.closed && (self.closing || !self.queue.is_empty())
    }

    /// Write what the program takes now. Returns how much that was.
    pub(super) fn write(&mut self, end: impl AsFd) -> usize {
        let mut total = 0;
        while !self.queue.is_empty() {
            match rustix::io::write(&end, self.queue.as_slices().0) {
                Ok(written) => {
                    self.queue.drain(..written);
                    total += written;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return total,
                Err(_) => {
                    self.shut();
                    return total;
                }
            }
        }
        total
    }

    /// Whether the end is to be closed now: everything was written, or nobody reads any more.
    pub(super) fn is_over(&self) -> bool {
        self.closed || (self.closing && self.queue.is_empty())
    }

    /// Nobody reads any more.
    pub(super) fn shut(&mut self) {
        self.closed = true;
        self.queue.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(refused: Result<(), Refusal>) -> RefusalKind {
        refused.expect_err("refused").kind
    }

    #[test]
    fn input_of_a_lower_epoch_is_refused_and_a_person_may_always_type() {
        let mut input = Input::default();
        input.offer(5, b"a").expect("first");
        assert_eq!(kind(input.offer(4, b"b")), RefusalKind::StaleEpoch);
        input.offer(0, b"c").expect("a person");
        input.offer(5, b"d").expect("the same driver");
        input.offer(6, b"e").expect("its successor");
        assert_eq!(kind(input.close(5)), RefusalKind::StaleEpoch);
        assert_eq!(Vec::from(input.queue), b"acde");
    }

    #[test]
    fn what_has_a_name_is_taken_once_and_only_if_it_was_taken() {
        let mut input = Input::default();
        let once = |input: &mut Input, id: &str, bytes: &[u8]| input.offer_once(0, id.to_owned(), bytes);
        assert_eq!(kind(once(&mut input, "r1", &vec![0; QUEUE + 1]).map(drop)), RefusalKind::Full);
        assert_eq!([once(&mut input, "r1", b"a"), once(&mut input, "r1", b"a")], [Ok(false), Ok(true)]);
        assert_eq!([once(&mut input, "", b"b"), once(&mut input, "", b"b")], [Ok(false), Ok(false)]);
        for n in 0..2 * NAMES {
            assert_eq!(once(&mut input, &format!("n{n}"), b""), Ok(false));
        }
        assert_eq!(input.names.len(), NAMES);
        assert_eq!(Vec::from(input.queue), b"abb");
    }

    #[test]
    fn a_full_queue_takes_nothing_of_a_frame() {
        let mut input = Input::default();
        input.offer(0, &vec![0; QUEUE - 1]).expect("fits");
        assert_eq!(kind(input.offer(0, b"ab")), RefusalKind::Full);
        input.offer(0, b"a").expect("fits exactly");
    }

    #[test]
    fn answers_leave_room_for_whoever_types() {
        let mut input = Input::default();
        (0..QUEUE).for_each(|_| input.answer("\x1b[0n"));
        assert!(input.waits() && input.queue.len() <= ANSWERED);
        input.offer(0, &vec![0; QUEUE - ANSWERED]).expect("fits");
        input.close(0).expect("closes");
        let before = input.queue.len();
        input.queue.truncate(1);
        input.answer("\x1b[0n");
        assert_eq!(input.queue.len(), 1, "of {before} before");
    }

    #[test]
    fn after_the_end_of_input_nothing_more_is_taken() {
        let mut input = Input::default();
        input.offer(0, b"last").expect("taken");
        input.close(0).expect("closes");
        assert_eq!(kind(input.offer(0, b"late")), RefusalKind::Closed);
        assert!(input.waits() && !input.is_over(), "what is queued goes first");
    }
}
