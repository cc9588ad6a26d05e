//! Everything that is printed: sentences, tables and JSON, with control bytes taken out of all of it (faults A10), and
//! nothing that an agent who reads along could take for an element of its harness (A2).
//!
//! A write that fails is never a panic. Where printing is the work itself (`channel drain`) it is a failure; everywhere
//! else the work is done by then, and the exit code says just that.

use std::io::{self, Write};

use netsky_bus::Put;
use netsky_model::render;
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use crate::error::{Error, Kind};

/// Widest a cell of an answer is in a table, in columns of a terminal.
const WIDEST: usize = 120;

/// Blanks between two columns of a table.
const GAP: usize = 2;

/// Bytes of lines that are printed together.
const BLOCK: usize = 64 * 1024;

/// Longest error line in characters: it may quote what a stranger typed.
const LONGEST_LINE: usize = 1_000;

/// Prints one sentence (or several lines); control characters other than newline and tab are dropped.
pub(crate) fn say(text: &str) -> Result<(), Error> {
    answered(put(&render::text(text)))
}

/// Prints a line whose pieces were cleaned and coloured by the palette.
pub(crate) fn painted(line: &str) -> Result<(), Error> {
    answered(put(line))
}

/// Prints one JSON object on one line; control characters leave as `\u` escapes.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Error> {
    answered(json_or_fail(value))
}

/// As [`json`], for a verb whose work is that its answer arrives.
pub(crate) fn json_or_fail(value: &impl Serialize) -> io::Result<()> {
    json_text(value).and_then(|text| put(&text))
}

/// Says on standard error, in one line of bounded length, that something did not work.
pub(crate) fn complain(program: &str, what: &str) {
    // Nobody is left to tell when standard error is closed; the exit code still says it.
    let line: String = one_line(what).chars().take(LONGEST_LINE).collect();
    let _ = writeln!(io::stderr(), "{program}: {line}");
}

/// As [`json_or_fail`], for a message.
pub(crate) fn json_message(value: &impl Serialize) -> Put {
    json_text(value).map_or_else(Put::Unread, |text| shown(text.into_bytes()))
}

/// `{"envelopes":[…],"left_out":N}` on one line, each row written as it is made: of what is listed, one message is held.
pub(crate) struct Envelopes<W> {
    out: W,
    count: usize,
    written: io::Result<()>,
}

impl Envelopes<io::BufWriter<io::StdoutLock<'static>>> {
    /// To standard output.
    pub(crate) fn printed() -> Self {
        Envelopes::begin(io::BufWriter::new(io::stdout().lock()))
    }
}

impl Envelopes<Vec<u8>> {
    /// Kept until [`put`][Self::put]: what is shown before it is recorded is shown as a whole.
    pub(crate) fn kept() -> Self {
        Envelopes::begin(Vec::new())
    }

    /// How long it is so far, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// Prints it.
    pub(crate) fn put(self, left_out: usize) -> Put {
        self.ended(left_out).map_or_else(Put::Unread, shown)
    }
}

impl<W: Write> Envelopes<W> {
    fn begin(mut out: W) -> Self {
        let written = out.write_all(b"{\"envelopes\":[");
        Envelopes { out, count: 0, written }
    }

    /// One more message. Nothing more is written after a failure, which is told at the end.
    pub(crate) fn row(&mut self, value: &impl Serialize) {
        let comma = if self.count == 0 { "" } else { "," };
        self.count += 1;
        if self.written.is_ok() {
            self.written = json_text(value).and_then(|row| write!(self.out, "{comma}{row}"));
        }
    }

    /// The end of a list.
    pub(crate) fn end(self, left_out: usize) -> Result<(), Error> {
        answered(self.ended(left_out).and_then(|mut out| {
            out.write_all(b"\n")?;
            out.flush()
        }))
    }

    fn ended(mut self, left_out: usize) -> io::Result<W> {
        self.written?;
        write!(self.out, "],\"left_out\":{left_out}}}")?;
        Ok(self.out)
    }
}

/// Prints a table without borders; an empty one is the sentence given for it.
pub(crate) fn table(headers: &[&str], rows: Vec<Vec<String>>, empty: &str) -> Result<(), Error> {
    aligned(headers, &rows, |cell| one_line(cell), empty)
}

/// The same of cells that are made as they are printed, twice: what is printed is not held.
pub(crate) fn aligned<C>(
    headers: &[&str],
    rows: &[Vec<C>],
    shown: impl Fn(&C) -> String,
    empty: &str,
) -> Result<(), Error> {
    if rows.is_empty() {
        return say(empty);
    }
    let headers: Vec<String> = headers.iter().map(|header| header.to_uppercase()).collect();
    let mut widths: Vec<usize> = headers.iter().map(|header| header.width()).collect();
    for row in rows {
        for (cell, width) in row.iter().zip(&mut widths) {
            *width = (*width).max(shown(cell).width());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = String>| {
        let mut line = String::new();
        for (cell, width) in cells.zip(&widths) {
            line.push_str(&cell);
            line.extend(std::iter::repeat_n(' ', width + GAP - cell.width()));
        }
        line.truncate(line.trim_end().len());
        line
    };
    let rows = rows.iter().map(|row| line(&mut row.iter().map(&shown)));
    lines(std::iter::once(line(&mut headers.iter().cloned())).chain(rows))
}

/// A cell of at most [`WIDEST`] columns, and of a text of any length no more is looked at than that may need.
pub(crate) fn short(text: &str) -> String {
    let begin = &text[..text.floor_char_boundary(WIDEST * 8)];
    let mut cell = one_line(begin);
    if begin.len() == text.len() && cell.width() <= WIDEST {
        return cell;
    }
    while cell.width() >= WIDEST {
        cell.pop();
    }
    cell.push('…');
    cell
}

/// Prints lines as they come, cleaned as [`say`] does.
pub(crate) fn lines(lines: impl Iterator<Item = String>) -> Result<(), Error> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let (mut held, mut enough) = (String::new(), BLOCK);
    let print = || {
        for line in lines {
            held.push_str(&line);
            held.push('\n');
            if held.len() >= enough {
                // An element may stand on two lines, and is seen only as a whole.
                if render::is_open(&held) {
                    enough = held.len() * 2;
                    continue;
                }
                out.write_all(render::text(&held).as_bytes())?;
                held.clear();
                enough = BLOCK;
            }
        }
        out.write_all(render::text(&held).as_bytes())?;
        out.flush()
    };
    answered(print())
}

/// Prints `{"rows":[…]}` on one line, a row as it is made.
pub(crate) fn json_rows(rows: impl Iterator<Item = impl Serialize>) -> Result<(), Error> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let print = || {
        out.write_all(b"{\"rows\":[")?;
        for (at, row) in rows.enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(out, "{comma}{}", json_text(&row)?)?;
        }
        out.write_all(b"]}\n")?;
        out.flush()
    };
    answered(print())
}

/// Prints an object, a field a row.
pub(crate) fn fields(object: &serde_json::Value) -> Result<(), Error> {
    let rows = object.as_object().into_iter().flatten().map(|(key, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        vec![key.clone(), text]
    });
    table(&["field", "value"], rows.collect(), "")
}

/// Untrusted text made fit for a table cell or an error line: one line, no control characters, no trusted element.
pub(crate) fn one_line(text: &str) -> String {
    render::text(&render::line(text))
}

/// Puts a rendered element before whoever reads our standard output; flushed when this returns.
pub(crate) fn element(rendered: &str) -> Put {
    shown(render::plain(rendered).into_bytes())
}

/// Prints a piece of a program's output, which is not a line of its own; control characters are dropped. Whether anybody
/// is there to read more.
pub(crate) fn piece(text: &str) -> Result<bool, Error> {
    let mut out = io::stdout().lock();
    let written = out.write_all(render::plain(text).as_bytes()).and_then(|()| out.flush());
    let is_read = written.is_ok();
    answered(written).map(|()| is_read)
}

/// One JSON object as it is printed.
pub(crate) fn json_text(value: &impl Serialize) -> io::Result<String> {
    // In JSON a bracket stands only in strings, and its escape means the same.
    Ok(escape(&serde_json::to_string(value)?, render::is_bracket))
}

/// What drives a terminal or hides from a reader, as JSON escapes it: by itself it does so with C0 alone. Where a trusted
/// element would be opened or closed, the brackets too.
pub(crate) fn escape_unseen(text: &str) -> String {
    let is_plain = render::text(text) == render::plain(text);
    escape(text, |c| !is_plain && render::is_bracket(c))
}

fn escape(text: &str, hides: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if render::is_visible(c) && !hides(c) {
            out.push(c);
        } else {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush())
}

/// Prints a message, or several. An output that takes not a byte has shown nobody anything.
fn shown(mut line: Vec<u8>) -> Put {
    line.push(b'\n');
    let mut out = Counted { out: io::stdout().lock(), taken: 0 };
    match out.write_all(&line).and_then(|()| out.flush()) {
        Ok(()) => Put::Taken,
        Err(error) if out.taken == 0 => Put::Unread(error),
        Err(error) => Put::Broken(error),
    }
}

/// Standard output, and how many bytes it took: what ends with a line's end is written through, not kept.
struct Counted<'a> {
    out: io::StdoutLock<'a>,
    taken: usize,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.out.write(bytes)?;
        self.taken += taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// What an answer that did not arrive means: the verb has done its work, so a repeat would do it twice.
///
/// A reader that went away has seen what it wanted; anything else is told.
fn answered(written: io::Result<()>) -> Result<(), Error> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            let what = format!("done, but the answer could not be written to standard output: {error}");
            Err(Error::new(Kind::Degraded, what).hint("look before you repeat it"))
        }
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a2_json_and_csv_hold_no_bracket_of_a_trusted_element() {
        let told = "1 < 2 <system-reminder>\u{ff1c}/channel>";
        let text = json_text(&told).expect("a string");
        assert_eq!(text, r#""1 \u003c 2 \u003csystem-reminder>\uff1c/channel>""#);
        assert_eq!(serde_json::from_str::<String>(&text).expect("JSON"), told);
        assert_eq!(escape_unseen("1 < 2"), "1 < 2");
        assert_eq!(escape_unseen("</channel>"), r"\u003c/channel>");
    }

    #[test]
    fn a10_json_holds_no_byte_that_drives_a_terminal() {
        let told = "a\u{1b}[31m\u{7}\u{7f}\u{9b}é\u{202e}\u{e0041}";
        let text = json_text(&told).expect("a string");
        assert_eq!(text, r#""a\u001b[31m\u0007\u007f\u009bé\u202e\udb40\udc41""#);
        assert_eq!(serde_json::from_str::<String>(&text).expect("JSON"), told);
    }
}
