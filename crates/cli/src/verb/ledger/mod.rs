//! `netsky ledger`: the record itself.

use netsky_disk::layout::Layout;
use netsky_ledger::{Broken, Ingested};

use crate::error::{Error, Kind};
use crate::run::verbs;

mod backup;
mod ingest;
mod rebuild;
mod schema;
mod status;

verbs! {
    /// Look at the record, copy it, make its database anew
    Verb {
        Rebuild(rebuild::Args),
        Status(status::Args),
        Schema(schema::Args),
        Backup(backup::Args),
        #[command(hide = true)]
        Ingest(ingest::Args),
    }
}

/// What is to be told of an ingest that did its work; none where there is nothing.
pub(super) fn to_tell(done: &Ingested) -> Option<Error> {
    if done.rebuilt {
        return Some(made_again(done));
    }
    let what = format!("mail is missing from the record: failed to {}", done.shut.as_ref()?);
    let way = "what was known of it stays; it must be a folder that is yours alone (table source_errors)";
    Some(Error::new(Kind::Degraded, what).hint(way))
}

/// A damaged database was found on the way; the work is done with the new one.
fn made_again(done: &Ingested) -> Error {
    let what = match &done.aside {
        Some(aside) => {
            format!("meta.db was damaged and is made anew; the damaged one is {}", aside.display())
        }
        None => "meta.db was damaged and is made anew; there is evidence enough beside it".to_owned(),
    };
    Error::new(Kind::Damaged, what).hint("nothing was lost")
}

/// Facts do not follow from each other, first here.
fn broken(first: &Broken) -> Error {
    let what = format!("record/{} is damaged: line {} {}", first.file, first.line, first.why);
    Error::new(Kind::Damaged, what).hint(first.way_out())
}

/// What came in, in words.
fn said(done: &Ingested) -> String {
    let Ingested { facts, lines, envelopes, errors, refused, put_off, .. } = done;
    let mut text = format!("{facts} facts, {lines} lines, {envelopes} envelopes");
    if *errors > 0 {
        text.push_str(&format!(", {errors} that do not read (table source_errors)"));
    }
    if *refused > 0 {
        text.push_str(&format!(", {refused} refused (tried again by the next ingest)"));
    }
    if *put_off {
        text.push_str(", and more to come (the next ingest goes on)");
    }
    text
}

/// Which ingest is at work, in words.
fn another(layout: &Layout) -> String {
    match netsky_ledger::ingester(layout) {
        Ok(Some(process)) => format!("another ingest (process {process})"),
        _ => "another ingest".to_owned(),
    }
}

/// Nobody waits for another ingest longer than it may sensibly take.
fn at_work(layout: &Layout) -> Error {
    let way = "repeat when it has ended; one that hangs can be killed, the next goes on where it was";
    Error::new(Kind::Busy, format!("{} is at work", another(layout))).hint(way)
}
