//! One piece of a transcript, as it stands on a page.
//!
//! Promise: at the left edge stands only what netsky says; whatever a program says is indented, on every row, so that no
//! program can write a line that looks like ours. Nothing of it drives a terminal or reads as a trusted element (A2, A10).

use netsky_kernel::drain::Usage;
use netsky_model::id::AgentId;
use netsky_model::render;
use netsky_runtime::driver::{Ask, AskKind, Outcome};
use netsky_runtime::transcript::{Piece, Text, Told};
use unicode_width::UnicodeWidthChar as _;

use super::markdown::{self, Line};
use crate::palette::{Palette, Tone};

/// What stands before each row but the first of a piece.
const INDENT: &str = "  ";
/// Narrowest page on which rows are broken by us.
const NARROW: usize = 20;
/// Longest line that stands for something folded, in characters.
const FOLDED: usize = 200;
/// Characters of an id that tell it from others.
const ID: usize = 8;

/// How pages are set.
pub(super) struct Page {
    pub(super) palette: Palette,
    /// Whose transcript.
    pub(super) agent: AgentId,
    /// Columns of the terminal; none where rows are as long as they are.
    pub(super) columns: Option<usize>,
    /// What ends a row.
    pub(super) end: &'static str,
    /// Whether questions are answered at this terminal.
    pub(super) answers: bool,
}

impl Page {
    /// Sets a piece; nothing where it is nothing to read.
    pub(super) fn set(&self, piece: &Piece) -> String {
        match piece {
            Piece::Told(told) => self.told(told),
            Piece::Says(text) => {
                self.entry(&format!("{}: ", self.agent), Tone::Good, self.markdown(text), text)
            }
            Piece::Uses { name, input } => {
                let what = one_line(&format!("{name}: {input}"));
                self.rows(&[vec![(Tone::Note, "● ".to_owned()), (Tone::Plain, what)]])
            }
            Piece::Result { failed, first, more } => self.result(*failed, first, *more),
            Piece::Note(text) => self.entry("note: ", Tone::Faint, markdown::plain(&text.text), text),
            Piece::Asked(ask) => self.asked(ask),
            Piece::Withdrawn { .. } => String::new(),
            Piece::Ended { outcome, usage } => self.ended(outcome, usage),
            Piece::Trouble(doing) => self.say(Tone::Bad, &format!("! {}", one_line(&doing.to_string()))),
            Piece::Compacted => self.say(Tone::Faint, "── its context was full: it goes on with a summary"),
            Piece::Began => self.say(Tone::Faint, "── its program was started again"),
            Piece::TooLong => self.say(Tone::Faint, "── a line was too long to be read"),
        }
    }

    /// Words of ours.
    pub(super) fn say(&self, tone: Tone, what: &str) -> String {
        self.rows(&[vec![(tone, render::text(&render::line(what)))]])
    }

    fn told(&self, told: &Told) -> String {
        let mut flags = Vec::new();
        if let Some(attempt) = told.again {
            flags.push(format!("again, attempt {attempt}"));
        }
        // What the owner types is vouched for by nobody.
        if told.unverified && told.from.as_deref() != Some("owner") {
            flags.push("unverified".to_owned());
        }
        let flags = if flags.is_empty() { String::new() } else { format!(" ({})", flags.join("; ")) };
        let from = one_line(told.from.as_deref().unwrap_or("?"));
        let label = format!("{from} → {}{flags}: ", self.agent);
        self.entry(&label, Tone::Strong, markdown::plain(&told.text.text), &told.text)
    }

    fn markdown(&self, text: &Text) -> Vec<Line> {
        if self.palette.is_on() { markdown::set(&text.text) } else { markdown::plain(&text.text) }
    }

    /// A text behind who says it.
    fn entry(&self, label: &str, tone: Tone, mut lines: Vec<Line>, text: &Text) -> String {
        let end = lines.iter().rposition(|line| !is_blank(line)).map_or(0, |at| at + 1);
        lines.truncate(end);
        lines.drain(..lines.iter().position(|line| !is_blank(line)).unwrap_or(end));
        if lines.is_empty() {
            lines.push(Vec::new());
        }
        lines[0].insert(0, (tone, label.to_owned()));
        if text.left_out > 0 {
            lines.push(vec![(Tone::Faint, format!("… {} bytes more", text.left_out))]);
        }
        self.rows(&lines)
    }

    fn result(&self, failed: bool, first: &str, more: usize) -> String {
        let (mark, tone) = if failed { ("✗ failed: ", Tone::Bad) } else { ("⎿ ", Tone::Faint) };
        let first = match one_line(first) {
            nothing if nothing.is_empty() => "(no output)".to_owned(),
            first => first,
        };
        let rest = match more {
            0 => String::new(),
            1 => " … 1 line more".to_owned(),
            more => format!(" … {more} lines more"),
        };
        self.rows(&[vec![(tone, format!("{INDENT}{mark}{first}{rest}"))]])
    }

    /// What it asks, and how that is answered.
    pub(super) fn asked(&self, ask: &Ask) -> String {
        let agent = &self.agent;
        let id: String = render::line(&ask.id).chars().take(ID).collect();
        let answer = if ask.kind == AskKind::Question { " ANSWER" } else { "" };
        let how = match self.answers {
            true => format!("/allow {id}{answer} or /deny {id}"),
            false => {
                let answer = if answer.is_empty() { "" } else { " \"ANSWER\"" };
                format!("`netsky agent allow {agent} --ask {id}{answer}`, or deny")
            }
        };
        let what = format!("? {agent} asks: {}", one_line(&ask.text));
        self.rows(&[vec![(Tone::Note, what)], vec![(Tone::Note, one_line(&how))]])
    }

    fn ended(&self, outcome: &Outcome, usage: &Usage) -> String {
        let (tone, how) = match outcome {
            Outcome::Done => (Tone::Faint, "done".to_owned()),
            Outcome::Interrupted => (Tone::Note, "stopped".to_owned()),
            Outcome::Failed { why, .. } => (Tone::Bad, format!("failed: {}", one_line(why))),
        };
        let cost = usage.cost_micros.map_or_else(String::new, |micros| {
            format!(", {}.{:04} $", micros / 1_000_000, micros % 1_000_000 / 100)
        });
        let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        self.say(tone, &format!("── {how} ({input} tokens in, {} out{cost})", usage.output))
    }

    /// Lines, broken where the page ends.
    fn rows(&self, lines: &[Line]) -> String {
        let mut out = String::new();
        for (at, line) in lines.iter().enumerate() {
            let first = if at == 0 { "" } else { INDENT };
            for row in self.broken(line, first) {
                for (tone, text) in row {
                    out.push_str(&self.palette.paint(tone, &text));
                }
                out.push_str(self.end);
            }
        }
        out
    }

    /// The rows of a line. One is never as wide as the page: a terminal may begin the next by itself then.
    fn broken(&self, line: &Line, first: &str) -> Vec<Line> {
        let columns = self.columns.map_or(usize::MAX, |columns| columns.max(NARROW) - 1);
        let text = line.iter().flat_map(|(tone, text)| text.chars().map(|c| (*tone, c)));
        let mut rows = Vec::new();
        let mut row: Vec<(Tone, char)> = first.chars().map(|c| (Tone::Plain, c)).collect();
        let mut width = first.len();
        for (tone, c) in text {
            // A tab is as wide as where it stands; and no text here has a line's end.
            let c = if c == '\t' { ' ' } else { c };
            if !render::is_visible(c) || c == '\n' {
                continue;
            }
            let wide = c.width().unwrap_or(0);
            if width + wide > columns {
                // At the last blank, where that leaves more than the indent.
                let at = row.iter().rposition(|(_, c)| *c == ' ').filter(|at| at + 1 > columns / 2);
                let rest = at.map_or_else(Vec::new, |at| row.split_off(at + 1));
                rows.push(std::mem::replace(&mut row, INDENT.chars().map(|c| (Tone::Plain, c)).collect()));
                row.extend(rest);
                width = row.iter().map(|(_, c)| c.width().unwrap_or(0)).sum();
            }
            row.push((tone, c));
            width += wide;
        }
        rows.push(row);
        rows.into_iter().map(|row| pieces(&row)).collect()
    }
}

/// Characters of one tone together.
fn pieces(row: &[(Tone, char)]) -> Line {
    let of = |run: &[(Tone, char)]| (run[0].0, run.iter().map(|(_, c)| *c).collect());
    row.chunk_by(|a, b| a.0 == b.0).map(of).collect()
}

fn is_blank(line: &[(Tone, String)]) -> bool {
    line.iter().all(|(_, text)| text.trim().is_empty())
}

/// A program's words for a line that stands for more.
fn one_line(text: &str) -> String {
    let line = render::text(&render::line(text));
    match line.char_indices().nth(FOLDED) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests;
