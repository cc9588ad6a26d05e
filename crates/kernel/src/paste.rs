//! How a prompt is typed: what is let through, and what is put around it.
//!
//! Promise: whatever a text holds, a program sees it as text. Control characters go, so that nothing in it ends a bracketed
//! paste, presses a key or drives the terminal; where the program has not asked for bracketed paste, its lines are typed one
//! after the other.

use crate::output_log::{Chunk, LogError, LogReader};

/// Opens a paste …
const OPEN: &str = "\u{1b}[200~";
/// … and closes it.
const CLOSE: &str = "\u{1b}[201~";
/// The mode in which a program asks for that.
const MODE: &[u8] = b"2004";
/// Bytes read at once.
const PIECE: usize = 64 * 1024;
/// Longest sequence of modes that is taken for one.
const LONGEST: usize = 64;

/// A text without what is no text: controls other than the ends of lines and tabs.
fn plain(text: &str) -> String {
    let unix = text.replace("\r\n", "\n").replace('\r', "\n");
    unix.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect()
}

/// The keys of a prompt for a terminal.
pub(crate) fn typed(text: &str, bracketed: bool) -> String {
    // What Enter sends.
    let keys = plain(text).trim_end_matches('\n').replace('\n', "\r");
    if bracketed { format!("{OPEN}{keys}{CLOSE}\r") } else { format!("{keys}\r") }
}

/// The bytes of a prompt for a pipe.
pub(crate) fn piped(text: &str) -> String {
    format!("{}\n", plain(text).trim_end_matches('\n'))
}

/// Whether the program asked for bracketed paste last, as far as its output is still kept.
pub(crate) fn is_bracketed(log: &LogReader) -> Result<bool, LogError> {
    let mut at = log.span()?.base;
    let mut modes = Modes::default();
    loop {
        match log.read_from(at, PIECE)? {
            Chunk::Bytes { offset, bytes } => {
                at = offset + bytes.len() as u64;
                bytes.iter().for_each(|byte| modes.take(*byte));
            }
            Chunk::Gap { to, .. } => at = to,
            Chunk::End => return Ok(modes.bracketed),
        }
    }
}

/// Follows output for one mode.
#[derive(Debug, Default)]
struct Modes {
    held: Vec<u8>,
    bracketed: bool,
}

impl Modes {
    fn take(&mut self, byte: u8) {
        match (self.held.as_slice(), byte) {
            (_, 0x1b) => self.held = vec![byte],
            ([0x1b], b'[') | ([0x1b, b'['], b'?') => self.held.push(byte),
            // A full reset.
            ([0x1b], b'c') => *self = Modes::default(),
            ([0x1b, b'[', b'?', modes @ ..], b'h' | b'l') => {
                if modes.split(|b| *b == b';').any(|mode| mode == MODE) {
                    self.bracketed = byte == b'h';
                }
                self.held.clear();
            }
            ([0x1b, b'[', b'?', ..], b'0'..=b'9' | b';') if self.held.len() < LONGEST => self.held.push(byte),
            _ => self.held.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bracketed(output: &str) -> bool {
        let mut modes = Modes::default();
        output.bytes().for_each(|byte| modes.take(byte));
        modes.bracketed
    }

    #[test]
    fn the_last_word_of_the_program_decides() {
        for (output, on) in [
            ("", false),
            ("\u{1b}[?2004h", true),
            ("\u{1b}[?2004hsome text\u{1b}[?25l", true),
            ("\u{1b}[?1049;2004h", true),
            ("\u{1b}[?2004h\u{1b}[?1;2004l", false),
            ("\u{1b}[?2004h\u{1b}c", false),
            ("\u{1b}[?20040h", false),
            ("\u{1b}[2004h", false),
            ("[?2004h", false),
            ("\u{1b}\u{1b}[?2004h", true),
        ] {
            assert_eq!(bracketed(output), on, "{output:?}");
        }
        let endless = format!("\u{1b}[?{}h", "2004;".repeat(1_000));
        assert!(!bracketed(&endless), "nothing is held without end");
    }

    #[test]
    fn a10_nothing_in_a_prompt_leaves_its_paste_or_presses_a_key() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..2_000 {
            let text: String = (0..48)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let parts =
                        ["\u{1b}", "[201~", "\r", "\n", "\u{9b}", "201~", "\u{3}", "a", "\u{7f}", "\t"];
                    parts[(state % 10) as usize]
                })
                .collect();
            let keys = typed(&text, true);
            let inner = keys.strip_prefix(OPEN).and_then(|keys| keys.strip_suffix("\u{1b}[201~\r"));
            let inner = inner.expect("one paste, then Enter");
            assert!(!inner.chars().any(|c| c.is_control() && !matches!(c, '\r' | '\t')), "{inner:?}");
            assert_eq!(typed(&text, false).matches(['\u{1b}', '\u{9b}', '\u{3}']).count(), 0);
        }
        assert_eq!(typed("one\r\ntwo\n", false), "one\rtwo\r");
        assert_eq!(piped("one\ntwo\u{1b}"), "one\ntwo\n");
    }
}
