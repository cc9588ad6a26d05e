//! What a program asks its terminal, which must have one answer: without any it waits for seconds or ends, and what a second
//! terminal answers is typed into it.
//!
//! Promise: what the screen's model knows is answered whether somebody is attached or not, each question as of the output
//! before it. What was answered here is asked nobody else: in the output that is passed on a cancel stands in its place, so
//! that what had begun before it ends there as it would have. Anything else is passed on byte for byte, the beginning of a
//! sequence once it is known to be no question.
//!
//! Left to others: the answers (`screen`), who else could give one (`clients`), and the way to the program (`input`).

use super::screen::Screen;
use super::sequences::Cutter;

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
#[derive(Debug, Default)]
pub(super) struct Questions {
    cutter: Cutter,
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
    /// Show a piece of output on the screen; questions pass as anything else where they are not to be answered.
    pub(super) fn show(&mut self, bytes: &[u8], screen: &mut Screen, answer: bool) -> Shown {
        let mut shown =
            Shown { output: Vec::with_capacity(bytes.len()), answers: String::new(), whole: true };
        let mut at = 0;
        self.cutter.cut(bytes, Question::of, |piece, question| match question.filter(|_| answer) {
            Some(question) => {
                shown.whole = shown.whole && screen.take(&shown.output[at..]);
                at = shown.output.len();
                // It would have ended what had begun before it, which is not to go on with what comes after it.
                shown.output.push(CANCEL);
                if shown.whole && shown.answers.len() < ANSWERS {
                    shown.answers.push_str(&screen.answer(question));
                }
            }
            None => shown.output.extend_from_slice(piece),
        });
        shown.whole = shown.whole && screen.take(&shown.output[at..]);
        if !shown.whole {
            shown.output.extend(self.finish());
        }
        shown
    }

    /// What has begun and is not to be waited for any more.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        self.cutter.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything, with what was known in brackets.
    fn cut(bytes: &[u8], step: usize) -> String {
        let (mut cutter, mut out) = (Cutter::default(), String::new());
        for piece in bytes.chunks(step) {
            cutter.cut(piece, Question::of, |piece, question| match question {
                Some(question) => out.push_str(&format!("<{question:?}>")),
                None => out.push_str(std::str::from_utf8(piece).expect("text")),
            });
        }
        out + std::str::from_utf8(&cutter.finish()).expect("text")
    }

    #[test]
    fn questions_are_found_wherever_the_output_was_cut_and_everything_else_passes_as_it_is() {
        for (said, passes) in [
            ("a\x1b[cb\x1b[0cc\x1bZd", "a<Attributes>b<Attributes>c<Attributes>d"),
            ("\x1b[>c\x1b[>0c\x1b[5n\x1b[6n\x1b[?u", "<Version><Version><Status><Cursor><Keyboard>"),
            ("\x1b]0;t\x1b[6n", "\x1b]0;t<Cursor>"),
            ("\x1b\x1b[6n\x1b[6\x1b[6nn", "\x1b<Cursor>\x1b[6<Cursor>n"),
            (
                "\x1b[1c\x1b[=c\x1b[?c\x1b[?6n\x1b[16n\x1b[>1u\x1b[<u\x1b[u",
                "\x1b[1c\x1b[=c\x1b[?c\x1b[?6n\x1b[16n\x1b[>1u\x1b[<u\x1b[u",
            ),
            (
                "\x1b]11;?\x07\x1b[>0q\x1b[?2026$p\x1b_Gi=1\x1b\\\x1bP+q544e\x1b\\",
                "\x1b]11;?\x07\x1b[>0q\x1b[?2026$p\x1b_Gi=1\x1b\\\x1bP+q544e\x1b\\",
            ),
            ("\x1b[38;2;101;102;103;48;5;6n", "\x1b[38;2;101;102;103;48;5;6n"),
            ("\x1b[6\nn\x1b[", "\x1b[6\nn\x1b["),
        ] {
            for step in [1, 2, 3, 100] {
                assert_eq!(cut(said.as_bytes(), step), passes, "{said:?} by {step}");
            }
        }
    }

    #[test]
    fn each_answer_is_that_of_its_moment_and_what_was_answered_is_not_passed_on() {
        let show = |bytes: &[u8], step: usize, answer: bool| {
            let (mut questions, mut screen) = (Questions::default(), Screen::new(6, 20));
            let (mut output, mut answers) = (Vec::new(), String::new());
            for piece in bytes.chunks(step) {
                let shown = questions.show(piece, &mut screen, answer);
                assert!(shown.whole);
                output.extend(shown.output);
                answers += &shown.answers;
            }
            output.extend(questions.finish());
            (String::from_utf8(output).expect("text"), answers)
        };
        let said = "ab\x1b[6n\r\nc\x1b[6n\x1b[>5u\x1b[?u\x1b]11;?\x07d";
        for step in [1, 2, 3, 100] {
            let answered = ("ab\x18\r\nc\x18\x1b[>5u\x18\x1b]11;?\x07d", "\x1b[1;3R\x1b[2;2R\x1b[?5u");
            assert_eq!(show(said.as_bytes(), step, true), (answered.0.to_owned(), answered.1.to_owned()));
            assert_eq!(show(said.as_bytes(), step, false), (said.to_owned(), String::new()));
            // It ends what had begun: nothing of that goes on behind it, least of all as another question.
            assert_eq!(show(b"\x1b[6\x1b[6nn", step, true).0, "\x1b[6\x18n");
            assert_eq!(show(b"\x1b]0;t\x1b[5nhello\x1b[6n", step, true).1, "\x1b[0n\x1b[1;6R");
        }
        let flood = "\x1b[c".repeat(1000);
        let (output, answers) = show(flood.as_bytes(), flood.len(), true);
        assert!(!output.contains('\x1b') && answers.len() < 2 * ANSWERS, "{}", answers.len());
    }
}
