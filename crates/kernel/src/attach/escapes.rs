//! Escape sequences in output: those that a replay must not repeat, and those that have to be undone.
//!
//! Promise: pure; any bytes come out as they went in, but for the sequences named here. At most [`LONGEST`]
//! bytes are held back.

use std::collections::BTreeSet;

/// Longest sequence that is looked at as one; a longer one passes as it is.
const LONGEST: usize = 4096;

/// Cuts output into sequences and everything else.
#[derive(Debug, Default)]
struct Cutter {
    held: Vec<u8>,
}

/// One piece of output.
enum Piece<'a> {
    /// One byte outside of any sequence.
    Plain(u8),
    /// A whole sequence, with its introducer and its end.
    Sequence(&'a [u8]),
}

impl Cutter {
    fn cut(&mut self, bytes: &[u8], mut each: impl FnMut(Piece<'_>)) {
        for byte in bytes {
            if self.held.is_empty() && *byte != 0x1b {
                each(Piece::Plain(*byte));
                continue;
            }
            self.held.push(*byte);
            if is_whole(&self.held) || self.held.len() >= LONGEST {
                each(Piece::Sequence(&self.held));
                self.held.clear();
            }
        }
    }

    fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

fn is_whole(sequence: &[u8]) -> bool {
    let last = sequence.last().copied().unwrap_or(0);
    match sequence {
        [0x1b] => false,
        [0x1b, b'['] => false,
        [0x1b, b'[', ..] => (0x40..=0x7e).contains(&last),
        // Operating system commands end with BEL or ST; so do the other strings, but for BEL.
        [0x1b, b']', ..] if last == 0x07 => true,
        [0x1b, b']' | b'P' | b'_' | b'^' | b'X', rest @ ..] => rest.ends_with(b"\x1b\\"),
        // Intermediates, as in a choice of character set, and then one final byte.
        [0x1b, .., _] => !(0x20..=0x2f).contains(&last),
        _ => true,
    }
}

/// Takes out of old output what would make a terminal answer, ring or change the clipboard: the answer to a
/// question that a program asked yesterday would be typed into it today.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    cutter: Cutter,
}

impl Quiet {
    pub(super) fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.cutter.cut(bytes, |piece| match piece {
            Piece::Plain(0x07 | 0x05) => {}
            Piece::Plain(byte) => out.push(byte),
            Piece::Sequence(sequence) if is_loud(sequence) => {}
            Piece::Sequence(sequence) => out.extend_from_slice(sequence),
        });
    }

    /// The replay is over: what was held back is the start of something live.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        out.extend(self.cutter.finish());
    }
}

fn is_loud(sequence: &[u8]) -> bool {
    match sequence {
        [0x1b, b'Z'] => true,
        [0x1b, b'[', middle @ .., last] => match last {
            // Attributes, terminal parameters, window operations and reports of them.
            b'c' | b'x' | b't' => true,
            // Status and cursor reports; with `>` it is a setting.
            b'n' => !middle.starts_with(b">"),
            // Modes, checksums, version, keyboard flags: the forms that ask.
            b'p' => middle.ends_with(b"$"),
            b'y' => middle.ends_with(b"*"),
            b'q' => middle.starts_with(b">"),
            b'u' => middle.starts_with(b"?"),
            _ => false,
        },
        // Questions about colours and titles, the clipboard, notifications.
        [0x1b, b']', rest @ ..] => {
            rest.windows(2).any(|pair| pair == b";?")
                || [b"52;".as_slice(), b"9;", b"777;", b"99;"].iter().any(|kind| rest.starts_with(kind))
        }
        // Questions about capabilities and settings, and the graphics protocol, which answers too.
        [0x1b, b'P', rest @ ..] => rest.starts_with(b"+q") || rest.starts_with(b"$q"),
        [0x1b, b'_', ..] => true,
        _ => false,
    }
}

/// Private modes that are on in a fresh terminal: wrapping and the cursor.
const ON_AT_FIRST: [u32; 2] = [7, 25];
/// Modes that matter to whoever uses the terminal next; others are harmless or local to a program.
const UNDONE: [u32; 18] =
    [1, 5, 6, 7, 25, 9, 47, 1047, 1049, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 2004, 2026];
/// Deepest stack of keyboard settings that is unwound; terminals keep no more.
const DEEPEST: u32 = 16;

/// What a program has done to the terminal and not undone.
#[derive(Debug, Default)]
pub(super) struct Modes {
    cutter: Cutter,
    changed: BTreeSet<u32>,
    keypad: bool,
    keyboard: u32,
    other_keys: bool,
    shape: bool,
}

impl Modes {
    pub(super) fn see(&mut self, bytes: &[u8]) {
        let mut cutter = std::mem::take(&mut self.cutter);
        cutter.cut(bytes, |piece| {
            if let Piece::Sequence(sequence) = piece {
                self.note(sequence);
            }
        });
        self.cutter = cutter;
    }

    fn note(&mut self, sequence: &[u8]) {
        match sequence {
            [0x1b, b'='] => self.keypad = true,
            [0x1b, b'>'] => self.keypad = false,
            // A full reset.
            [0x1b, b'c'] => *self = Modes::default(),
            [0x1b, b'[', b'?', modes @ .., on @ (b'h' | b'l')] => {
                let modes = std::str::from_utf8(modes).unwrap_or_default().split(';');
                for mode in modes.filter_map(|mode| mode.parse().ok()).filter(|mode| UNDONE.contains(mode)) {
                    if (*on == b'h') == ON_AT_FIRST.contains(&mode) {
                        self.changed.remove(&mode);
                    } else {
                        self.changed.insert(mode);
                    }
                }
            }
            [0x1b, b'[', b'>', b'4', b';', level, b'm'] => self.other_keys = *level != b'0',
            [0x1b, b'[', b'>', b'4', b'm'] => self.other_keys = false,
            [0x1b, b'[', shape @ .., b' ', b'q'] => self.shape = !matches!(shape, [] | [b'0']),
            [0x1b, b'[', b'>', .., b'u'] => self.keyboard = (self.keyboard + 1).min(DEEPEST),
            [0x1b, b'[', b'<', .., b'u'] => self.keyboard = self.keyboard.saturating_sub(1),
            _ => {}
        }
    }

    /// What puts the terminal back: nothing that was not changed is touched.
    pub(super) fn undo(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.keyboard > 0 {
            out.extend(format!("\x1b[<{}u", self.keyboard).bytes());
        }
        if self.other_keys {
            out.extend_from_slice(b"\x1b[>4;0m");
        }
        if self.shape {
            out.extend_from_slice(b"\x1b[0 q");
        }
        if self.keypad {
            out.extend_from_slice(b"\x1b>");
        }
        for mode in &self.changed {
            let back = if ON_AT_FIRST.contains(mode) { 'h' } else { 'l' };
            out.extend(format!("\x1b[?{mode}{back}").bytes());
        }
        // Colours, and what is a plain character set: cheap, and always what a shell expects.
        out.extend_from_slice(b"\x1b[0m\x1b(B");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet(pieces: &[&[u8]]) -> String {
        let mut quiet = Quiet::default();
        let mut out = Vec::new();
        pieces.iter().for_each(|piece| quiet.take(piece, &mut out));
        quiet.finish(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn a_replay_asks_the_terminal_nothing() {
        for question in [
            "\x1b[c",
            "\x1b[0c",
            "\x1b[>c",
            "\x1b[=c",
            "\x1b[6n",
            "\x1b[?6n",
            "\x1b[5n",
            "\x1b[?2026$p",
            "\x1b[>q",
            "\x1b[?u",
            "\x1b[18t",
            "\x1b]11;?\x07",
            "\x1b]10;?\x1b\\",
            "\x1b]52;c;aGk=\x07",
            "\x1bP+q544e\x1b\\",
            "\x1b_Gi=1\x1b\\",
            "\x1bZ",
            "\x07",
            "\x05",
        ] {
            assert_eq!(quiet(&[b"a", question.as_bytes(), b"b"]), "ab", "{question:?}");
            for cut in 1..question.len() {
                let (head, tail) = question.as_bytes().split_at(cut);
                assert_eq!(quiet(&[head, tail]), "", "{question:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn everything_else_of_a_replay_stays() {
        let kept = "\x1b[1;31mred\x1b[0m \x1b[2J\x1b[H\x1b[?25l\x1b]0;title\x07\x1b(B\x1b7\x1b8 é \x1b[>4;2m\x1b[5 q";
        assert_eq!(quiet(&[kept.as_bytes()]), kept);
        assert_eq!(quiet(&[b"end\x1b[3"]), "end\x1b[3", "what began before the live part is given to it");
        let endless = format!("\x1b]0;{}", "x".repeat(2 * LONGEST));
        assert_eq!(quiet(&[endless.as_bytes()]), endless);
    }

    fn undo(text: &str) -> String {
        let mut modes = Modes::default();
        text.as_bytes().chunks(3).for_each(|piece| modes.see(piece));
        String::from_utf8(modes.undo()).expect("ascii")
    }

    #[test]
    fn what_was_changed_is_put_back_and_nothing_else() {
        const ALWAYS: &str = "\x1b[0m\x1b(B";
        assert_eq!(undo("plain \x1b[31mred"), ALWAYS);
        assert_eq!(undo("\x1b[?1049h\x1b[?25l"), format!("\x1b[?25h\x1b[?1049l{ALWAYS}"));
        assert_eq!(undo("\x1b[?1049h\x1b[?25l\x1b[?1049l\x1b[?25h"), ALWAYS);
        assert_eq!(undo("\x1b[?1002;1006h\x1b[?2004h\x1b[?1006l"), format!("\x1b[?1002l\x1b[?2004l{ALWAYS}"));
        assert_eq!(undo("\x1b[>1u\x1b[>4;2m\x1b="), format!("\x1b[<1u\x1b[>4;0m\x1b>{ALWAYS}"));
        assert_eq!(undo("\x1b[>1u\x1b[<u\x1b[?1h\x1bc"), ALWAYS);
        assert_eq!(undo("\x1b[6 q"), format!("\x1b[0 q{ALWAYS}"));
        assert_eq!(undo("\x1b[6 q\x1b[0 q\x1b[4 q\x1b[ q"), ALWAYS);
    }
}
