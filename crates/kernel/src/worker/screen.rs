//! The terminal as a person would see it now, so that whoever attaches sees it whole, whatever the log has lost.
//!
//! Promise: any output and any size are taken; what is held is bounded by [`ROWS`] and [`COLS`]. A [`picture`](Screen::picture)
//! paints both screens, the scroll region, the cursor, its shape and the saved one, the title, the set of lines, the settings of
//! the keyboard, and the modes of keys, paste, mouse and focus on a terminal as it is at first. So nobody has to ask the
//! program to paint.
//!
//! Left to others: which output comes next (`clients`), and what was printed before (the log).

use std::cell::Cell;
use std::num::NonZeroU16;
use std::sync::Once;

use netsky_disk::fault;
use vt100::Parser;

use super::filter::Filter;
use super::questions::Question;
use super::sequences::{Cutter, Edit};
use crate::frame::{PICTURE_COLS as COLS, PICTURE_ROWS as ROWS};
use crate::log::say;

/// What numbers of colours and other attributes go up to.
const COLOURS: u16 = 255;
/// Deepest stack of keyboard settings; terminals keep no more.
const DEEPEST: usize = 16;
/// Stops of the tabulator in the widest line.
const STOPS: usize = COLS as usize / 8;
/// Longest beginning of a sequence that is given to a client with its picture.
pub(super) const UNFINISHED: usize = 4096;

/// What the program's terminal shows.
pub(super) struct Screen {
    parser: Parser<Told>,
    edits: Cutter,
    filter: Filter,
    /// The beginning of a character: given to the parser in two pieces, it may take what follows along (vte 0.15).
    cut: Vec<u8>,
}

/// What the model tells of and does not keep.
#[derive(Default)]
struct Told {
    title: Vec<u8>,
    /// Whether the program is told when its terminal gets and loses the focus.
    focus: bool,
    /// What the program has put on the stack of keyboard settings, of the main screen and of the other one.
    keyboard: [Vec<u16>; 2],
    /// How keys with modifiers are told (xterm's `modifyOtherKeys`); 0 as at first.
    other_keys: u16,
}

impl Told {
    /// What puts the keyboard as the program has put it on one of the screens.
    fn keyboard(&self, other: bool) -> String {
        self.keyboard[usize::from(other)].iter().map(|flags| format!("\x1b[>{flags}u")).collect()
    }

    /// What a full reset undoes: all but the title.
    fn reset(&mut self) {
        *self = Told { title: std::mem::take(&mut self.title), ..Told::default() };
    }
}

impl vt100::Callbacks for Told {
    fn set_window_title(&mut self, _: &mut vt100::Screen, title: &[u8]) {
        self.title = title.to_vec();
    }

    /// A title with semicolons comes in pieces.
    fn unhandled_osc(&mut self, screen: &mut vt100::Screen, params: &[&[u8]]) {
        if let [b"0" | b"2", title @ ..] = params {
            self.set_window_title(screen, &title.join(&b';'));
        }
    }

    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        mark: Option<u8>,
        _: Option<u8>,
        params: &[&[u16]],
        last: char,
    ) {
        if mark == Some(b'?') && matches!(last, 'h' | 'l') && params.contains(&[1004].as_slice()) {
            self.focus = last == 'h';
        }
        let number = |at: usize| params.get(at).and_then(|number| number.first().copied());
        let keyboard = &mut self.keyboard[usize::from(screen.alternate_screen())];
        match (mark, last) {
            (Some(b'>'), 'u') => {
                // The oldest ones go, as with a terminal.
                keyboard.drain(..(keyboard.len() + 1).saturating_sub(DEEPEST));
                keyboard.push(number(0).unwrap_or(0));
            }
            (Some(b'='), 'u') => {
                let (flags, set) = (number(0).unwrap_or(0), keyboard.pop().unwrap_or(0));
                keyboard.push(match number(1) {
                    Some(2) => set | flags,
                    Some(3) => set & !flags,
                    _ => flags,
                });
            }
            (Some(b'<'), 'u') => {
                let left = keyboard.len().saturating_sub(usize::from(number(0).unwrap_or(0).max(1)));
                keyboard.truncate(left);
            }
            (Some(b'>'), 'm') if number(0) == Some(4) => self.other_keys = number(1).unwrap_or(0),
            _ => {}
        }
    }
}

impl Screen {
    pub(super) fn new(rows: u16, cols: u16) -> Screen {
        let (rows, cols) = (bounded(rows, ROWS), bounded(cols, COLS));
        Screen {
            parser: Parser::new_with_callbacks(rows, cols, 0, Told::default()),
            edits: Cutter::default(),
            filter: Filter::default(),
            cut: Vec::new(),
        }
    }

    /// The program printed this. False when the model broke over it: it is of no use any more, and its program knows
    /// nothing of it.
    pub(super) fn take(&mut self, bytes: &[u8]) -> bool {
        let (mut edits, mut plain, mut held) = (std::mem::take(&mut self.edits), Vec::new(), true);
        edits.cut(bytes, Edit::of, |piece, edit| match edit {
            Some(edit) => held = held && self.give(&std::mem::take(&mut plain)) && self.edit(edit),
            None => plain.extend_from_slice(piece),
        });
        self.edits = edits;
        held && self.give(&plain)
    }

    /// The same in words that the model knows. What has no escape of its own begins by cancelling what had begun.
    fn edit(&mut self, edit: Edit) -> bool {
        let screen = self.parser.screen();
        let back = |stops: usize| {
            let last = screen.cursor_position().1.min(screen.size().1.get() - 1);
            let col = (0..stops.min(STOPS)).fold(last, |col, _| col.saturating_sub(1) / 8 * 8);
            format!("\x1b[{}G", col + 1)
        };
        let words = match edit {
            Edit::Reset => {
                self.parser.callbacks_mut().reset();
                "\x1bc".to_owned()
            }
            Edit::Index => "\x18\n".to_owned(),
            Edit::NextLine => "\x18\r\n".to_owned(),
            Edit::SaveCursor => "\x1b7".to_owned(),
            Edit::RestoreCursor => "\x1b8".to_owned(),
            Edit::Tabs(stops) => format!("\x18{}", "\t".repeat(stops.min(STOPS))),
            Edit::BackTabs(stops) => back(stops),
            Edit::OtherScreen => "\x1b[?47h".to_owned(),
            Edit::MainScreen if screen.alternate_screen() => "\x1b[2J\x1b[?47l".to_owned(),
            Edit::MainScreen => String::new(),
        };
        self.give(words.as_bytes())
    }

    fn give(&mut self, bytes: &[u8]) -> bool {
        let widest = self.widest();
        self.filter.pass(bytes, widest, &mut self.cut);
        let whole = self.cut.len() - begun_character(&self.cut).len();
        let held = unbroken(|| {
            // Only an error can be asked for here.
            fault::point("worker.screen").expect("a model that broke");
            self.parser.process(&self.cut[..whole]);
        });
        self.cut.drain(..whole);
        // An idle session holds no buffer of a read that was large once.
        self.cut.shrink_to(4);
        held
    }

    /// False as with [`Screen::take`].
    pub(super) fn resize(&mut self, rows: u16, cols: u16) -> bool {
        unbroken(|| self.parser.set_size(bounded(rows, ROWS), bounded(cols, COLS)))
    }

    /// More than this no count of a sequence asks for and gets: lines, columns, and the colours, which are counted too.
    fn widest(&self) -> u16 {
        let (rows, cols) = self.parser.screen().size();
        rows.max(cols).get().max(COLOURS)
    }

    /// Whether the program wants what is pasted in brackets now.
    pub(super) fn is_bracketed(&self) -> bool {
        self.parser.screen().bracketed_paste()
    }

    /// What a terminal answers that shows this.
    pub(super) fn answer(&self, question: Question) -> String {
        match question {
            // A VT102.
            Question::Attributes => "\x1b[?6c".to_owned(),
            // As old a terminal as knows the mouse of today: programs ask it no further.
            Question::Version => "\x1b[>0;95;0c".to_owned(),
            Question::Status => "\x1b[0n".to_owned(),
            Question::Cursor => {
                let screen = self.parser.screen();
                let (row, col) = screen.cursor_position();
                // The top of the scroll region where the program counts from there.
                let first = probe(screen, b"\x1b[1;1H").cursor_position().0;
                let last = screen.size().1.get() - 1;
                format!("\x1b[{};{}R", row.saturating_sub(first) + 1, col.min(last) + 1)
            }
            Question::Keyboard => {
                let keyboard = &self.parser.callbacks().keyboard;
                let flags = keyboard[usize::from(self.parser.screen().alternate_screen())].last();
                format!("\x1b[?{}u", flags.unwrap_or(&0))
            }
        }
    }

    /// What paints it. `tail` is the end of the output so far: a sequence that has only begun there goes along, so that
    /// the output after it means the same to the painted terminal as to the program's.
    pub(super) fn picture(&self, tail: &[u8]) -> Vec<u8> {
        let screen = self.parser.screen();
        let mut out = String::new();
        let told = self.parser.callbacks();
        if !told.title.is_empty() {
            out.push_str(&format!(
                "\x1b]2;{}\x07",
                netsky_model::render::line(&String::from_utf8_lossy(&told.title))
            ));
        }
        if screen.alternate_screen() {
            let main = probe(screen, b"\x1b[?47l");
            out.push_str(&main.contents_formatted());
            out.push_str(&saved(&main));
            out.push_str(&told.keyboard(false));
            out.push_str("\x1b[?1049h");
        }
        out.push_str(&screen.contents_formatted());
        out.push_str(&saved(screen));
        let (rows, _) = screen.size();
        let top = probe(screen, b"\x1b[?6h\x1b[1;1H").cursor_position().0;
        let bottom = probe(screen, b"\x1b[?6h\x1b[65535;1H").cursor_position().0;
        if top > 0 || bottom + 1 < rows.get() {
            out.push_str(&format!("\x1b[{};{}r", top + 1, bottom + 1));
            out.push_str(&screen.cursor_state_formatted());
            let relative = top > 0 && probe(screen, b"\x1b[1;1H").cursor_position().0 == top;
            if relative {
                let (row, col) = screen.cursor_position();
                let row = row.saturating_sub(top);
                out.push_str(&format!("\x1b[?6h\x1b[{};{}H", row + 1, col + 1));
            }
            out.push_str(&screen.attributes_formatted());
        }
        out.push_str(&screen.input_mode_formatted());
        if told.focus {
            out.push_str("\x1b[?1004h");
        }
        out.push_str(&told.keyboard(screen.alternate_screen()));
        if told.other_keys > 0 {
            out.push_str(&format!("\x1b[>4;{}m", told.other_keys));
        }
        out.push_str(&self.filter.state());
        let mut out = out.into_bytes();
        out.extend_from_slice(unfinished(tail));
        out
    }
}

thread_local! {
    /// Whether a panic of this thread is caught and told in a line of its own.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Whether it was done: whatever a program prints, a mistake in the model must not take the program along, nor fill the
/// log with the way it went.
fn unbroken(work: impl FnOnce()) -> bool {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !CAUGHT.get() {
                loud(info);
            }
        }));
    });
    CAUGHT.set(true);
    // What it was about is thrown away after a panic, so nobody sees it half done.
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_ok();
    CAUGHT.set(false);
    if !done {
        say!("the picture of a screen broke over some output; its program goes on without");
    }
    done
}

fn bounded(length: u16, most: u16) -> NonZeroU16 {
    NonZeroU16::new(length.min(most)).unwrap_or(NonZeroU16::MIN)
}

/// The screen as it would be after these bytes: the model does not tell its scroll region and its other screen.
fn probe(screen: &vt100::Screen, bytes: &[u8]) -> vt100::Screen {
    let mut parser = Parser::default();
    *parser.screen_mut() = screen.clone();
    parser.process(bytes);
    parser.screen().clone()
}

/// What saves the cursor where and as the program has saved it, and puts the present one back.
fn saved(screen: &vt100::Screen) -> String {
    let restored = probe(screen, b"\x1b8");
    let there = format!("{}{}", restored.cursor_state_formatted(), restored.attributes_formatted());
    let here = format!("{}{}", screen.cursor_state_formatted(), screen.attributes_formatted());
    format!("{there}\x1b7{here}")
}

/// The sequence or character at the end of the output that has begun and not ended.
fn unfinished(tail: &[u8]) -> &[u8] {
    if let Some(at) = tail.iter().rposition(|byte| *byte == 0x1b) {
        let begun = &tail[at..];
        // A cancelled sequence is over; what comes after it is text.
        if !begun.iter().any(|byte| matches!(byte, 0x18 | 0x1a)) && !has_ended(begun) {
            return begun;
        }
    }
    begun_character(tail)
}

/// The character at the end that has begun and not ended.
fn begun_character(tail: &[u8]) -> &[u8] {
    let last = &tail[tail.len().saturating_sub(3)..];
    match last.iter().rposition(|byte| *byte >= 0xc0) {
        Some(at) if std::str::from_utf8(&last[at..]).is_err_and(|e| e.error_len().is_none()) => &last[at..],
        _ => b"",
    }
}

/// Whether a sequence, whose only escape is its first byte, is over somewhere in these bytes.
fn has_ended(begun: &[u8]) -> bool {
    match begun {
        [_] => false,
        [_, b'[', rest @ ..] => rest.iter().any(|byte| (0x40..=0x7e).contains(byte)),
        [_, b']', rest @ ..] => rest.contains(&0x07),
        // These end with an escape and a backslash, which would be the last escape.
        [_, b'P' | b'_' | b'^' | b'X', ..] => false,
        [_, rest @ ..] => rest.iter().any(|byte| !(0x20..=0x2f).contains(byte)),
        [] => true,
    }
}

#[cfg(test)]
mod golden;

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> Screen {
        let mut screen = Screen::new(6, 20);
        screen.take(bytes);
        screen
    }

    /// Everything a program can tell apart: what is shown, and what more output makes of it.
    fn assert_same(left: &mut Screen, right: &mut Screen, why: &str) {
        for more in ["", "x", "\x1b8saved", "\r\n\n\n\n\n\nend", "\x1b[?1049lback"] {
            left.take(more.as_bytes());
            right.take(more.as_bytes());
            let [left, right] = [left.parser.screen(), right.parser.screen()];
            assert_eq!(left.state_formatted(), right.state_formatted(), "{why:?} and then {more:?}");
            assert_eq!(left.alternate_screen(), right.alternate_screen(), "{why:?} and then {more:?}");
        }
    }

    /// What each of these leaves on a screen, painted on a new one and gone on with, is the same as without the painting.
    #[test]
    fn a_picture_is_the_screen_wherever_the_output_was_cut() {
        for golden in [
            "plain\r\nlines",
            "\x1b[1;3;4;7mall\x1b[0m \x1b[38;2;1;2;3;48;5;200mcolours",
            "wide 日本語 é e\u{301} \u{1f600}|",
            "\x1b[2;4r\x1b[3;5Hin the region",
            "\x1b[2;4r\x1b[?6h\x1b[2;3Hrelative",
            "main screen\x1b[?1049h\x1b[2J\x1b[3;4Hthe other",
            "\x1b[?25l\x1b[?1h\x1b=\x1b[?2004h\x1b[?1002h\x1b[?1006h",
            "12345678901234567890",
            "\x1b]0;a title\x07after \x1bP+q544e\x1b\\strings",
            "\x1b[31mred to the end of \x1b[Kline",
            "\x1b[2;3H\x1b[32m\x1b7\x1b[0m\x1b[4;1Hsaved",
            "\x1b(0lqqk\r\nx  x\x1b(B plain",
        ] {
            let bytes = golden.as_bytes();
            for cut in 0..=bytes.len() {
                let (before, after) = bytes.split_at(cut);
                let mut painted = shown(&shown(before).picture(before));
                painted.take(after);
                assert_same(&mut painted, &mut shown(bytes), &format!("{golden} cut at {cut}"));
            }
        }
    }

    #[test]
    fn a_picture_has_the_title_the_set_of_lines_and_whether_the_focus_is_told() {
        let mut screen = shown(b"\x1b]2;a \x9btitle\x07\x1b[?1000;1004h\x1b(0q");
        let picture = |screen: &Screen| String::from_utf8(screen.picture(b"")).expect("text");
        assert!(picture(&screen).starts_with("\x1b]2;a "), "{:?}", picture(&screen));
        assert!(picture(&screen).contains("title\x07") && picture(&screen).contains('─'));
        assert!(picture(&screen).ends_with("\x1b[?1004h\x1b(0"), "{:?}", picture(&screen));
        screen.take(b"\x1b[?1004l\x1b(B");
        assert!(!picture(&screen).contains("1004") && !picture(&screen).contains("\x1b(0"));
        screen.take(b"\x1b[>1u\x1b[>4;2m\x1b[?1049h\x1b[>5u\x1b[>7u\x1b[<u\x1b[6 q");
        let keyed = picture(&screen);
        assert!(keyed.contains("\x1b[>1u\x1b[?1049h"), "each screen has its keyboard: {keyed:?}");
        assert!(keyed.ends_with("\x1b[6 q\x1b[>5u\x1b[>4;2m"), "{keyed:?}");
        let mut painted = shown(keyed.as_bytes());
        assert_eq!(picture(&painted), keyed, "a picture of the picture is the same");
        painted.take(b"\x1b[<9u\x1b[>4m\x1b[0 q\x1b[?1049l\x1b[<u");
        assert!(!picture(&painted).contains("u\x1b") && !picture(&painted).contains(">4"));
        (0..100).for_each(|_| assert!(painted.take(b"\x1b[>1u")));
        assert_eq!(picture(&painted).matches("\x1b[>1u").count(), DEEPEST);
        // Its parser keeps no more of a string.
        screen.take(&[&b"\x1b]0;"[..], &[b'x'; 4096], b"\x07"].concat());
        assert!(picture(&screen).len() < 2048);
    }

    #[test]
    fn a_reset_takes_the_settings_of_the_keyboard_along_and_they_can_be_set_without_the_stack() {
        let keys = |bytes: &[u8]| {
            let screen = shown(bytes);
            let picture = String::from_utf8(screen.picture(b"")).expect("text");
            let pushed = picture.match_indices("\x1b[>").map(|(at, _)| &picture[at + 3..]);
            let pushed =
                pushed.map(|rest| rest.split_inclusive(['u', 'm']).next().unwrap_or_default().to_owned());
            (pushed.collect::<Vec<_>>().join(" "), screen.answer(Question::Keyboard))
        };
        let told = |pushed: &str, flags: &str| (pushed.to_owned(), format!("\x1b[?{flags}u"));
        assert_eq!(keys(b"\x1b[>1u\x1b[>4;2m\x1b[?1004h"), told("1u 4;2m", "1"));
        assert_eq!(keys(b"\x1b[>1u\x1b[>4;2m\x1b[?1004h\x1bc"), told("", "0"));
        assert_eq!(keys(b"\x1b[?1049h\x1b[>1u\x1bc"), told("", "0"));
        assert_eq!(keys(b"\x1b[=5u"), told("5u", "5"));
        assert_eq!(keys(b"\x1b[>1u\x1b[=4;2u\x1b[>8u\x1b[=12;1u"), told("5u 12u", "12"));
        assert_eq!(keys(b"\x1b[=7;1u\x1b[=2;3u\x1b[=0;2u"), told("5u", "5"));
        assert_eq!(keys(b"\x1b[>1u\x1b[>3u\x1b[>7u\x1b[<2u"), told("1u", "1"));
        assert_eq!(keys(b"\x1b[>1u\x1b[?1049h\x1b[>3u\x1b[?1049l"), told("1u", "1"));
        let many: String = (0..=DEEPEST).map(|n| format!("\x1b[>{n}u")).collect();
        assert!(keys(many.as_bytes()).0.starts_with("1u 2u "), "the oldest one goes");
    }

    /// What one of these leaves on the screen is what the other one does, whatever the output was cut into.
    #[test]
    fn sequences_that_the_model_does_not_know_are_told_in_others() {
        for (said, same) in [
            ("\x1b[2;3H\x1b[32m\x1b[s\x1b[0m\x1b[4;1Hx\x1b[uy", "\x1b[4;1Hx\x1b[2;3H\x1b[32my"),
            ("\x1b[2;3H\x1b[?1048h\x1b[4;1Hx\x1b[?1048ly", "\x1b[4;1Hx\x1b[2;3Hy"),
            ("a\x1bDb\x1bEc", "a\x1b[2;2Hb\x1b[3;1Hc"),
            ("top\x1b[6;1Hlast\x1bDx\x1bEy", "\x1b[4;1Hlast\x1b[5;5Hx\x1b[6;1Hy"),
            ("\x1b]0;cut\x1bDx", "\x1b[2;1Hx"),
            ("a\x1b[Ib\x1b[2Ic", "a\x1b[1;9Hb\x1b[1;20Hc"),
            ("a\x1b[65535Ib", "a\x1b[1;20Hb"),
            ("12345678901234567890\x1b[Zx\x1b[2Zy\x1b[9Zz", "z2345678y0123456x890\x1b[1;2H"),
            ("\x1b[1;9H\x1b[Zx", "x"),
            ("main\x1b[?1047h\x1b[Hother\x1b[?1047l", "main\x1b[?47h\x1b[Hother\x1b[2J\x1b[?47l"),
            ("main\x1b[?1047l", "main"),
        ] {
            for step in [1, 2, 3, 100] {
                let mut pieces = Screen::new(6, 20);
                said.as_bytes().chunks(step).for_each(|piece| assert!(pieces.take(piece)));
                let (pieces, same) = (pieces.parser.screen(), shown(same.as_bytes()));
                assert_eq!(
                    pieces.contents_formatted(),
                    same.parser.screen().contents_formatted(),
                    "{said:?} by {step}"
                );
            }
        }
        let mut other = shown(b"main\x1b[?1047h");
        assert!(other.parser.screen().alternate_screen());
        other.take(b"other\x1b[?1047l\x1b[?47h");
        assert_eq!(other.parser.screen().contents(), "");
    }

    #[test]
    fn a_title_may_have_semicolons() {
        let title = |said: &[u8]| String::from_utf8(shown(said).picture(b"")).expect("text");
        assert!(title(b"\x1b]0;make; make test\x07").starts_with("\x1b]2;make; make test\x07"));
        assert!(title(b"\x1b]2;;a;\x1b\\").starts_with("\x1b]2;;a;\x07"));
        assert!(!title(b"\x1b]1;an;icon\x07\x1b]4;1;rgb:0/0/0\x07").contains("\x1b]2"));
    }

    #[test]
    fn a_question_is_answered_as_by_a_terminal_that_shows_this() {
        let answer = |said: &[u8], question| shown(said).answer(question);
        assert_eq!(answer(b"", Question::Attributes), "\x1b[?6c");
        assert_eq!(answer(b"", Question::Version), "\x1b[>0;95;0c");
        assert_eq!(answer(b"", Question::Status), "\x1b[0n");
        for (said, there) in [
            ("", "1;1"),
            ("\x1b[3;5H", "3;5"),
            ("12345678901234567890", "1;20"),
            ("\x1b[2;4r\x1b[3;5H", "3;5"),
            ("\x1b[2;4r\x1b[?6h\x1b[3;5H", "3;5"),
            ("\x1b[2;4r\x1b[?6h", "1;1"),
            ("\x1b[?1049h\x1b[6;20H", "6;20"),
        ] {
            assert_eq!(answer(said.as_bytes(), Question::Cursor), format!("\x1b[{there}R"), "{said:?}");
        }
        assert_eq!(answer(b"\x1b[>1u\x1b[?1049h", Question::Keyboard), "\x1b[?0u");
    }

    #[test]
    fn a12_a_character_that_is_to_be_repeated_for_ever_is_repeated_for_a_line() {
        let mut screen = Screen::new(24, 80);
        screen.take(b"x\x1b[65535b");
        assert_eq!(screen.parser.screen().contents().matches('x').count(), 256);
        screen.take(b"\x1b[2J\x1b[Hy\x1b[79b");
        assert_eq!(screen.parser.screen().contents().trim_end(), "y".repeat(80));
        screen.take(b"\x1b[999;999H");
        assert_eq!(screen.parser.screen().cursor_position(), (23, 79));
    }

    /// No output and no size makes it panic (a cheap stand-in for a fuzzer), and its picture can be painted.
    #[test]
    fn a10_arbitrary_output_and_sizes_never_panic() {
        let pieces: [&[u8]; 16] = [
            b"\x1b[",
            b"\x1b]",
            b"\x1bP",
            b"\x1b\\",
            b"?1049h",
            b"?1049l",
            b"?6h",
            b";",
            b"r",
            b"65535",
            b"L",
            b"M",
            "日".as_bytes(),
            b"\x1b[b",
            b"\x1b8",
            b"\x1b[?47h",
        ];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 33).expect("31 bits")
        };
        let mut screen = Screen::new(0, 0);
        let mut tail = Vec::new();
        for _ in 0..30_000 {
            let byte = [u8::try_from(random() % 256).expect("a byte")];
            let piece = if random() % 3 == 0 { &byte } else { pieces[random() % pieces.len()] };
            assert!(screen.take(piece));
            tail.extend_from_slice(piece);
            match random() % 100 {
                0 => assert!(screen.resize(
                    u16::try_from(random() % 9).expect("fits"),
                    u16::try_from(random() % 9).expect("fits"),
                )),
                1 => drop(shown(&screen.picture(&tail[tail.len().saturating_sub(UNFINISHED)..]))),
                _ => {}
            }
        }
        screen.resize(u16::MAX, u16::MAX);
        assert_eq!(screen.parser.screen().size(), (bounded(ROWS, ROWS), bounded(COLS, COLS)));
    }
}
