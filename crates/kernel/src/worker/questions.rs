//! What a program asks its terminal. The worker is that terminal: whoever is attached comes and goes, may be one of several,
//! may stand still, and may be shown in another session; what they answered would be typed twice, late or never.
//!
//! Promise: nobody else is asked. What the screen's model knows is answered, each question as of the output before it; of
//! anything else nothing is, as by any terminal that does not know it. In the output that is passed on a cancel stands in
//! place of a question, so that what had begun before it ends there as it would have. Everything else is passed on as
//! [`Cutter`] gives it, the beginning of a sequence once it is known to be no question.
//!
//! Left to others: what asks (`escapes`), the answers (`screen`), and the way to the program (`input`).

use super::screen::Screen;
use crate::escapes::{Cutter, Piece, asks};

/// Of a sequence so much is held back until it is known whether it asks: more than any question needs to be known by, and
/// little of what a string that nobody ends keeps from who reads the log.
const HELD: usize = 256;
/// Asks a terminal for whatever it was told to say.
const ENQUIRY: u8 = 0x05;
/// Most bytes of answers to one piece of output; a flood of questions is not answered.
const ANSWERS: usize = 128;

/// What a program asks its terminal, and the screen's model knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Which terminal it is.
    Attributes,
    /// Its version.
    Version,
    /// Whether it is well.
    Status,
    /// Where the cursor is.
    Cursor,
    /// How it tells keys.
    Keyboard,
}

impl Question {
    pub(super) fn of(sequence: &[u8]) -> Option<Question> {
        Some(match sequence.strip_prefix(b"\x1b")? {
            b"[c" | b"[0c" | b"Z" => Question::Attributes,
            b"[>c" | b"[>0c" => Question::Version,
            b"[5n" => Question::Status,
            b"[6n" => Question::Cursor,
            b"[?u" => Question::Keyboard,
            _ => return None,
        })
    }
}

/// What a terminal does nothing at but to end a sequence or string that has begun.
const CANCEL: u8 = 0x18;

/// Finds questions, from one piece of output to the next.
#[derive(Debug)]
pub(super) struct Questions {
    cutter: Cutter,
    /// Whether the long sequence that it is in asks.
    in_question: bool,
}

impl Default for Questions {
    fn default() -> Questions {
        Questions { cutter: Cutter::holding(HELD), in_question: false }
    }
}

/// What came of a piece of output.
#[derive(Debug)]
pub(super) struct Shown {
    /// What is passed on.
    pub(super) output: Vec<u8>,
    /// What the program is answered.
    pub(super) answers: String,
    /// False when the model broke over it, as [`Screen::take`] says.
    pub(super) whole: bool,
}

impl Questions {
    /// Show a piece of output on the screen.
    pub(super) fn show(&mut self, bytes: &[u8], screen: &mut Screen) -> Shown {
        let mut shown =
            Shown { output: Vec::with_capacity(bytes.len()), answers: String::new(), whole: true };
        let (mut at, in_question) = (0, &mut self.in_question);
        self.cutter.cut(bytes, |piece| match piece {
            Piece::Plain(ENQUIRY) => {}
            Piece::Plain(byte) => shown.output.push(byte),
            Piece::Sequence(sequence) if asks(sequence) => {
                shown.whole = shown.whole && screen.take(&shown.output[at..]);
                at = shown.output.len();
                // It would have ended what had begun before it, which is not to go on with what comes after it.
                shown.output.push(CANCEL);
                if let Some(question) = Question::of(sequence).filter(|_| shown.answers.len() < ANSWERS)
                    && shown.whole
                {
                    shown.answers.push_str(&screen.answer(question));
                }
            }
            Piece::Begun(sequence) => {
                *in_question = asks(sequence);
                shown.output.extend_from_slice(if *in_question { &[CANCEL][..] } else { sequence });
            }
            Piece::More(_) if *in_question => {}
            Piece::Sequence(sequence) | Piece::More(sequence) => shown.output.extend_from_slice(sequence),
        });
        shown.whole = shown.whole && screen.take(&shown.output[at..]);
        if !shown.whole {
            shown.output.extend(self.finish());
        }
        shown
    }

    /// What has begun and is not to be waited for any more.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let is_question = self.cutter.is_long() && self.in_question;
        let begun = self.cutter.finish();
        if is_question { Vec::new() } else { begun }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is passed on of output that comes so many bytes at once, and what is answered.
    fn show(bytes: &[u8], step: usize) -> (String, String) {
        let (mut questions, mut screen) = (Questions::default(), Screen::new(6, 20));
        let (mut output, mut answers) = (Vec::new(), String::new());
        for piece in bytes.chunks(step) {
            let shown = questions.show(piece, &mut screen);
            assert!(shown.whole);
            output.extend(shown.output);
            answers += &shown.answers;
        }
        output.extend(questions.finish());
        (String::from_utf8(output).expect("text"), answers)
    }

    #[test]
    fn questions_are_found_wherever_the_output_was_cut_and_everything_else_passes_as_it_is() {
        for (said, passes) in [
            ("a\x1b[cb\x1b[0cc\x1bZd", "a\x18b\x18c\x18d"),
            ("\x1b[>c\x1b[>0c\x1b[5n\x1b[6n\x1b[?u\x05", "\x18\x18\x18\x18\x18"),
            ("\x1b]0;t\x1b[6n", "\x1b]0;t\x18"),
            ("\x1b\x1b[6n\x1b[6\x1b[6nn", "\x1b\x18\x1b[6\x18n"),
            (
                "\x1b[?8c\x1b[>4n\x1b[16m\x1b[>1u\x1b[<u\x1b[u\x1b[22;0t",
                "\x1b[?8c\x1b[>4n\x1b[16m\x1b[>1u\x1b[<u\x1b[u\x1b[22;0t",
            ),
            (
                "a\x1b]11;?\x07\x1b[>0q\x1b[?2026$p\x1b_Ga=q;AA\x1b\\\x1bP+q544e\x1b\\b",
                "a\x18\x18\x18\x18\x18b",
            ),
            ("\x1b]52;c;aGk=\x07\x1b]0;a;?\x07\x07", "\x1b]52;c;aGk=\x07\x1b]0;a;?\x07\x07"),
            ("\x1b[38;2;101;102;103;48;5;6m", "\x1b[38;2;101;102;103;48;5;6m"),
            ("\x1b[3\n1m\x1b[", "\n\x1b[31m\x1b["),
            ("a\u{9b}c\u{9a}\u{9b}>\u{9b}6n\u{9d}11;?\u{9c}b", "a\x18\x18\x1b[>\x18\x18b"),
        ] {
            for step in [1, 2, 3, 100] {
                assert_eq!(show(said.as_bytes(), step).0, passes, "{said:?} by {step}");
            }
        }
        let long = "x".repeat(3 * HELD);
        let kept = format!("\x1b]0;{long}\x07b\x1bPq{long}\x1b\\c");
        assert_eq!(show(kept.as_bytes(), 100).0, kept);
        let asked = format!("a\x1b]4;1;?;{long}\x07b\x1bP+q{long}\x1b\\c");
        assert_eq!(show(asked.as_bytes(), 100).0, "a\x18b\x18c");
        assert_eq!(show(&asked.as_bytes()[..2 * HELD], 100).0, "a\x18");
    }

    #[test]
    fn each_answer_is_that_of_its_moment_and_nobody_else_is_asked() {
        let said = "ab\x1b[6n\r\nc\x1b[6n\x1b[>5u\x1b[?u\x1b]11;?\x07d\x1b[c";
        for step in [1, 2, 3, 100] {
            let answered = ("ab\x18\r\nc\x18\x1b[>5u\x18\x18d\x18", "\x1b[1;3R\x1b[2;2R\x1b[?5u\x1b[?6c");
            assert_eq!(show(said.as_bytes(), step), (answered.0.to_owned(), answered.1.to_owned()));
            // It ends what had begun: nothing of that goes on behind it, least of all as another question.
            assert_eq!(show(b"\x1b[6\x1b[6nn", step).0, "\x1b[6\x18n");
            assert_eq!(show(b"\x1b]0;t\x1b[5nhello\x1b[6n", step).1, "\x1b[0n\x1b[1;6R");
        }
        assert_eq!(show("ab\u{9b}6n".as_bytes(), 1).1, "\x1b[1;3R");
        let flood = "\x1b[c".repeat(1000);
        let (output, answers) = show(flood.as_bytes(), flood.len());
        assert!(!output.contains('\x1b') && answers.len() < 2 * ANSWERS, "{}", answers.len());
    }
}
