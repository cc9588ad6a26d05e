//! Short control sequences in output, and what the screen's model does not know of them and is told in other words.
//!
//! Promise: whatever the pieces of output, a [`Cutter`] gives every byte on, in order and once; at most [`LONGEST`] of them
//! wait, those of a sequence that has begun.
//!
//! Left to others: these words (`screen`), and what is asked (`questions`).

/// Longest sequence that anything is done of; a longer one passes in pieces.
const LONGEST: usize = 12;

/// Cuts output into such sequences and everything else.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    held: Vec<u8>,
}

impl Cutter {
    /// Gives `each` all of it, what `of` knows in pieces of its own.
    pub(super) fn cut<T>(
        &mut self,
        bytes: &[u8],
        of: impl Fn(&[u8]) -> Option<T>,
        mut each: impl FnMut(&[u8], Option<T>),
    ) {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            if byte == 0x1b || self.held.is_empty() {
                // An escape begins anew in the middle of a sequence as well.
                let before = self.finish();
                if !before.is_empty() {
                    each(&before, None);
                }
                let plain = rest.iter().position(|byte| *byte == 0x1b).unwrap_or(rest.len());
                if plain > 0 {
                    each(&rest[..plain], None);
                    rest = &rest[plain..];
                    continue;
                }
            }
            self.held.push(byte);
            rest = &rest[1..];
            if !has_only_begun(&self.held) {
                let sequence = self.finish();
                each(&sequence, of(&sequence));
            }
        }
    }

    /// What has begun and is not to be waited for any more.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

fn has_only_begun(sequence: &[u8]) -> bool {
    match sequence {
        [_] | [_, b'['] => true,
        [_, b'[', .., last] => matches!(last, b'0'..=b'?') && sequence.len() < LONGEST,
        _ => false,
    }
}

/// What the screen's model does not know by that sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit {
    /// A full reset: the model does it, but what it only tells of it has forgotten.
    Reset,
    Index,
    NextLine,
    SaveCursor,
    RestoreCursor,
    /// To the next stops of the tabulator.
    Tabs(usize),
    /// To those before.
    BackTabs(usize),
    OtherScreen,
    /// Back from it, and it is cleared.
    MainScreen,
}

impl Edit {
    pub(super) fn of(sequence: &[u8]) -> Option<Edit> {
        Some(match sequence.strip_prefix(b"\x1b")? {
            b"c" => Edit::Reset,
            b"D" => Edit::Index,
            b"E" => Edit::NextLine,
            b"[s" | b"[?1048h" => Edit::SaveCursor,
            b"[u" | b"[?1048l" => Edit::RestoreCursor,
            b"[?1047h" => Edit::OtherScreen,
            b"[?1047l" => Edit::MainScreen,
            [b'[', digits @ .., b'I'] => Edit::Tabs(count(digits)?),
            [b'[', digits @ .., b'Z'] => Edit::BackTabs(count(digits)?),
            _ => return None,
        })
    }
}

/// A count; none and 0 are one.
fn count(digits: &[u8]) -> Option<usize> {
    match std::str::from_utf8(digits).ok()? {
        "" => Some(1),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(digits.parse().unwrap_or(usize::MAX).max(1))
        }
        _ => None,
    }
}
