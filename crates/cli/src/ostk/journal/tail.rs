//! `ostk journal tail`: the newest rows, and what comes.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use netsky_disk::env;
use netsky_disk::fs::Dir;
use netsky_disk::layout::KernelLayout;
use netsky_disk::lines::Reader;
use netsky_kernel::rpc::Event;

use super::{Since, line, since};
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
        let mut rows = Rows::open(&layout)?;
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

/// The rows of a journal, one after the other; those that do not parse are `verify`'s to name.
pub(in crate::ostk) struct Rows {
    dir: Dir,
    at: u64,
    reader: Option<Reader>,
}

/// The journal's name in its root.
const JOURNAL: &str = "journal.jsonl";

impl Rows {
    pub(in crate::ostk) fn open(layout: &KernelLayout) -> Result<Rows, Error> {
        let none = || {
            let what = format!("no journal at {}", layout.journal().display());
            Error::new(Kind::NotFound, what).hint("the first session or `ostk serve` begins one")
        };
        let dir = match Dir::open(layout.root()) {
            Err(error) if error.is_not_found() => return Err(none()),
            opened => opened?,
        };
        if !dir.exists(JOURNAL)? {
            return Err(none());
        }
        Ok(Rows { dir, at: 0, reader: None })
    }

    /// The next row; none when there is no other yet.
    pub(in crate::ostk) fn next(&mut self) -> Result<Option<Event>, Error> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            // Half a row was read and is none: it is read again, whole.
            none => none.insert(Reader::open(&self.dir, JOURNAL, self.at)?),
        };
        while let Some((_, line)) = reader.next_line()? {
            let event = serde_json::from_slice(line).ok();
            self.at = reader.at();
            if event.is_some() {
                return Ok(event);
            }
        }
        self.reader = None;
        Ok(None)
    }
}
