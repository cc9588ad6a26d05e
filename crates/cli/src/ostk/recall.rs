//! `ostk recall`: rows of one kind out of the journal.

use netsky_disk::layout::KernelLayout;
use netsky_kernel::rpc::{Event, EventKind};

use super::journal::{Since, line, rows, since};
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Print what the journal says of one kind: `@arrived` for who came, or any kind of row
#[derive(clap::Args)]
pub(crate) struct Args {
    /// @arrived, @exited, @lifecycle, …
    #[arg(value_name = "@KIND", value_parser = kind)]
    kind: EventKind,
    /// Only rows behind this row's number, or since this instant
    #[arg(long, value_name = "SEQ|TIME", value_parser = since)]
    since: Option<Since>,
}

fn kind(text: &str) -> Result<EventKind, String> {
    let known = || EventKind::ALL.map(|kind| format!("@{}", kind.word())).join(" ");
    let wanted = text.strip_prefix('@').unwrap_or(text);
    let found = EventKind::ALL.into_iter().find(|kind| kind.word() == wanted);
    found.ok_or_else(|| format!("there is no such kind; there are {}", known()))
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let mut rows = rows(&KernelLayout::new(cx.kernel_root()?), self.since)?;
        while let Some(event) = rows.next()? {
            if self.wants(&event) {
                if cx.json {
                    output::json(&event)?;
                } else {
                    output::say(&line(&event)?)?;
                }
            }
        }
        Ok(())
    }
}

impl Args {
    fn wants(&self, event: &Event) -> bool {
        // An agent arrives when its program starts: that row is there already.
        let wanted =
            event.kind == self.kind || (self.kind == EventKind::Arrived && event.kind == EventKind::Started);
        wanted && self.since.is_none_or(|since| since.is_before(event))
    }
}
