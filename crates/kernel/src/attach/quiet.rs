//! Old output without the sequences that a replay must not repeat.
//!
//! Promise: pure; any bytes come out as a [`Cutter`] gives them, but for the sequences named here.

use crate::escapes::{Cutter, Piece, asks};

/// Takes out of old output what would make a terminal answer, ring or change the clipboard: the answer to a
/// question that a program asked yesterday would be typed into it today.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    cutter: Cutter,
    /// Whether a long sequence is left out, to its end.
    leaves_out: bool,
}

impl Quiet {
    pub(super) fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let leaves_out = &mut self.leaves_out;
        self.cutter.cut(bytes, |piece| match piece {
            Piece::Plain(0x07 | 0x05) => {}
            Piece::Plain(byte) => out.push(byte),
            Piece::Sequence(sequence) if is_loud(sequence) => {}
            Piece::Sequence(sequence) => out.extend_from_slice(sequence),
            Piece::Begun(sequence) => {
                *leaves_out = is_loud(sequence);
                if !*leaves_out {
                    out.extend_from_slice(sequence);
                }
            }
            Piece::More(_) if *leaves_out => {}
            Piece::More(more) => out.extend_from_slice(more),
        });
    }

    /// The replay is over: what was held back is the start of something live.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if self.cutter.is_long() && self.leaves_out {
            // The rest of what was left out is no text: the string of a command that no terminal knows.
            out.extend_from_slice(b"\x1b]");
        }
        let held = self.cutter.finish();
        out.extend(held);
    }
}

fn is_loud(sequence: &[u8]) -> bool {
    let rings = match sequence {
        // What is done to the window.
        [0x1b, b'[', .., b't'] => true,
        // The clipboard, notifications.
        [0x1b, b']', rest @ ..] => {
            [b"52;".as_slice(), b"9;", b"777;", b"99;"].iter().any(|kind| rest.starts_with(kind))
        }
        // The graphics protocol, which answers too.
        [0x1b, b'_', ..] => true,
        _ => false,
    };
    rings || asks(sequence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escapes::LONGEST;

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
            "\u{9b}c",
            "\u{9d}52;c;aGk=\u{9c}",
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

    #[test]
    fn a_string_of_any_length_keeps_its_end_or_is_left_out_whole() {
        let long = "x".repeat(2 * LONGEST);
        let kept = format!("a\x1b]0;{long}\x07b\x1bPq{long}\x07\x1b\\c");
        assert_eq!(quiet(&[kept.as_bytes(), b"\x07"]), kept);
        let loud = format!("a\x1b]52;c;{long}\x07b\x1b_G{long}\x1b\\c");
        assert_eq!(quiet(&[loud.as_bytes()]), "abc");
        // The live part brings its end.
        assert_eq!(quiet(&[format!("a\x1b]52;c;{long}").as_bytes()]), format!("a\x1b]{}", "x".repeat(7)));
    }
}
