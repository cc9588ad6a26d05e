//! Output on its way to the screen's model, which knows no sets of characters but its own and does whatever it is asked.
//!
//! Promise: what a byte of output costs is bounded: a program may ask for its last character 65,535 times in nine bytes. The
//! first number of a control sequence, which is its count, comes out no greater than told. Where the output has chosen the
//! set of lines and boxes (`ESC ( 0`, or `ESC ) 0` and a shift out), its letters come out as what they draw. Nothing else of
//! what the model would see is changed.
//!
//! Left to others: what sequences mean (`screen`), and the log, which has these bytes as they were.

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
    /// At the name of the set that is chosen for G0 or G1.
    Choice(usize),
    /// In the first number of a control sequence, as far as it is known; none of it was passed on.
    Count(Option<u32>),
    /// Behind that number.
    Control,
    /// In a string, which ends with an escape; one of the system's with a bell too.
    String,
}

/// The filter, from one piece of output to the next.
#[derive(Debug, Default)]
pub(super) struct Filter {
    at: At,
    /// Whether G0 and G1 are the set of lines.
    lines: [bool; 2],
    /// Which of them is used.
    used: usize,
}

impl Filter {
    /// Appends to `out` what the model is given for these bytes; no count in it is over `most`.
    pub(super) fn pass(&mut self, bytes: &[u8], most: u16, out: &mut Vec<u8>) {
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
            self.step(byte, most, out);
            rest = after;
        }
    }

    fn step(&mut self, byte: u8, most: u16, out: &mut Vec<u8>) {
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
                return out.extend_from_slice(drawn.as_bytes());
            }
            (At::Text, _) => At::Text,
            (At::String, _) => {
                if byte == 0x07 {
                    At::Text
                } else {
                    At::String
                }
            }
            // The model passes these over inside a sequence …
            (_, 0x7f..) => return,
            // … and does what these say, and goes on with it.
            (at, 0x00..=0x1f) => at,
            (At::Count(count), b'0'..=b'9') => {
                let count = count.unwrap_or(0).saturating_mul(10).saturating_add(u32::from(byte - b'0'));
                self.at = At::Count(Some(count));
                return;
            }
            (At::Count(count), _) => {
                if let Some(count) = count {
                    out.extend_from_slice(count.min(most.into()).to_string().as_bytes());
                }
                behind(byte)
            }
            (At::Control, _) => behind(byte),
            (At::Choice(set), _) => {
                self.lines[set] = byte == b'0';
                At::Text
            }
            (At::Escape, b'[') => At::Count(None),
            (At::Escape, b']' | b'P' | b'X' | b'^' | b'_') => At::String,
            (At::Escape, b'(' | b')') => At::Choice(usize::from(byte == b')')),
            (At::Escape | At::Intermediate, b' '..=b'/') => At::Intermediate,
            (At::Escape, b'c') => {
                (self.lines, self.used) = ([false; 2], 0);
                At::Text
            }
            (At::Escape | At::Intermediate, _) => At::Text,
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

/// Where a byte of a control sequence leads that is no digit of its count.
fn behind(byte: u8) -> At {
    if matches!(byte, b' '..=b'?') { At::Control } else { At::Text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(bytes: &[u8], step: usize) -> (String, String) {
        let (mut filter, mut out) = (Filter::default(), Vec::new());
        bytes.chunks(step).for_each(|piece| filter.pass(piece, 255, &mut out));
        (String::from_utf8(out).expect("text"), filter.state())
    }

    #[test]
    fn a12_a_count_is_cut_to_the_screen_however_it_is_told() {
        for (said, passes) in [
            ("x\u{1b}[65535b", "x\u{1b}[255b"),
            ("\u{1b}[0000000000000000000000000000000000000065535b", "\u{1b}[255b"),
            ("\u{1b}[99999999999999999999b", "\u{1b}[255b"),
            ("\u{1b}[6\n5535b", "\u{1b}[\n255b"),
            ("\u{1b}[6\u{e9}5\u{7f}535b", "\u{1b}[255b"),
            ("\u{1b}[65535;1b", "\u{1b}[255;1b"),
            ("\u{1b}]0;\u{1b}[65535b", "\u{1b}]0;\u{1b}[255b"),
            ("\u{1b}\u{1b}[65535b", "\u{1b}\u{1b}[255b"),
            ("\u{1b}[65535\u{18}b", "\u{1b}[\u{18}b"),
            ("\u{1b}[655\u{1b}[65535b", "\u{1b}[\u{1b}[255b"),
            ("\u{1b}\n[65535b", "\u{1b}\n[255b"),
            ("\u{1b}\u{7f}\u{e9}[65535b", "\u{1b}[255b"),
        ] {
            for step in [1, 2, 3, 100] {
                assert_eq!(passed(said.as_bytes(), step).0, passes, "{said:?} by {step}");
            }
        }
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
            ("\x1b(0\x1b[3\nq", "\x1b(0\x1b[\n3q", "\x1b(0"),
            ("\x1b(0\x1b[3\x18q", "\x1b(0\x1b[\x18─", "\x1b(0"),
            ("\x1b(0\x1b[;3\x7fq", "\x1b(0\x1b[;3q", "\x1b(0"),
        ] {
            for step in [1, 2, 100] {
                let passes = (shown.to_owned(), state.to_owned());
                assert_eq!(passed(said.as_bytes(), step), passes, "{said:?} by {step}");
            }
        }
    }

    #[test]
    fn everything_else_passes_as_it_is() {
        for said in [
            "plain 65535b\r\n日本語",
            "\u{1b}[3;4H\u{1b}[H\u{1b}[;7H\u{1b}[2J\u{1b}[80b",
            "\u{1b}[38;2;1;2;3m\u{1b}[0m\u{1b}[107m\u{1b}[m",
            "\u{1b}[?2004h\u{1b}[?1049;1006h\u{1b}[>4;2m\u{1b}[!p",
            "\u{1b}]8;;file:///65535\u{7}\u{1b}P65535q\u{1b}\\\u{1b}(B\u{1b}7",
        ] {
            for step in [1, 2, 100] {
                assert_eq!(passed(said.as_bytes(), step).0, said, "by {step}");
            }
        }
    }
}
