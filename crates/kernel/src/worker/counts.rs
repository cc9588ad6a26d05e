//! Output on its way to the screen's model, with counts that no screen has room for cut to its size.
//!
//! Promise: what a byte of output costs is bounded: a program may ask for its last character 65,535 times in nine bytes. The
//! first number of a control sequence, which is its count, comes out no greater than told; nothing else is changed.
//!
//! Left to others: what sequences mean (`screen`), and the log, which has every byte as it was.

/// Where the output stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum At {
    /// Anywhere else.
    #[default]
    Text,
    /// Behind an escape.
    Escape,
    /// In the first number of a sequence, as far as it is known; none of it was passed on.
    Count(Option<u32>),
}

/// The filter, from one piece of output to the next.
#[derive(Debug, Default)]
pub(super) struct Counts {
    at: At,
}

impl Counts {
    /// Appends to `out` what the model is given for these bytes.
    pub(super) fn pass(&mut self, bytes: &[u8], most: u16, out: &mut Vec<u8>) {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if self.at == At::Text {
                let plain = rest.iter().position(|byte| *byte == 0x1b).unwrap_or(rest.len());
                out.extend_from_slice(&rest[..plain]);
                rest = &rest[plain..];
                if let Some((escape, after)) = rest.split_first() {
                    out.push(*escape);
                    self.at = At::Escape;
                    rest = after;
                }
                continue;
            }
            self.step(byte, most, out);
            rest = after;
        }
    }

    fn step(&mut self, byte: u8, most: u16, out: &mut Vec<u8>) {
        self.at = match (self.at, byte) {
            (_, 0x1b) => At::Escape,
            (At::Escape, b'[') => At::Count(None),
            (At::Count(count), b'0'..=b'9') => {
                let digit = u32::from(byte - b'0');
                self.at = At::Count(Some(count.unwrap_or(0).saturating_mul(10).saturating_add(digit)));
                return;
            }
            // The model passes them over inside a sequence, or does what they say and goes on with it.
            (At::Count(_), 0x7f..) => return,
            (At::Count(count), 0x00..=0x17 | 0x19 | 0x1c..=0x1f) => At::Count(count),
            (At::Count(Some(count)), b' '..) => {
                out.extend_from_slice(count.min(most.into()).to_string().as_bytes());
                At::Text
            }
            _ => At::Text,
        };
        out.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(bytes: &[u8], step: usize) -> String {
        let mut counts = Counts::default();
        let mut out = Vec::new();
        bytes.chunks(step).for_each(|piece| counts.pass(piece, 255, &mut out));
        String::from_utf8(out).expect("text")
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
        ] {
            for step in [1, 2, 3, 100] {
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
                assert_eq!(passed(said.as_bytes(), step), said, "by {step}");
            }
        }
    }
}
