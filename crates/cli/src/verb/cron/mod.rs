//! `netsky cron`: entries of `cron.toml`, by whose calendar agents are told something.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use netsky_disk::env::Caller;
use netsky_model::id::AgentId;
use netsky_schedule::cron::{EditError, EntryId, Expr, offset_text, zone};
use serde::Serialize;

use crate::context::{Context, for_the_owner};
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

/// Who asks, where that is an agent: and whether he may change his own entries alone (faults A16).
fn asker(cx: &Context) -> Result<Option<(AgentId, bool)>, Error> {
    match cx.caller() {
        Caller::Outside => Ok(None),
        Caller::Inside { agent: Some(me), .. } => {
            let keeps_all = me == AgentId::root() || me == AgentId::infinity();
            Ok(Some((me, !keeps_all)))
        }
        Caller::Inside { agent: None, .. } => Err(for_the_owner("a change of cron entries")),
    }
}

/// The agent that may change its own entries alone, where one asks.
fn bound(cx: &Context) -> Result<Option<AgentId>, Error> {
    Ok(asker(cx)?.and_then(|(me, is_bound)| is_bound.then_some(me)))
}

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
