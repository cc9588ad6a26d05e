//! The key that leaves, found among all others; in a paste it is text like any other.

use std::str::FromStr;

use super::pastes::Brackets;

/// Longest escape sequence that may encode the key, `ESC [ 1080:1048:98 ; 133:1 ; 1080 u`, with room.
const LONGEST: usize = 48;
/// Bits of the modifiers that a sequence tells, of which it sends one more.
const CTRL: u32 = 4;
/// Caps lock and num lock: held by nobody.
const LOCKS: u32 = 64 | 128;

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
    /// Ctrl-\: of what programs use it for, to quit at once is the most, and few need it (vim's CTRL-\ CTRL-N).
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
    /// Ctrl-C, which leaves where nothing is typed.
    pub(super) const INTERRUPT: DetachKey = DetachKey { letter: b'c' };

    /// As a terminal sends it by itself.
    fn byte(self) -> u8 {
        self.letter.to_ascii_uppercase() & 0x1f
    }

    /// Whether a whole escape sequence is this key in the encodings that programs ask terminals for.
    fn is_sequence(self, sequence: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(sequence) else { return false };
        let Some(body) = text.strip_prefix("\x1b[") else { return false };
        let is_letter = |field: Option<&str>| field.and_then(number) == Some(u32::from(self.letter));
        if let Some(body) = body.strip_suffix('u') {
            let mut fields = body.split(';');
            // The key itself and the one that is there on a keyboard of Latin letters; between them the shifted one.
            let mut key = fields.next().unwrap_or_default().split(':');
            let is_key = is_letter(key.next()) || is_letter(key.nth(1));
            return is_key && is_ctrl(fields.next().unwrap_or_default());
        }
        let Some(body) = body.strip_prefix("27;").and_then(|body| body.strip_suffix('~')) else {
            return false;
        };
        body.split_once(';').is_some_and(|(modifiers, key)| is_ctrl(modifiers) && is_letter(Some(key)))
    }
}

/// Whether of the modifiers Ctrl alone is held; a key that is let go is none.
fn is_ctrl(modifiers: &str) -> bool {
    let (modifiers, event) = modifiers.split_once(':').unwrap_or((modifiers, "1"));
    let held = number(modifiers).and_then(|sent| sent.checked_sub(1)).map(|held| held & !LOCKS);
    held == Some(CTRL) && matches!(event, "" | "1" | "2")
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}

/// The keys of one attachment; an escape sequence may come in two pieces.
#[derive(Debug)]
pub(super) struct Keys {
    /// Those that leave.
    leave: Vec<DetachKey>,
    held: Vec<u8>,
    brackets: Brackets,
}

impl Keys {
    pub(super) fn new(leave: Vec<DetachKey>) -> Keys {
        Keys { leave, held: Vec::new(), brackets: Brackets::default() }
    }

    /// Whether a paste has begun and not ended.
    pub(super) fn in_paste(&self) -> bool {
        self.brackets.is_within()
    }

    /// Whether somebody presses a key that leaves, and nothing else has come.
    pub(super) fn are_leaving(&self, bytes: &[u8]) -> bool {
        let is_key = |byte: &u8| self.leave.iter().any(|key| *byte == key.byte());
        let is_sequence = |sequence: &[u8]| self.leave.iter().any(|key| key.is_sequence(sequence));
        bytes.iter().all(is_key) || bytes.split_inclusive(|byte| b"u~".contains(byte)).all(is_sequence)
    }

    /// The paste does not end: what comes now are keys.
    pub(super) fn give_up_paste(&mut self) {
        self.brackets = Brackets::default();
        self.held.clear();
    }

    /// What to forward, and whether a key that leaves was among it; what follows that goes nowhere.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (Vec<u8>, bool) {
        let mut forward = std::mem::take(&mut self.held);
        let mut start = sequence_start(&forward);
        for byte in bytes {
            let in_paste = self.in_paste();
            if !in_paste && self.leave.iter().any(|key| *byte == key.byte()) {
                return (forward, true);
            }
            self.brackets.end_with(*byte);
            if *byte == 0x1b {
                start = Some(forward.len());
            }
            forward.push(*byte);
            let Some(begin) = start else { continue };
            if !in_paste && self.leave.iter().any(|key| key.is_sequence(&forward[begin..])) {
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
        let mut keys = Keys::new(vec![key.parse().expect("a key")]);
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
    fn a_key_that_leaves_is_text_in_a_paste_and_a_key_again_behind_it() {
        let paste = b"\x1b[200~a\x1cb\x1b[92;5uc\x1b[201~";
        let left = || (paste.to_vec(), true);
        assert_eq!(take("ctrl-\\", &[paste, b"\x1c"]), left());
        for cut in 1..paste.len() {
            let (head, tail) = paste.split_at(cut);
            assert_eq!(take("ctrl-\\", &[head, tail, b"\x1c"]), left(), "cut at {cut}");
        }
        // One whose end is lost.
        let mut keys = Keys::new(vec![DetachKey::default()]);
        assert_eq!(keys.take(b"\x1b[200~a\x1c\x1b[20"), (b"\x1b[200~a\x1c".to_vec(), false));
        assert!(keys.in_paste());
        keys.give_up_paste();
        assert_eq!(keys.take(b"b\x1c"), (b"b".to_vec(), true));
    }

    #[test]
    fn a_key_that_leaves_is_told_from_text_that_has_it() {
        let keys = Keys::new(vec![DetachKey::default(), DetachKey::INTERRUPT]);
        for leaving in ["\x1c", "\x1c\x1c\x03", "\x1b[92;5u", "\x1b[92;5u\x1b[27;5;99~"] {
            assert!(keys.are_leaving(leaving.as_bytes()), "{leaving:?}");
        }
        for text in ["a", "\x1ca", "a\x1c", "\x1b[92;5ua", "\x1b[201~", "\x1b[92;5u\x1b[201~"] {
            assert!(!keys.are_leaving(text.as_bytes()), "{text:?}");
        }
    }

    #[test]
    fn the_key_is_known_by_its_place_on_the_keyboard_and_whatever_lock_is_on() {
        for key in [
            "\x1b[98;5u",
            "\x1b[98;5:1u",
            "\x1b[98;5:2u",
            "\x1b[98:66;5u",
            "\x1b[98;133u",
            "\x1b[98;197:1;98u",
            "\x1b[1080::98;5u",
            "\x1b[1080:1048:98;133:2u",
            "\x1b[27;5;98~",
            "\x1b[27;69;98~",
        ] {
            assert_eq!(take("ctrl-b", &[b"a", key.as_bytes(), b"b"]), (b"a".to_vec(), true), "{key:?}");
            for cut in 2..key.len() {
                let (head, tail) = key.as_bytes().split_at(cut);
                assert_eq!(take("ctrl-b", &[head, tail]), (vec![], true), "{key:?} cut at {cut}");
            }
        }
        for other in [
            "\x1b[98;5:3u",
            "\x1b[98u",
            "\x1b[98;1u",
            "\x1b[98;0u",
            "\x1b[98;6u",
            "\x1b[98;7u",
            "\x1b[66:98;5u",
            "\x1b[1080;5u",
            "\x1b[98;5~",
            "\x1b[27;5;98u",
            "\x1b[<98;5;1M",
        ] {
            assert_eq!(take("ctrl-b", &[other.as_bytes()]), (other.as_bytes().to_vec(), false), "{other:?}");
        }
    }

    #[test]
    fn an_escape_key_is_not_held_back_and_a_split_arrow_is_whole_in_the_end() {
        assert_eq!(take("ctrl-\\", &[b"\x1b"]), (b"\x1b".to_vec(), false));
        assert_eq!(take("ctrl-\\", &[b"x\x1b[", b"A"]), (b"x\x1b[A".to_vec(), false));
        let long = [b"\x1b[".as_slice(), &[b'1'; 2 * LONGEST]].concat();
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
