//! Output cut into escape sequences and everything else: for a replay, for what has to be undone, for a log that is read as text.
//!
//! Promise: pure; a sequence ends where a terminal takes it to end. Every byte that went in comes out once, in its order,
//! but that what a terminal does in the middle of a sequence (a newline) comes before it. At most [`LONGEST`] bytes are held back.

/// Longest sequence that is looked at as one; of a longer one the rest comes in parts.
pub const LONGEST: usize = 4096;

/// Where the output stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum At {
    #[default]
    Text,
    /// Behind an escape.
    Escape,
    /// Behind an escape and something that more must follow, as in a choice of character set.
    Intermediate,
    /// In a control sequence.
    Control,
    /// In a string, which ends with an escape and a backslash; one of the system's with a bell too.
    String { bell: bool },
    /// Behind an escape in a string.
    Ending,
}

/// Cuts output, from one piece to the next.
#[derive(Debug, Default)]
pub struct Cutter {
    held: Vec<u8>,
    at: At,
    /// Whether the beginning of what is held was given away.
    long: bool,
}

/// One piece of output.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// One byte outside of any sequence.
    Plain(u8),
    /// A whole sequence, with its introducer and its end, or what there is of one that was cancelled.
    Sequence(&'a [u8]),
    /// The beginning of one that is too long.
    Begun(&'a [u8]),
    /// More of it.
    More(&'a [u8]),
}

impl Cutter {
    /// Cut the next bytes of the output.
    pub fn cut(&mut self, bytes: &[u8], mut each: impl FnMut(Piece<'_>)) {
        for byte in bytes {
            if self.at == At::Text && *byte != 0x1b {
                each(Piece::Plain(*byte));
            } else {
                self.step(*byte, &mut each);
            }
        }
    }

    fn step(&mut self, byte: u8, each: &mut impl FnMut(Piece<'_>)) {
        if self.at == At::Ending && byte != b'\\' {
            // The escape has ended the string and begins what comes now.
            self.held.pop();
            self.end(each);
            (self.held, self.at) = (vec![0x1b], At::Escape);
        }
        let next = match (self.at, byte) {
            (At::Text, _) => At::Escape,
            (At::String { .. }, 0x1b) => At::Ending,
            (_, 0x1b) => {
                self.end(each);
                At::Escape
            }
            // Cancelled.
            (_, 0x18 | 0x1a) => At::Text,
            (At::Ending, _) | (At::String { bell: true }, 0x07) => At::Text,
            (at @ At::String { .. }, _) => at,
            (_, 0x00..=0x1f) => return each(Piece::Plain(byte)),
            (At::Escape, b'[') => At::Control,
            (At::Escape, b']') => At::String { bell: true },
            (At::Escape, b'P' | b'_' | b'^' | b'X') => At::String { bell: false },
            (At::Escape | At::Intermediate, b' '..=b'/') => At::Intermediate,
            (At::Escape | At::Intermediate, _) | (At::Control, 0x40..=0x7e) => At::Text,
            (At::Control, _) => At::Control,
        };
        self.at = next;
        self.held.push(byte);
        match next {
            At::Text => self.end(each),
            // Its escape may be the next one's.
            At::Ending => {}
            _ if self.held.len() >= LONGEST => self.give(false, each),
            _ => {}
        }
    }

    fn end(&mut self, each: &mut impl FnMut(Piece<'_>)) {
        self.give(true, each);
        self.at = At::Text;
    }

    fn give(&mut self, whole: bool, each: &mut impl FnMut(Piece<'_>)) {
        match (self.long, whole) {
            (true, _) => each(Piece::More(&self.held)),
            (false, true) => each(Piece::Sequence(&self.held)),
            (false, false) => each(Piece::Begun(&self.held)),
        }
        self.held.clear();
        self.long = !whole;
    }

    /// Whether it stands in a sequence whose beginning was given away.
    pub fn is_long(&self) -> bool {
        self.long
    }

    /// What is held back. From here on the output begins anew.
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(self).held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each piece in brackets, but for plain bytes.
    fn cut(text: &str, step: usize) -> String {
        let mut cutter = Cutter::default();
        let mut out = Vec::new();
        text.as_bytes().chunks(step).for_each(|bytes| {
            cutter.cut(bytes, |piece| match piece {
                Piece::Plain(byte) => out.push(byte),
                Piece::Sequence(bytes) | Piece::Begun(bytes) | Piece::More(bytes) => {
                    out.extend([b"{", bytes, b"}"].concat());
                }
            });
        });
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_sequence_ends_where_a_terminal_takes_it_to_end() {
        for (said, pieces) in [
            ("a\x1b[1;31mred\x1b(Bb", "a{\x1b[1;31m}red{\x1b(B}b"),
            ("\x1b]0;ti[tle\x07a\x1b]0;title\x1b\\b", "{\x1b]0;ti[tle\x07}a{\x1b]0;title\x1b\\}b"),
            ("\x1bPq#\x07$\x1b\\b", "{\x1bPq#\x07$\x1b\\}b"),
            ("\x1b[3\x1b[1mb", "{\x1b[3}{\x1b[1m}b"),
            ("\x1b]0;title\x1b[1mb", "{\x1b]0;title}{\x1b[1m}b"),
            ("\x1b[3\x18mb\x1b]0;\x1ab", "{\x1b[3\x18}mb{\x1b]0;\x1a}b"),
            ("\x1b[3\n1mb", "\n{\x1b[31m}b"),
            ("\x1b\x1b7日", "{\x1b}{\x1b7}日"),
        ] {
            for step in [1, 2, 100] {
                assert_eq!(cut(said, step), pieces, "{said:?} by {step}");
            }
        }
    }

    #[test]
    fn a_string_of_any_length_is_one_and_little_of_it_is_held() {
        let mut cutter = Cutter::default();
        let (mut plain, mut parts) = (0, Vec::new());
        cutter.cut(&[b"\x1b]52;c;", &[b'x'; 3 * LONGEST][..], b"\x07y"].concat(), |piece| match piece {
            Piece::Plain(_) => plain += 1,
            Piece::Begun(part) => parts.push(("begun", part.len())),
            Piece::More(part) => parts.push(("more", part.len())),
            Piece::Sequence(part) => parts.push(("whole", part.len())),
        });
        assert_eq!(plain, 1);
        assert_eq!(parts, [("begun", LONGEST), ("more", LONGEST), ("more", LONGEST), ("more", 8)]);
        cutter.cut(b"\x1b[1m", |piece| assert_eq!(piece, Piece::Sequence(b"\x1b[1m")));
    }
}
