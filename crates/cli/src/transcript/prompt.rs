//! The line at the bottom that a person types.
//!
//! Promise: nothing is sent but by Enter, a paste of several lines neither; what is typed is text and moves nothing but its own
//! cursor. The line takes one row of the terminal, however long it is, so that it can be taken away and drawn again.

use netsky_model::envelope::MAX_BYTES;
use netsky_model::render;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Takes the line away, with the cursor at its beginning.
pub(super) const ERASE: &str = "\r\u{1b}[K";
/// Has the terminal say where a paste begins and ends; and no longer.
pub(super) const PASTES: &str = "\u{1b}[?2004h";
pub(super) const NO_PASTES: &str = "\u{1b}[?2004l";
/// Longest sequence of a key; what is longer is none.
const LONGEST: usize = 48;
/// Fewest columns that are left to what is typed.
const LEAST: usize = 8;

/// What a person has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Done {
    /// Entered a line.
    Line(String),
    /// Asked to leave, with an empty line.
    Leave,
    /// Wants out, maybe: Ctrl-C with an empty line.
    Interrupt,
    /// Typed what does not fit any more, or is no text.
    Refused,
}

/// Where the bytes of keys stand.
#[derive(Debug, Default)]
enum Sequence {
    #[default]
    None,
    Escape,
    /// Behind `ESC [`.
    Control(Vec<u8>),
    /// The rest of a character.
    Character(Vec<u8>),
}

/// A line as it is typed.
#[derive(Debug, Default)]
pub(super) struct Prompt {
    text: Vec<char>,
    /// Bytes of the text.
    bytes: usize,
    /// Characters before the cursor.
    at: usize,
    sequence: Sequence,
    in_paste: bool,
}

impl Prompt {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes keys in; what was done with them, in order.
    pub(super) fn take(&mut self, keys: &[u8]) -> Vec<Done> {
        keys.iter().filter_map(|byte| self.byte(*byte)).collect()
    }

    fn byte(&mut self, byte: u8) -> Option<Done> {
        match std::mem::take(&mut self.sequence) {
            Sequence::Escape if byte == b'[' || byte == b'O' => self.sequence = Sequence::Control(Vec::new()),
            // Of a key that is held with Alt nothing is known here.
            Sequence::Escape => {}
            Sequence::Control(mut held) => {
                held.push(byte);
                if (0x40..=0x7e).contains(&byte) {
                    self.control(&held);
                } else if held.len() < LONGEST {
                    self.sequence = Sequence::Control(held);
                }
            }
            Sequence::Character(held) => return self.character(held, byte),
            Sequence::None if byte == 0x1b => self.sequence = Sequence::Escape,
            Sequence::None if byte >= 0x80 => return self.character(Vec::new(), byte),
            // A line's end in a paste is a part of it.
            Sequence::None if self.in_paste && matches!(byte, b'\r' | b'\n') => return self.insert('\n'),
            Sequence::None if self.in_paste && byte < 0x20 && byte != b'\t' => {}
            Sequence::None => return self.key(byte),
        }
        None
    }

    /// One more byte of a character that takes several.
    fn character(&mut self, mut held: Vec<u8>, byte: u8) -> Option<Done> {
        held.push(byte);
        match std::str::from_utf8(&held) {
            Ok(text) => return self.insert(text.chars().next()?),
            // Nothing is missing, and it is no character.
            Err(error) if error.error_len().is_some() => return Some(Done::Refused),
            Err(_) => self.sequence = Sequence::Character(held),
        }
        None
    }

    fn key(&mut self, byte: u8) -> Option<Done> {
        const fn ctrl(letter: u8) -> u8 {
            letter & 0x1f
        }
        match byte {
            b'\r' | b'\n' => return Some(Done::Line(self.end())),
            0x7f | 0x08 => self.remove(self.at.saturating_sub(1), self.at),
            byte if byte == ctrl(b'd') && self.is_empty() => return Some(Done::Leave),
            byte if byte == ctrl(b'd') => self.remove(self.at, self.at + 1),
            byte if byte == ctrl(b'c') && self.is_empty() => return Some(Done::Interrupt),
            byte if byte == ctrl(b'c') => drop(self.end()),
            byte if byte == ctrl(b'a') => self.at = 0,
            byte if byte == ctrl(b'e') => self.at = self.text.len(),
            byte if byte == ctrl(b'b') => self.at = self.at.saturating_sub(1),
            byte if byte == ctrl(b'f') => self.at = self.text.len().min(self.at + 1),
            byte if byte == ctrl(b'u') => self.remove(0, self.at),
            byte if byte == ctrl(b'k') => self.remove(self.at, self.text.len()),
            byte if byte == ctrl(b'w') => {
                let before = &self.text[..self.at];
                let end = before.iter().rposition(|c| !c.is_whitespace()).map_or(0, |at| at + 1);
                let begin = before[..end].iter().rposition(|c| c.is_whitespace()).map_or(0, |at| at + 1);
                self.remove(begin, self.at);
            }
            b'\t' => return self.insert('\t'),
            0..0x20 => {}
            byte => return self.insert(char::from(byte)),
        }
        None
    }

    /// What stood behind `ESC [`.
    fn control(&mut self, sequence: &[u8]) {
        match sequence {
            b"200~" => self.in_paste = true,
            b"201~" => self.in_paste = false,
            _ if self.in_paste => {}
            b"D" => self.at = self.at.saturating_sub(1),
            b"C" => self.at = self.text.len().min(self.at + 1),
            b"H" | b"1~" | b"7~" => self.at = 0,
            b"F" | b"4~" | b"8~" => self.at = self.text.len(),
            b"3~" => self.remove(self.at, self.at + 1),
            _ => {}
        }
    }

    fn insert(&mut self, c: char) -> Option<Done> {
        // What would not be seen is not sent.
        if !render::is_visible(c) || self.bytes + c.len_utf8() > MAX_BYTES {
            return Some(Done::Refused);
        }
        self.text.insert(self.at, c);
        self.at += 1;
        self.bytes += c.len_utf8();
        None
    }

    fn remove(&mut self, from: usize, to: usize) {
        let to = to.min(self.text.len());
        self.bytes -= self.text.drain(from.min(to)..to).map(char::len_utf8).sum::<usize>();
        self.at = from.min(self.text.len());
    }

    /// What was typed; the line is empty again.
    fn end(&mut self) -> String {
        (self.at, self.bytes) = (0, 0);
        std::mem::take(&mut self.text).into_iter().collect()
    }

    /// The line in one row, behind a label, with the cursor where it is.
    pub(super) fn draw(&self, label: &str, columns: usize) -> String {
        let label = if label.width() + LEAST < columns { label } else { "> " };
        let room = columns.saturating_sub(label.width() + 1).max(1);
        let width = |c: &char| seen(*c).width().unwrap_or(0);
        // As much before the cursor as there is room for.
        let (mut from, mut before) = (self.at, 0);
        while from > 0 && before + width(&self.text[from - 1]) <= room {
            from -= 1;
            before += width(&self.text[from]);
        }
        let (mut shown, mut taken) = (String::new(), 0);
        for c in &self.text[from..] {
            taken += width(c);
            if taken > room {
                break;
            }
            shown.push(seen(*c));
        }
        let right = label.width() + before;
        let place = if right > 0 { format!("\u{1b}[{right}C") } else { String::new() };
        format!("{ERASE}{label}{shown}\r{place}")
    }
}

/// A line's end within the line, and a tab, take one column.
fn seen(c: char) -> char {
    match c {
        '\n' => '⏎',
        '\t' => ' ',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &str) -> (Prompt, Vec<Done>) {
        let mut prompt = Prompt::default();
        let done = keys.bytes().flat_map(|byte| prompt.take(&[byte])).collect();
        (prompt, done)
    }

    fn line(keys: &str) -> String {
        match &typed(keys).1[..] {
            [Done::Line(line)] => line.clone(),
            other => panic!("{keys:?}: {other:?}"),
        }
    }

    #[test]
    fn keys_edit_the_line_and_enter_ends_it() {
        for (keys, wanted) in [
            ("hello\r", "hello"),
            ("héllo日本\r", "héllo日本"),
            ("hellp\u{7f}o\r", "hello"),
            ("ello\u{1}h\u{5}!\r", "hello!"),
            ("ac\u{1b}[Db\u{1b}[C\u{1b}OFd\r", "abcd"),
            ("bc\u{1b}[Ha\u{1b}[3~\r", "ac"),
            ("one two  \u{17}three\r", "one three"),
            ("gone\u{15}kept\r", "kept"),
            ("kept gone\u{1b}[D\u{1b}[D\u{1b}[D\u{1b}[D\u{1b}[D\u{b}\r", "kept"),
            ("gone\u{3}kept\r", "kept"),
            ("x\u{1b}[1;5P\u{1b}[999Ay\u{1b}bz\r", "xyz"),
            ("\u{1b}[H\u{7f}\u{4}a", ""),
        ] {
            match wanted {
                "" => assert_eq!(typed(keys).1, [Done::Leave]),
                wanted => assert_eq!(line(keys), wanted, "{keys:?}"),
            }
        }
        assert_eq!(typed("\u{3}\u{4}").1, [Done::Interrupt, Done::Leave]);
        assert_eq!(typed("a\u{1}\u{4}\u{4}").1, [Done::Leave], "on what is left it leaves");
    }

    #[test]
    fn a_paste_of_several_lines_sends_nothing() {
        let (prompt, done) = typed("\u{1b}[200~one\rtwo\nthree\u{4}\u{3}\u{1b}[201~");
        assert!(done.is_empty() && !prompt.in_paste, "{done:?}");
        assert_eq!(prompt.text.iter().collect::<String>(), "one\ntwo\nthree");
        assert!(prompt.draw("> ", 80).contains("one⏎two⏎three"));
        assert_eq!(line("\u{1b}[200~one\rtwo\u{1b}[201~\r"), "one\ntwo");
    }

    #[test]
    fn a_line_is_one_row_in_any_window_and_its_cursor_is_in_it() {
        for columns in [1, 10, 20, 80] {
            for keys in ["", "short", &"long 日本 ".repeat(30), &format!("{}\u{1}", "x".repeat(200))] {
                let drawn = typed(keys).0.draw("agent0 waiting-for-model> ", columns);
                let row = drawn.strip_prefix(ERASE).expect("drawn anew").split('\r').next().expect("a row");
                assert!(row.width() < columns.max(4), "{columns}: {row:?}");
                let right =
                    drawn.rsplit("\u{1b}[").next().and_then(|end| end.trim_end_matches('C').parse().ok());
                assert!(right.is_some_and(|right: usize| right < columns.max(4)), "{columns}: {drawn:?}");
            }
        }
    }

    #[test]
    fn a10_what_no_terminal_shows_is_not_typed_and_a_line_ends_where_no_message_would_hold_it() {
        let mut prompt = Prompt::default();
        let done = prompt.take("a\u{202e}\u{200b}\u{e0041}b".as_bytes());
        assert_eq!(done, [Done::Refused, Done::Refused, Done::Refused]);
        assert_eq!(prompt.take(b"\xff\xc3("), [Done::Refused, Done::Refused]);
        assert_eq!(prompt.take(b"\r"), [Done::Line("ab".to_owned())]);
        let flood = vec![b'x'; MAX_BYTES + 3];
        assert_eq!(prompt.take(&flood).len(), 3);
        assert_eq!(prompt.bytes, MAX_BYTES);
    }
}
