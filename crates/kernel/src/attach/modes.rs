//! What a program has done to the terminal that somebody else has to undo.
//!
//! Promise: pure. [`Modes::undo`] puts back what was changed and, what is cheap and right for every shell, some that may not
//! have been: colours and other attributes, the character set, insertion, a link, the scroll region.
//! Left out: the title, which no terminal tells, and what it had before colours were set: they are the terminal's own again.

use std::collections::BTreeSet;

use crate::escapes::{Cutter, Piece};

/// Private modes that are on in a fresh terminal: wrapping, keys that repeat, and the cursor.
const ON_AT_FIRST: [u32; 3] = [7, 8, 25];
/// The three names of the other screen.
const OTHER_SCREEN: [u32; 3] = [47, 1047, 1049];
/// Modes that matter to whoever uses the terminal next; others are harmless or local to a program.
const UNDONE: [u32; 25] = [
    1, 5, 6, 7, 8, 25, 9, 47, 66, 69, 1047, 1049, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004, 2026,
    2031, 2048, 9001,
];
/// Colours that are set by number: of the palette, the text, the background and the cursor.
const COLOURS: [u32; 4] = [4, 10, 11, 12];
/// Deepest stack of keyboard settings that is unwound; terminals keep no more.
const DEEPEST: u32 = 16;

/// What a program has changed and not undone.
#[derive(Debug, Default)]
pub(super) struct Modes {
    cutter: Cutter,
    changed: BTreeSet<u32>,
    on_other_screen: bool,
    /// Of the main screen and of the other one, as terminals have them.
    keyboards: [Keyboard; 2],
    keypad: bool,
    other_keys: bool,
    shape: bool,
    colours: BTreeSet<u32>,
}

/// The keyboard settings of one screen (kitty's protocol).
#[derive(Debug, Default)]
struct Keyboard {
    /// Flags below everything that was pushed.
    flags: u32,
    pushed: u32,
}

impl Keyboard {
    fn push(&mut self) {
        self.pushed = (self.pushed + 1).min(DEEPEST);
    }

    fn pop(&mut self, count: u32) {
        if count > self.pushed {
            self.flags = 0;
        }
        self.pushed = self.pushed.saturating_sub(count);
    }

    fn set(&mut self, flags: u32, how: u32) {
        // What was set above something pushed goes with the pop.
        if self.pushed == 0 {
            self.flags = match how {
                2 => self.flags | flags,
                3 => self.flags & !flags,
                _ => flags,
            };
        }
    }

    fn undo(&self) -> String {
        let pop = if self.pushed > 0 { format!("\x1b[<{}u", self.pushed) } else { String::new() };
        let set = if self.flags > 0 { "\x1b[=0u" } else { "" };
        pop + set
    }
}

impl Modes {
    pub(super) fn see(&mut self, bytes: &[u8]) {
        let mut cutter = std::mem::take(&mut self.cutter);
        cutter.cut(bytes, |piece| {
            if let Piece::Sequence(sequence) | Piece::Begun(sequence) = piece {
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
                numbers(modes).into_iter().flatten().for_each(|mode| self.set(mode, *on == b'h'));
            }
            [0x1b, b'[', b'>', b'4', b';', level, b'm'] => self.other_keys = *level != b'0',
            [0x1b, b'[', b'>', b'4', b'm'] => self.other_keys = false,
            [0x1b, b'[', shape @ .., b' ', b'q'] => self.shape = !matches!(shape, [] | [b'0']),
            [0x1b, b'[', how @ (b'>' | b'<' | b'='), rest @ .., b'u'] => {
                let numbers = numbers(rest);
                let number = |at: usize| numbers.get(at).copied().flatten();
                let keyboard = &mut self.keyboards[usize::from(self.on_other_screen)];
                match how {
                    b'>' => keyboard.push(),
                    b'<' => keyboard.pop(number(0).unwrap_or(1).max(1)),
                    _ => keyboard.set(number(0).unwrap_or(0), number(1).unwrap_or(1)),
                }
            }
            [0x1b, b']', command @ ..] => self.command(command),
            _ => {}
        }
    }

    fn set(&mut self, mode: u32, on: bool) {
        if OTHER_SCREEN.contains(&mode) {
            self.on_other_screen = on;
        }
        if on == ON_AT_FIRST.contains(&mode) {
            self.changed.remove(&mode);
        } else if UNDONE.contains(&mode) {
            self.changed.insert(mode);
        }
    }

    fn command(&mut self, command: &[u8]) {
        let number = command.split(|byte| !byte.is_ascii_digit()).next().unwrap_or_default();
        let Some(number) = numbers(number).first().copied().flatten() else { return };
        if COLOURS.contains(&number) && !command.contains(&b'?') {
            self.colours.insert(number);
        }
    }

    /// What puts the terminal back, and goes on behind whatever stands there.
    pub(super) fn undo(&self) -> Vec<u8> {
        let [main, other] = self.keyboards.each_ref().map(Keyboard::undo);
        let mut out = String::new();
        if self.on_other_screen {
            out.push_str(&other);
        } else if !other.is_empty() {
            out.push_str(&format!("\x1b[?1047h{other}\x1b[?1047l"));
        }
        if self.other_keys {
            out.push_str("\x1b[>4;0m");
        }
        if self.shape {
            out.push_str("\x1b[0 q");
        }
        if self.keypad {
            out.push_str("\x1b>");
        }
        for colour in &self.colours {
            out.push_str(&format!("\x1b]{}\x1b\\", 100 + colour));
        }
        for mode in &self.changed {
            let back = if ON_AT_FIRST.contains(mode) { 'h' } else { 'l' };
            out.push_str(&format!("\x1b[?{mode}{back}"));
        }
        // By now it is the main screen.
        out.push_str(&main);
        out.push_str(ALWAYS);
        out.into_bytes()
    }
}

/// Attributes, the character set; a locked keyboard, insertion, new lines and local echo, as a binary file leaves them; a
/// link; the scroll region, with the cursor left where it is.
const ALWAYS: &str = "\x1b[0m\x1b(B\x0f\x1b[2;4;20l\x1b[12h\x1b]8;;\x1b\\\x1b7\x1b[r\x1b8";

/// The numbers of a sequence; none for one that is left out or is none.
fn numbers(bytes: &[u8]) -> Vec<Option<u32>> {
    bytes.split(|byte| *byte == b';').map(|number| std::str::from_utf8(number).ok()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undo(text: &str) -> String {
        let mut modes = Modes::default();
        text.as_bytes().chunks(3).for_each(|piece| modes.see(piece));
        let undo = String::from_utf8(modes.undo()).expect("ascii");
        undo.strip_suffix(ALWAYS).unwrap_or_else(|| panic!("{undo:?}")).to_owned()
    }

    #[test]
    fn what_was_changed_is_put_back_and_nothing_else() {
        assert_eq!(undo("plain \x1b[31mred"), "");
        assert_eq!(undo("\x1b[?1049h\x1b[?25l"), "\x1b[?25h\x1b[?1049l");
        assert_eq!(undo("\x1b[?1049h\x1b[?25l\x1b[?1049l\x1b[?25h"), "");
        assert_eq!(undo("\x1b[?1002;1006h\x1b[?2004h\x1b[?1006l"), "\x1b[?1002l\x1b[?2004l");
        assert_eq!(undo("\x1b[>1u\x1b[>4;2m\x1b="), "\x1b[>4;0m\x1b>\x1b[<1u");
        assert_eq!(undo("\x1b[>1u\x1b[=5u\x1b[<u\x1b[?1h\x1b]11;#000000\x07\x1bc"), "");
        assert_eq!(undo("\x1b[?8l"), "\x1b[?8h");
        assert_eq!(undo("\x1b[6 q"), "\x1b[0 q");
        assert_eq!(undo("\x1b[6 q\x1b[0 q\x1b[4 q\x1b[ q"), "");
        let long = format!("\x1b]11;#000000\x07\x1b]10;?\x07\x1b]4;1;red{}\x07", ";2;blue".repeat(1000));
        assert_eq!(undo(&long), "\x1b]104\x1b\\\x1b]111\x1b\\");
    }

    #[test]
    fn the_keyboard_of_each_screen_is_put_back_on_it() {
        // As a shell of 2025 does at its prompt: nothing is pushed.
        assert_eq!(undo("\x1b[=5u"), "\x1b[=0u");
        assert_eq!(undo("\x1b[=5u\x1b[=0u\x1b[=1;2u\x1b[=1;3u"), "");
        assert_eq!(undo("\x1b[=5u\x1b[>1u\x1b[=7u"), "\x1b[<1u\x1b[=0u");
        assert_eq!(undo("\x1b[=5u\x1b[>1u\x1b[<2u"), "", "the last pop takes the lowest flags along");
        assert_eq!(undo("\x1b[>1u\x1b[>2u\x1b[>3u\x1b[<2u"), "\x1b[<1u");
        assert_eq!(undo("\x1b[>1u\x1b[?1049h\x1b[>5u"), "\x1b[<1u\x1b[?1049l\x1b[<1u");
        assert_eq!(
            undo("\x1b[=5u\x1b[?1049h\x1b[<u"),
            "\x1b[?1049l\x1b[=0u",
            "a pop on one screen is none on the other"
        );
        assert_eq!(undo("\x1b[?47h\x1b[>5u\x1b[?47l"), "\x1b[?1047h\x1b[<1u\x1b[?1047l");
        assert_eq!(undo(&"\x1b[>1u".repeat(100)), format!("\x1b[<{DEEPEST}u"));
    }
}
