//! `ostk journal tail`: the newest rows, and what comes.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use netsky_disk::env;
use netsky_disk::fs::Dir;
use netsky_disk::layout::{JOURNAL, KernelLayout, Sealed};
use netsky_disk::lines::Reader;
use netsky_kernel::rpc::Event;

use super::{Since, line, rows, since};
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// How often a followed journal is looked at: quick enough for a reader's eye.
const LOOK: Duration = Duration::from_millis(200);

/// Print the newest rows of the journal
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Go on with what comes
    #[arg(short, long)]
    follow: bool,
    /// All rows behind this row's number, or since this instant
    #[arg(long, value_name = "SEQ|TIME", value_parser = since)]
    since: Option<Since>,
    /// How many, where no --since says it
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    lines: usize,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let layout = KernelLayout::new(cx.kernel_root()?);
        let mut rows = match self.since {
            Some(since) => rows(&layout, Some(since))?,
            None => Rows::newest(&layout, self.lines)?,
        };
        let mut newest = VecDeque::new();
        while let Some(event) = rows.next()? {
            match self.since {
                Some(since) if since.is_before(&event) => show(cx, &event)?,
                Some(_) => {}
                None => {
                    newest.push_back(event);
                    if newest.len() > self.lines {
                        newest.pop_front();
                    }
                }
            }
        }
        newest.iter().try_for_each(|event| show(cx, event))?;
        while self.follow && !env::nobody_reads(&io::stdout(), LOOK) {
            while let Some(event) = rows.next()? {
                show(cx, &event)?;
            }
        }
        Ok(())
    }
}

fn show(cx: &Context, event: &Event) -> Result<(), Error> {
    if cx.json { output::json(event) } else { output::say(&line(event)?) }
}

/// The rows of a journal, one after the other and over all its files; those that do not parse are `verify`'s to name.
pub(in crate::ostk) struct Rows {
    dir: Dir,
    /// The newest row that was read: another file may have it too, under the name that it had before.
    last: u64,
    at: Place,
    reader: Option<Reader>,
}

/// Where the next row is looked for.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// In whichever file goes on behind the last row, from its begin.
    Next,
    /// In a sealed file, which is open.
    Sealed,
    /// In the file that is written to, from there on, as long as that one is the newest that is sealed.
    Live { at: u64, behind: Option<Sealed> },
}

impl Rows {
    /// Those behind row `since`.
    pub(super) fn behind(layout: &KernelLayout, since: u64) -> Result<Rows, Error> {
        let none = || {
            let what = format!("no journal at {}", layout.journal().display());
            Error::new(Kind::NotFound, what).hint("the first session or `ostk serve` begins one")
        };
        let dir = match Dir::open(layout.root()) {
            Err(error) if error.is_not_found() => return Err(none()),
            opened => opened?,
        };
        if !dir.exists(JOURNAL)? && Sealed::all(&dir)?.is_empty() {
            return Err(none());
        }
        Ok(Rows { dir, last: since, at: Place::Next, reader: None })
    }

    /// At least the newest `count`, if there are so many.
    fn newest(layout: &KernelLayout, count: usize) -> Result<Rows, Error> {
        let rows = Rows::behind(layout, 0)?;
        let sealed = Sealed::all(&rows.dir)?.last().map_or(0, |newest| newest.last);
        Ok(Rows { last: sealed.saturating_sub(count as u64), ..rows })
    }

    /// The next row; none when there is no other yet.
    pub(in crate::ostk) fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            let Some(mut reader) =
                self.reader.take().map_or_else(|| self.reopened(), |open| Ok(Some(open)))?
            else {
                return Ok(None);
            };
            while let Some((_, line)) = reader.next_line()? {
                let event = serde_json::from_slice::<Event>(line).ok();
                if let Place::Live { at, .. } = &mut self.at {
                    *at = reader.at();
                }
                if let Some(event) = event.filter(|event| event.seq > self.last) {
                    self.last = event.seq;
                    self.reader = Some(reader);
                    return Ok(Some(event));
                }
            }
            // Half a row was read and is none: it is read again, whole.
            if self.at != Place::Sealed {
                return Ok(None);
            }
            self.at = Place::Next;
        }
    }

    /// The file that has the next row; none between two names of it.
    fn reopened(&mut self) -> Result<Option<Reader>, Error> {
        loop {
            let sealed = Sealed::all(&self.dir)?;
            let behind = sealed.last().copied();
            let (name, next) = match self.at {
                Place::Live { behind: before, .. } if before == behind => (JOURNAL.to_owned(), self.at),
                _ => match sealed.into_iter().find(|sealed| sealed.last > self.last) {
                    Some(next) => (next.name(), Place::Sealed),
                    None => (JOURNAL.to_owned(), Place::Live { at: 0, behind }),
                },
            };
            self.at = next;
            let at = if let Place::Live { at, .. } = next { at } else { 0 };
            let reader = match Reader::open(&self.dir, &name, at) {
                Err(error) if error.is_not_found() => return Ok(None),
                opened => opened?,
            };
            // What has the name may be the next file since.
            if next == Place::Sealed || Sealed::all(&self.dir)?.last().copied() == behind {
                return Ok(Some(reader));
            }
        }
    }
}
