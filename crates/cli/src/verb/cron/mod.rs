//! `netsky cron`: entries of `cron.toml`, by whose calendar agents are told something.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use netsky_schedule::cron::{EditError, EntryId, Expr, offset_text, zone};
use serde::Serialize;

use crate::error::{Error, Kind};
use crate::run::verbs;

mod add;
mod change;
mod list;
mod next;
mod tick;

verbs! {
    /// Tell agents something when a calendar says so
    Verb {
        Add(add::Args),
        List(list::Args),
        Remove(change::Remove),
        Enable(change::Enable),
        Disable(change::Disable),
        Next(next::Args),
        Tick(tick::Args),
    }
}

impl From<EditError> for Error {
    fn from(error: EditError) -> Error {
        let what = error.to_string();
        match error {
            EditError::Disk(error) => error.into(),
            EditError::Unreadable(_) => {
                Error::new(Kind::Failed, what).hint("mend it first; nothing was changed")
            }
            EditError::NoEntry(_) => Error::new(Kind::NotFound, what).hint("see `netsky cron list`"),
            EditError::Several { .. } => {
                Error::new(Kind::Refused, what).hint("mend cron.toml by hand; nothing was changed")
            }
            EditError::Others { .. } => Error::new(Kind::Refused, what).hint("nothing was changed"),
            EditError::Full => Error::new(Kind::Refused, what).hint("nothing was changed, remove some"),
            EditError::Changed => Error::new(Kind::Busy, what).hint("nothing was changed, repeat"),
        }
    }
}

/// What is asked for by who changes an entry.
const CHANGE: &str = "a change of cron entries";

fn expr(text: &str) -> Result<Expr, String> {
    text.parse().map_err(|error: netsky_schedule::cron::BadExpr| error.to_string())
}

fn entry_id(text: &str) -> Result<EntryId, String> {
    text.parse()
}

/// A zone by its name.
#[derive(Clone)]
struct Zone {
    name: String,
    zone: TimeZone,
}

fn tz(text: &str) -> Result<Zone, String> {
    zone(text).map(|(name, zone)| Zone { name, zone })
}

/// One instant on two clocks.
#[derive(Serialize)]
struct Fire {
    local: String,
    utc: String,
}

/// The times from `first` on.
fn fires(first: Option<Timestamp>, schedule: &Expr, zone: &TimeZone, count: usize) -> Vec<Fire> {
    let fires = std::iter::successors(first, |at| schedule.next(*at, zone)).take(count);
    let local = |at: Timestamp| {
        let civil = zone.to_datetime(at).strftime("%Y-%m-%dT%H:%M:%S").to_string();
        format!("{civil}{}", offset_text(zone.to_offset(at)))
    };
    fires.map(|at| Fire { local: local(at), utc: at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() }).collect()
}
