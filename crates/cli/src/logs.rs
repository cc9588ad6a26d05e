//! `logs` of both programs: what a session printed, as text, from its bounded log; needs no anchor.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::env;
use netsky_disk::layout::KernelLayout;
use netsky_disk::lock::Lock;
use netsky_kernel::escapes::{Cutter, Piece};
use netsky_kernel::output_log::{Chunk, LogError, LogReader};
use netsky_kernel::session::{Io, LogSpan, Meta};
use netsky_model::id::AgentId;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;

/// Bytes of one piece.
const PIECE: usize = 64 * 1024;
/// How often a followed log is looked at: quick enough for a reader's eye.
const LOOK: Duration = Duration::from_millis(200);

/// How to read.
#[derive(clap::Args)]
pub(crate) struct How {
    /// Go on until the session ends
    #[arg(short, long)]
    follow: bool,
    /// What it printed to standard error, which a session of pipes keeps apart
    #[arg(long)]
    stderr: bool,
}

/// Prints a session's log; `program` is who says what is missing of it.
pub(crate) fn print(
    cx: &Context,
    program: &str,
    root: PathBuf,
    name: &AgentId,
    how: &How,
) -> Result<(), Error> {
    cx.no_json("logs prints what a program printed")?;
    let layout = KernelLayout::new(root);
    let Some(meta) = netsky_disk::state::read(layout.meta(name))? else {
        return Err(Error::new(Kind::NotFound, format!("no session {name}")).hint("see `ostk kernel ps`"));
    };
    let meta = Meta::parse(&meta).ok();
    let path = if how.stderr { layout.err(name) } else { layout.out(name) };
    let has_its_own = match &meta {
        Some(meta) if meta.spec.io == Io::Pipes => true,
        // A generation before may have had pipes.
        _ => netsky_disk::state::exists(&path)?,
    };
    if how.stderr && !has_its_own {
        let what = format!("{name} has no standard error apart: its terminal carries both");
        return Err(Error::new(Kind::NotFound, what));
    }
    let log = LogReader::open(&path)?;
    let whole = check(&log, meta.as_ref());
    // What is printed from now on would not be seen either.
    let is_unseen = match &whole {
        Err(LogError::Damaged { path: damaged }) => *damaged == path,
        Err(_) => true,
        Ok(()) => false,
    };
    if how.follow && is_unseen {
        return Ok(whole?);
    }
    // What comes while it is printed is not waited for: a program may print faster than its reader reads.
    let LogSpan { base, end } = log.span()?;
    let until = if how.follow { u64::MAX } else { end };
    let mut at = base;
    let mut text = Text::default();
    while at < until {
        // Asked before the log is read: what was printed before the end is then still seen.
        let lives = Lock::is_held(layout.worker_lock(name))?;
        let piece = usize::try_from(until - at).map_or(PIECE, |left| left.min(PIECE));
        match log.read_from(at, piece)? {
            Chunk::Bytes { offset, bytes } => {
                at = offset + bytes.len() as u64;
                if !output::piece(&text.take(&bytes))? {
                    break;
                }
            }
            Chunk::Gap { from, to } => {
                // What came after the end that was asked for is not missing.
                let to = to.min(until);
                let missing = to.saturating_sub(from);
                let what = format!("{missing} bytes of {name} are missing: they are no longer kept");
                // Apart from the output itself, which can say anything.
                output::complain(program, &what);
                // What ended a sequence may be in the gap.
                text = Text::default();
                at = to;
            }
            Chunk::End if how.follow && lives && !env::nobody_reads(&io::stdout(), LOOK) => {}
            Chunk::End => break,
        }
    }
    Ok(whole?)
}

/// Whether all is there that a session must have; where nothing ran nothing could print.
fn check(log: &LogReader, meta: Option<&Meta>) -> Result<(), LogError> {
    match log.check() {
        Err(LogError::Gone { .. }) if meta.is_some_and(|meta| meta.program.is_none()) => Ok(()),
        checked => checked,
    }
}

/// Bytes on their way to text, without escape sequences: of one without its escape alone the rest would be read as letters.
/// What a program printed over a line (a bar of progress) is a line of its own. A character may be cut by the end of a piece.
#[derive(Default)]
struct Text {
    cutter: Cutter,
    cut: Vec<u8>,
    /// Whether something stands in the line.
    in_line: bool,
    /// Whether the line is to be begun anew.
    returned: bool,
}

impl Text {
    fn take(&mut self, bytes: &[u8]) -> String {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line(line);
            // A string that nobody ended hides no more than the line in which it became too long.
            if line.ends_with(b"\n") && self.cutter.is_long() {
                self.cutter.finish();
            }
        }
        let whole = match std::str::from_utf8(&self.cut) {
            Err(e) if e.error_len().is_none() => e.valid_up_to(),
            _ => self.cut.len(),
        };
        let rest = self.cut.split_off(whole);
        let text = String::from_utf8_lossy(&self.cut).into_owned();
        self.cut = rest;
        text
    }

    fn line(&mut self, bytes: &[u8]) {
        let Text { cutter, cut, in_line, returned } = self;
        cutter.cut(bytes, |piece| match piece {
            Piece::Plain(b'\r') => *returned = true,
            Piece::Plain(byte) => {
                if std::mem::take(returned) && *in_line && byte != b'\n' {
                    cut.push(b'\n');
                }
                cut.push(byte);
                *in_line = byte != b'\n' && (*in_line || !byte.is_ascii_control());
            }
            Piece::Sequence(_) | Piece::Begun(_) | Piece::More(_) => {}
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a10_a_log_is_read_as_text_without_what_drives_a_terminal() {
        for (said, read) in [
            ("\x1b[1;31mred\x1b[0m\r\n", "red\n"),
            ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x1b(B\x1b7b", "alinkb"),
            ("10%\r\x1b[K20%\r\n", "10%\n20%\n"),
            ("$ ls\r\n\x1b[?2004l\rfile\r\r\n", "$ ls\nfile\n"),
            ("é日", "é日"),
            ("\x07\rtext", "\x07text"),
            (&format!("\x1b^{}\nshown\n", "x".repeat(5000)), "shown\n"),
        ] {
            for step in [1, 2, 100] {
                let mut text = Text::default();
                let all: String = said.as_bytes().chunks(step).map(|bytes| text.take(bytes)).collect();
                assert_eq!(all, read, "{said:?} by {step}");
            }
        }
    }
}
