//! The key that leaves, found among all others.

use std::str::FromStr;

/// What Ctrl-C sends.
pub(super) const INTERRUPT: u8 = 0x03;
/// Longest escape sequence that may encode the key: `ESC [ 92 ; 5 u`, with room.
const LONGEST: usize = 12;

/// Ctrl and another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DetachKey {
    /// The character that Ctrl is held with, lower case.
    letter: u8,
}

/// A key that cannot be used for leaving.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no detach key; write it like ctrl-\\ or ctrl-b")]
pub struct BadKey(String);

impl Default for DetachKey {
    /// Ctrl-\: no program uses it, and shells only to quit.
    fn default() -> DetachKey {
        DetachKey { letter: b'\\' }
    }
}

impl FromStr for DetachKey {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<DetachKey, BadKey> {
        let bad = || BadKey(text.chars().take(20).collect());
        let lower = text.to_ascii_lowercase();
        let rest =
            ["ctrl-", "c-", "^"].iter().find_map(|prefix| lower.strip_prefix(prefix)).ok_or_else(bad)?;
        match rest.as_bytes() {
            // Without enter, tab, escape and backspace, which those letters are as well.
            [letter @ (b'a'..=b'z' | b'\\' | b']' | b'^' | b'_')] if !b"mijh".contains(letter) => {
                Ok(DetachKey { letter: *letter })
            }
            _ => Err(bad()),
        }
    }
}

impl std::fmt::Display for DetachKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ctrl-{}", char::from(self.letter))
    }
}

impl DetachKey {
    /// As a terminal sends it by itself.
    fn byte(self) -> u8 {
        self.letter.to_ascii_uppercase() & 0x1f
    }

    /// Whether a whole escape sequence is this key in the encodings that programs ask terminals for.
    fn is_sequence(self, sequence: &[u8]) -> bool {
        let letter = u32::from(self.letter);
        let ctrl =
            [format!("\x1b[{letter};5u"), format!("\x1b[{letter};5:1u"), format!("\x1b[27;5;{letter}~")];
        ctrl.iter().any(|known| known.as_bytes() == sequence)
    }
}

/// The keys of one attachment; an escape sequence may come in two pieces.
#[derive(Debug)]
pub(super) struct Keys {
    detach: DetachKey,
    held: Vec<u8>,
}

impl Keys {
    pub(super) fn new(detach: DetachKey) -> Keys {
        Keys { detach, held: Vec::new() }
    }

    /// What to forward, and whether the key was among it; what follows the key goes nowhere.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (Vec<u8>, bool) {
        let mut forward = std::mem::take(&mut self.held);
        let mut start = sequence_start(&forward);
        for byte in bytes {
            if *byte == self.detach.byte() {
                return (forward, true);
            }
            if *byte == 0x1b {
                start = Some(forward.len());
            }
            forward.push(*byte);
            let Some(begin) = start else { continue };
            if self.detach.is_sequence(&forward[begin..]) {
                forward.truncate(begin);
                return (forward, true);
            }
            let sequence = &forward[begin..];
            let ended = sequence.len() > 2 && (0x40..=0x7e).contains(byte);
            if ended || sequence.len() >= LONGEST || (sequence.len() == 2 && *byte != b'[') {
                start = None;
            }
        }
        // Only what has begun as `ESC [` is held back; a lone escape key is forwarded at once.
        if let Some(begin) = start
            && forward.len() - begin >= 2
        {
            self.held = forward.split_off(begin);
        }
        (forward, false)
    }
}

fn sequence_start(held: &[u8]) -> Option<usize> {
    (!held.is_empty()).then_some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(key: &str, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
        let mut keys = Keys::new(key.parse().expect("a key"));
        let mut all = Vec::new();
        for piece in pieces {
            let (forward, detach) = keys.take(piece);
            all.extend(forward);
            if detach {
                return (all, true);
            }
        }
        (all, false)
    }

    #[test]
    fn the_key_leaves_in_every_encoding_and_all_else_is_forwarded() {
        assert_eq!(take("ctrl-\\", &[b"ab\x1cmore"]), (b"ab".to_vec(), true));
        assert_eq!(take("ctrl-\\", &[b"ab\x1b[92;5umore"]), (b"ab".to_vec(), true));
        assert_eq!(take("ctrl-\\", &[b"ab\x1b[9", b"2;5u"]), (b"ab".to_vec(), true));
        assert_eq!(take("C-b", &[b"\x02"]), (vec![], true));
        assert_eq!(take("^]", &[b"\x1b[27;5;93~"]), (vec![], true));
        let other = b"\x1b[A\x1b[92;6u\x1bOP\x1b[200~pasted \x1b[201~ \xc3\xa9";
        assert_eq!(take("ctrl-\\", &[other]), (other.to_vec(), false));
    }

    #[test]
    fn an_escape_key_is_not_held_back_and_a_split_arrow_is_whole_in_the_end() {
        assert_eq!(take("ctrl-\\", &[b"\x1b"]), (b"\x1b".to_vec(), false));
        assert_eq!(take("ctrl-\\", &[b"x\x1b[", b"A"]), (b"x\x1b[A".to_vec(), false));
        let long = [b"\x1b[".as_slice(), &[b'1'; 40]].concat();
        assert_eq!(take("ctrl-\\", &[&long]), (long.clone(), false), "not held for ever");
    }

    #[test]
    fn keys_that_people_need_are_no_detach_keys() {
        for bad in ["x", "ctrl-", "ctrl-m", "ctrl-i", "ctrl-h", "ctrl-j", "ctrl-é", "ctrl-ab", "\\"] {
            assert!(bad.parse::<DetachKey>().is_err(), "{bad}");
        }
        assert_eq!(DetachKey::default().to_string(), "ctrl-\\");
        assert_eq!("ctrl-\\".parse(), Ok(DetachKey::default()));
    }
}
