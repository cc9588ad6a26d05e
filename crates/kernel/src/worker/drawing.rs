//! Line drawing on its way to the screen's model, which knows no sets of characters but its own.
//!
//! Promise: where the output has chosen the set of lines and boxes (`ESC ( 0`, or `ESC ) 0` and a shift out), its letters
//! come out as what they draw; everything else passes as it is. Sequences are told from text, and nothing in them changes.
//!
//! Left to others: what sequences mean (`screen`).

/// What `_` to `~` draw, in that order: the special graphics of the VT100.
const LINES: [char; 32] = [
    ' ', '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽',
    '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
];

/// Where the output stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum At {
    #[default]
    Text,
    /// Behind an escape.
    Escape,
    /// Behind an escape and something that more must follow.
    Intermediate,
    /// In a control sequence.
    Control,
    /// In a string, which ends with an escape; one of the system's with a bell too.
    String,
    /// At the name of the set that is chosen for G0 or G1.
    Choice(usize),
}

/// The filter, from one piece of output to the next.
#[derive(Debug, Default)]
pub(super) struct Drawing {
    at: At,
    /// Whether G0 and G1 are the set of lines.
    lines: [bool; 2],
    /// Which of them is used.
    used: usize,
}

impl Drawing {
    /// Appends to `out` what the model is given for these bytes.
    pub(super) fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if self.at == At::Text && !self.lines[self.used] {
                let plain =
                    rest.iter().position(|byte| matches!(byte, 0x0e | 0x0f | 0x1b)).unwrap_or(rest.len());
                if plain > 0 {
                    out.extend_from_slice(&rest[..plain]);
                    rest = &rest[plain..];
                    continue;
                }
            }
            self.step(byte, out);
            rest = after;
        }
    }

    fn step(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.at = match (self.at, byte) {
            (_, 0x1b) => At::Escape,
            // Cancelled.
            (_, 0x18 | 0x1a) => At::Text,
            (At::Text, 0x0e | 0x0f) => {
                self.used = usize::from(byte == 0x0e);
                At::Text
            }
            (At::Text, b'_'..=b'~') if self.lines[self.used] => {
                let mut drawn = [0; 4];
                let drawn = LINES[usize::from(byte - b'_')].encode_utf8(&mut drawn);
                out.extend_from_slice(drawn.as_bytes());
                return;
            }
            (At::Text, _) => At::Text,
            // Told inside a sequence, and no part of it.
            (at, 0x00..=0x1f) if at != At::String => at,
            (At::Escape, b'[') => At::Control,
            (At::Escape, b']' | b'P' | b'X' | b'^' | b'_') => At::String,
            (At::Escape, b'(' | b')') => At::Choice(usize::from(byte == b')')),
            (At::Escape, b'c') => {
                (self.lines, self.used) = ([false; 2], 0);
                At::Text
            }
            (At::Escape | At::Intermediate, b' '..=b'/') => At::Intermediate,
            (At::Choice(set), _) => {
                self.lines[set] = byte == b'0';
                At::Text
            }
            (At::Control, b' '..=b'?') | (At::String, _) if byte != 0x07 => self.at,
            _ => At::Text,
        };
        out.push(byte);
    }

    /// What brings a terminal as it is at first to where this is; nothing in the middle of a sequence, which would be cut.
    pub(super) fn state(&self) -> String {
        let chosen =
            |set: usize, by: char| if self.lines[set] { format!("\x1b{by}0") } else { String::new() };
        let shift = if self.used == 1 { "\x0e" } else { "" };
        format!("{}{}{shift}", chosen(0, '('), chosen(1, ')'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(text: &str, step: usize) -> (String, String) {
        let (mut drawing, mut out) = (Drawing::default(), Vec::new());
        text.as_bytes().chunks(step).for_each(|piece| drawing.pass(piece, &mut out));
        (String::from_utf8(out).expect("text"), drawing.state())
    }

    #[test]
    fn letters_of_the_set_of_lines_are_what_they_draw_and_nothing_else_is() {
        for (said, shown, state) in [
            ("lqk", "lqk", ""),
            ("\x1b(0lqk x\x1b(Blqk", "\x1b(0┌─┐ │\x1b(Blqk", ""),
            ("\x1b)0q\x0eq\x0fq", "\x1b)0q\x0e─\x0fq", "\x1b)0"),
            ("\x1b)0\x0eq", "\x1b)0\x0e─", "\x1b)0\x0e"),
            ("\x1b(0\x1b[31mq\x1b]0;lqk\x07q", "\x1b(0\x1b[31m─\x1b]0;lqk\x07─", "\x1b(0"),
            ("\x1b(0\x1bPlqk\x1b\\q日本", "\x1b(0\x1bPlqk\x1b\\─日本", "\x1b(0"),
            ("\x1b(0\x1b#8q\x1bcq", "\x1b(0\x1b#8─\x1bcq", ""),
            ("\x1b(0\x1b[3\nq", "\x1b(0\x1b[3\nq", "\x1b(0"),
            ("\x1b(0\x1b[3\x18q", "\x1b(0\x1b[3\x18─", "\x1b(0"),
        ] {
            for step in [1, 2, 100] {
                assert_eq!(passed(said, step), (shown.to_owned(), state.to_owned()), "{said:?} by {step}");
            }
        }
    }
}
