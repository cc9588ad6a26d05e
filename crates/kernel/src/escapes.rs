//! Output cut into escape sequences and everything else: for a replay, for what has to be undone, for a log that is read as
//! text, for the questions in it; and which of them ask.
//!
//! Promise: pure; a sequence ends where a terminal takes it to end. Every byte that went in comes out once, in its order,
//! but that what a terminal does in the middle of a sequence (a newline) comes before it, and that what a character of its own
//! begins or ends comes as with an escape. At most [`LONGEST`] bytes are held back, or as many as were named.

/// Longest sequence that is looked at as one; of a longer one the rest comes in parts.
pub const LONGEST: usize = 4096;

/// What the characters U+0080 to U+00BF begin with in UTF-8. Of those some stand for an escape and a letter, as U+009B for
/// `ESC [`, and terminals obey them (VTE, wezterm, xterm.js); in bytes of their own they are parts of other characters, and
/// no terminal that speaks UTF-8 does.
const LEAD: u8 = 0xc2;

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
#[derive(Debug)]
pub struct Cutter {
    held: Vec<u8>,
    at: At,
    /// Whether [`LEAD`] has come, and not yet what follows it.
    lead: bool,
    /// Whether the beginning of what is held was given away.
    long: bool,
    longest: usize,
}

impl Default for Cutter {
    fn default() -> Cutter {
        Cutter::holding(LONGEST)
    }
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
    /// One for which a sequence of more bytes than that is a long one.
    pub(crate) fn holding(longest: usize) -> Cutter {
        Cutter { held: Vec::new(), at: At::Text, lead: false, long: false, longest }
    }

    /// Cut the next bytes of the output.
    pub fn cut(&mut self, bytes: &[u8], mut each: impl FnMut(Piece<'_>)) {
        for byte in bytes {
            let led = std::mem::replace(&mut self.lead, *byte == LEAD);
            match *byte {
                // Those of a string, a control sequence and a question, and the end of a string.
                0x90 | 0x98 | 0x9a..=0x9f if led => {
                    self.pass(0x1b, &mut each);
                    self.pass(*byte - 0x40, &mut each);
                    continue;
                }
                _ if led => self.pass(LEAD, &mut each),
                _ => {}
            }
            if !self.lead {
                self.pass(*byte, &mut each);
            }
        }
    }

    fn pass(&mut self, byte: u8, each: &mut impl FnMut(Piece<'_>)) {
        if self.at == At::Text && byte != 0x1b {
            each(Piece::Plain(byte));
        } else {
            self.step(byte, each);
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
            _ if self.held.len() >= self.longest => self.give(false, each),
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
        let mut begun = std::mem::replace(self, Cutter::holding(self.longest));
        begun.held.extend(begun.lead.then_some(LEAD));
        begun.held
    }
}

/// Whether a terminal answers that sequence, which would be typed into the program; of a long one its beginning tells. What
/// is done, and only confirmed (an image), asks nothing.
pub(crate) fn asks(sequence: &[u8]) -> bool {
    match sequence {
        // Which terminal it is.
        [0x1b, b'Z'] => true,
        [0x1b, b'[', middle @ .., last] => asks_by_control(middle, *last),
        [0x1b, b']', command @ ..] => asks_by_command(command),
        // Capabilities, resources and settings.
        [0x1b, b'P', rest @ ..] => [b"+q", b"+Q", b"$q"].iter().any(|kind| rest.starts_with(*kind)),
        // Whether it shows images.
        [0x1b, b'_', b'G', rest @ ..] => {
            let keys = rest.split(|byte| matches!(byte, b';' | 0x1b)).next().unwrap_or_default();
            keys.split(|byte| *byte == b',').any(|key| key == b"a=q")
        }
        _ => false,
    }
}

fn asks_by_control(middle: &[u8], last: u8) -> bool {
    let plain = middle.iter().all(|byte| byte.is_ascii_digit() || *byte == b';');
    let first = middle.split(|byte| *byte == b';').next().unwrap_or_default();
    match last {
        // Attributes; with `?` it is the shape of a console's cursor.
        b'c' => !middle.starts_with(b"?"),
        // Status and cursor reports; with `>` it is a setting.
        b'n' => !middle.starts_with(b">"),
        // The terminal's parameters.
        b'x' => plain,
        // The state, sizes and titles of the window: the numbers that ask.
        b't' => plain && matches!(first, [b'1', b'1' | b'3'..=b'6' | b'8' | b'9'] | [b'2', b'0' | b'1']),
        // Modes, checksums, state and version.
        b'p' | b'w' => middle.ends_with(b"$"),
        b'y' => middle.ends_with(b"*"),
        b'q' => middle.starts_with(b">"),
        // The keyboard's settings, tab stops, the preferred set of characters.
        b'u' => middle.starts_with(b"?") || middle.ends_with(b"$") || middle.ends_with(b"&"),
        // Colours and sizes of graphics, where a title stands.
        b'S' => middle.starts_with(b"?") || middle.ends_with(b"#"),
        // Attributes of a part of the screen, the mouse as a locator; the stack of colours.
        b'|' => middle.ends_with(b"#") || middle.ends_with(b"'"),
        b'R' => middle.ends_with(b"#"),
        _ => false,
    }
}

fn asks_by_command(command: &[u8]) -> bool {
    let end = command.iter().position(|byte| *byte < b' ').unwrap_or(command.len());
    let mut fields = command[..end].split(|byte| *byte == b';');
    let asked = |field: &[u8]| field == b"?";
    match fields.next().unwrap_or_default() {
        // Colours, the font, the clipboard.
        b"4" | b"5" | [b'1', b'0'..=b'9'] | b"50" | b"52" => fields.any(asked),
        // Colours by name, and what notifications can do.
        b"21" | b"99" => fields.any(|field| field.windows(2).any(|pair| pair == b"=?")),
        b"1337" => fields.next().is_some_and(|what| {
            [b"Report".as_slice(), b"RequestUpload", b"Capabilities"]
                .iter()
                .any(|kind| what.starts_with(kind))
        }),
        _ => false,
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
            (
                "a\u{9b}1mred\u{9d}0;title\u{9c}b\u{90}q\u{9c}",
                "a{\x1b[1m}red{\x1b]0;title\x1b\\}b{\x1bPq\x1b\\}",
            ),
            ("\x1b[3\u{9b}1mb\u{9d}0;\u{a0}\u{9b}1mb", "{\x1b[3}{\x1b[1m}b{\x1b]0;\u{a0}}{\x1b[1m}b"),
            // In a byte of its own it is a part of a character.
            ("\u{85}\u{a0}\u{41b}A\u{db}6n", "\u{85}\u{a0}\u{41b}A\u{db}6n"),
        ] {
            for step in [1, 2, 100] {
                assert_eq!(cut(said, step), pieces, "{said:?} by {step}");
            }
        }
    }

    #[test]
    fn half_a_character_is_held_back_until_the_other_half_comes() {
        let mut cutter = Cutter::default();
        cutter.cut(b"\xc2", |piece| panic!("{piece:?}"));
        assert_eq!(cutter.finish(), b"\xc2");
        let mut plain = Vec::new();
        cutter.cut(b"\xc2\xc2\xa0b", |piece| match piece {
            Piece::Plain(byte) => plain.push(byte),
            other => panic!("{other:?}"),
        });
        assert_eq!(plain, b"\xc2\xc2\xa0b");
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

    /// Sequences without their escapes.
    fn sequences(rows: &[&str]) -> Vec<String> {
        rows.iter().flat_map(|row| row.split(' ')).map(|sequence| format!("\x1b{sequence}")).collect()
    }

    #[test]
    fn what_a_terminal_answers_is_told_from_what_it_does() {
        for question in sequences(&[
            "Z [c [0c [>c [>0c [=c [5n [6n [?6n [?996n [x [1x [11t [14;2t [16t [18t [21t [?2026$p [4$p [1$w",
            "[1;1;1;1;2;2*y [>q [>0q [?u [&u [?1;1;0S [1;1;2;2#| [#R ]4;1;?\x07 ]4;1;red;2;?\x1b\\ ]11;?\x07",
            "]10;?;?\x1b\\ ]52;c;?\x07 ]21;foreground=?\x1b\\ ]99;i=1:p=?;\x1b\\ ]1337;ReportCellSize\x07",
            "P+q544e\x1b\\ P$qm\x1b\\ _Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\ _Ga=q\x1b\\",
        ]) {
            assert!(asks(question.as_bytes()), "{question:?}");
        }
        for deed in sequences(&[
            "c 7 [?8c [>4n [1;1;2;2$x [2*x [8;24;80t [22;0;0t [23t [1t [132t [>2t [!p [62;1\"p [#y [>1u [<u [=5u",
            "[u [2S [132$| ]0;what;?\x07 ]2;?\x07 ]8;;http://x/?\x1b\\ ]11;#000000\x07 ]52;c;aGk=\x07 ]9;done?\x07",
            "]133;A\x07 ]1337;File=:x\x07 Pq#0\x1b\\ _Ga=T,f=100;AAAA\x1b\\ _Ga=T,f=100;a=q,\x1b\\ [6 [6\x18 ]11;\x18",
        ]) {
            assert!(!asks(deed.as_bytes()), "{deed:?}");
        }
        assert!(!asks(b"\x1b[3 t") && !asks(b"\x1b[5 q"));
    }
}
