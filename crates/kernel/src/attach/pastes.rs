//! Pastes, found among the keys: each is typed whole or not at all.
//!
//! Promise: pure and bounded. A paste that the terminal has put in brackets comes out once it has ended, as one piece with
//! its brackets; of one longer than [`LONGEST`] nothing does. Everything else passes at once.
//!
//! One that does not end is given up when nothing of it has come for a while ([`UNENDED`]), and the keys behind it are keys
//! again.
//!
//! Left to others: that time, whether the worker has room for it (`worker::input`, which takes a piece whole or not at all), and what
//! the person is told.

use std::time::Duration;

use crate::frame::MAX_PAYLOAD;

/// How long more of a paste may fail to come until it is given up: longer than a line stands still that lives, as what
/// came after it would be typed as keys.
const UNENDED: Duration = Duration::from_secs(10);
/// How long one look for more of it is, and counts at most: while this terminal takes nothing of what is printed, or the
/// machine sleeps, nothing can come.
const LOOK: Duration = Duration::from_secs(1);

/// Longest paste, with its brackets: what goes into one frame beside its epoch, and into a worker's queue.
const LONGEST: usize = MAX_PAYLOAD - size_of::<u64>();
/// What a terminal puts before what is pasted …
const OPEN: &[u8] = b"\x1b[200~";
/// … and behind it.
const CLOSE: &[u8] = b"\x1b[201~";

/// One piece of what was typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// To be typed whole.
    Keys(Vec<u8>),
    /// A paste that was too long; nothing of it is left.
    TooLong,
}

/// Where the keys stand to the brackets.
#[derive(Debug, Default)]
pub(super) struct Brackets {
    within: bool,
    /// How much of the next one has come.
    matched: usize,
}

impl Brackets {
    /// Whether a bracket ends with this byte.
    pub(super) fn end_with(&mut self, byte: u8) -> bool {
        let next = if self.within { CLOSE } else { OPEN };
        self.matched = match byte == next[self.matched] {
            true => self.matched + 1,
            false => usize::from(byte == 0x1b),
        };
        let ended = self.matched == next.len();
        if ended {
            *self = Brackets { within: !self.within, matched: 0 };
        }
        ended
    }

    /// Whether a paste has begun and not ended.
    pub(super) fn is_within(&self) -> bool {
        self.within
    }
}

/// Finds pastes, from one read of keys to the next.
#[derive(Debug, Default)]
pub(super) struct Pastes {
    /// Of the paste that has begun and not ended.
    held: Option<Vec<u8>>,
    brackets: Brackets,
}

impl Pastes {
    /// What these keys come to.
    pub(super) fn take(&mut self, keys: &[u8]) -> Vec<Piece> {
        let (mut pieces, mut typed) = (Vec::new(), Vec::new());
        for byte in keys {
            let held = self.held.as_mut().unwrap_or(&mut typed);
            // One byte too many is what tells.
            if held.len() <= LONGEST {
                held.push(*byte);
            }
            if !self.brackets.end_with(*byte) {
                continue;
            }
            match self.held.take() {
                Some(paste) if paste.len() > LONGEST => pieces.push(Piece::TooLong),
                Some(paste) => pieces.push(Piece::Keys(paste)),
                None => {
                    // An escape that came alone has been typed already.
                    self.held = Some(typed.split_off(typed.len().saturating_sub(OPEN.len())));
                    give(&mut typed, &mut pieces);
                }
            }
        }
        give(&mut typed, &mut pieces);
        pieces
    }

    /// Whether a paste has begun and not ended.
    pub(super) fn is_open(&self) -> bool {
        self.held.is_some()
    }

    /// Forgets a paste that does not end, with all that has come of it; false where there is none.
    pub(super) fn give_up(&mut self) -> bool {
        self.brackets = Brackets::default();
        self.held.take().is_some()
    }
}

/// How long nothing has come of a paste, as far as somebody looked.
#[derive(Debug, Default)]
pub(super) struct Silence {
    lasted: Duration,
    /// When the last look was over, on the boot clock.
    looked: Duration,
}

impl Silence {
    /// More has come.
    pub(super) fn end(&mut self) {
        self.lasted = Duration::ZERO;
    }

    /// A look is over by which nothing may have come.
    pub(super) fn look(&mut self, now: Duration) {
        self.lasted += now.saturating_sub(self.looked).min(LOOK);
        self.looked = now;
    }

    /// How long the next look is; none where the end of the paste is waited for no more.
    pub(super) fn next(&self) -> Option<Duration> {
        let left = UNENDED.saturating_sub(self.lasted);
        (!left.is_zero()).then_some(left.min(LOOK))
    }
}

fn give(typed: &mut Vec<u8>, pieces: &mut Vec<Piece>) {
    if !typed.is_empty() {
        pieces.push(Piece::Keys(std::mem::take(typed)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each piece in braces; a paste that is open at the end is `|`.
    fn pieces(reads: &[&str]) -> String {
        let mut pastes = Pastes::default();
        let mut out = String::new();
        for piece in reads.iter().flat_map(|read| pastes.take(read.as_bytes())) {
            let Piece::Keys(keys) = piece else { panic!("too long") };
            out.push_str(&format!("{{{}}}", String::from_utf8(keys).expect("text")));
        }
        if pastes.is_open() { out + "|" } else { out }
    }

    #[test]
    fn a_paste_is_one_piece_and_everything_else_passes_at_once() {
        for (keys, whole) in [
            ("plain \x1b[A", "{plain \x1b[A}"),
            ("a\x1b[200~one\rtwo\x1b[201~b", "{a}{\x1b[200~one\rtwo\x1b[201~}{b}"),
            ("\x1b[200~1\x1b[201~\x1b[200~2\x1b[201~", "{\x1b[200~1\x1b[201~}{\x1b[200~2\x1b[201~}"),
            ("\x1b[200~\x1b[200~\x1b[20\x1b[201~", "{\x1b[200~\x1b[200~\x1b[20\x1b[201~}"),
            ("\x1b\x1b[200~x\x1b\x1b[201~", "{\x1b}{\x1b[200~x\x1b\x1b[201~}"),
            ("\x1b[201~\x1b[20~\x1b[200A", "{\x1b[201~\x1b[20~\x1b[200A}"),
            ("a\x1b[200~never", "{a}|"),
        ] {
            assert_eq!(pieces(&[keys]), whole, "{keys:?}");
        }
        // However a long line cuts it.
        let (open, paste) = ("\x1b[200~", "one\rtwo\x1b[201~");
        for cut in 0..paste.len() {
            let (head, tail) = paste.split_at(cut);
            assert_eq!(pieces(&["a", open, head, tail, "b"]), format!("{{a}}{{{open}{paste}}}{{b}}"));
        }
        // An escape key is not waited for, so that it may be the bracket's.
        assert_eq!(pieces(&["\x1b", "[200~one", "\x1b", "[201~b"]), "{\x1b}{[200~one\x1b[201~}{b}");
    }

    #[test]
    fn of_a_paste_that_is_given_up_nothing_is_left_and_what_comes_next_are_keys() {
        let mut pastes = Pastes::default();
        assert_eq!(pastes.take(b"\x1b[200~half\x1b[20"), []);
        assert!(pastes.give_up() && !pastes.is_open());
        assert_eq!(pastes.take(b"1~b"), [Piece::Keys(b"1~b".to_vec())]);
        assert!(!pastes.give_up());
        let next = b"\x1b[200~whole\x1b[201~";
        assert_eq!(pastes.take(next), [Piece::Keys(next.to_vec())]);
    }

    #[test]
    fn t9_what_nobody_could_see_come_is_no_silence_of_a_paste() {
        let mut silence = Silence::default();
        // Printing to a terminal that takes nothing, or asleep, four times.
        for hours in 1..=4 {
            silence.look(Duration::from_secs(hours * 3600));
        }
        silence.look(Duration::from_secs(4 * 3600) + LOOK / 2);
        assert_eq!(silence.next(), Some(LOOK));
        for second in 1..=5 {
            assert!(silence.next().is_some(), "{second}");
            silence.look(Duration::from_secs(4 * 3600 + second) + LOOK / 2);
        }
        assert_eq!(silence.next(), Some(LOOK / 2));
        silence.look(Duration::from_secs(4 * 3600 + 6));
        assert_eq!(silence.next(), None);
        silence.end();
        assert_eq!(silence.next(), Some(LOOK));
    }

    #[test]
    fn of_a_paste_that_is_too_long_nothing_is_left_and_little_is_held() {
        let longest = LONGEST - OPEN.len() - CLOSE.len();
        for (length, fits) in [(longest, true), (longest + 1, false), (3 * LONGEST, false)] {
            let paste = format!("\x1b[200~{}\x1b[201~", "x".repeat(length));
            let mut pastes = Pastes::default();
            let mut pieces = Vec::new();
            for read in paste.as_bytes().chunks(4096) {
                pieces.extend(pastes.take(read));
                assert!(pastes.held.as_ref().is_none_or(|held| held.len() <= LONGEST + 1));
            }
            let whole = if fits { Piece::Keys(paste.into_bytes()) } else { Piece::TooLong };
            assert!(pieces == [whole], "{length}");
            assert_eq!(pastes.take(b"on"), [Piece::Keys(b"on".to_vec())]);
        }
    }
}
