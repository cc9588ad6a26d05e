//! Tending the mail, as part of the tick: replies are carried, overdue acks asked for again, dead letters paged for, and
//! what was kept long enough goes. Each of them bounded, and none of them in the way of the others.

use std::path::Path;

use netsky_disk::fs::Dir;
use netsky_disk::state;
use netsky_runtime::{Config, carry_all};
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::error::Result;
use crate::tick::Ticked;
use crate::{overdue, pages, retention};

/// Tends the mail. What fails is a problem of the tick, and the rest goes on.
pub(crate) fn tend(cx: &Context<'_>, ticked: &mut Ticked) {
    let terms = Config::last_good(cx.layout).mail;
    for tended in [
        blocked(cx, ticked),
        carry(cx, ticked),
        overdue::give_back(cx, &terms, ticked),
        pages::page(cx, ticked),
        retention::clean(cx, &terms, ticked),
    ] {
        if let Err(error) = tended {
            ticked.problems.push(format!("mail: {error}"));
        }
    }
}

/// Whose mailbox is none: nothing is sent there or read from it until somebody moves away what stands in its place.
fn blocked(cx: &Context<'_>, ticked: &mut Ticked) -> Result<()> {
    for agent in cx.layout.blocked_agents()? {
        if let Err(error) = Dir::open(cx.layout.channel(&agent)) {
            ticked.problems.push(format!("mail of {agent}: {}", crate::error::Error::from(error)));
        }
    }
    Ok(())
}

/// Replies that no event told of.
fn carry(cx: &Context<'_>, ticked: &mut Ticked) -> Result<()> {
    for (agent, carried) in carry_all(&cx.bus)? {
        if let Ok(carried) = &carried
            && let Some(first) = carried.stuck.first()
        {
            let more = match carried.stuck.count() {
                1 => String::new(),
                count => format!("; {} more wait too", count - 1),
            };
            ticked.problems.push(format!("replies of {agent}: {first}{more}"));
        }
        match carried {
            Ok(carried) if carried.sent.count() > 0 => {
                ticked.done.push(format!("{agent}: {} replies carried", carried.sent.count()));
            }
            Ok(_) => {}
            Err(error) => ticked.problems.push(format!("replies of {agent}: {error}")),
        }
    }
    Ok(())
}

/// A file of ours; one that is damaged is put aside, and everything in it begins anew.
pub(crate) fn read_or_aside<T: DeserializeOwned>(path: &Path, ticked: &mut Ticked) -> Result<Option<T>> {
    match state::read_json(path) {
        Err(error) if error.is_damage() => {
            ticked.problems.push(error.to_string());
            state::set_aside(path)?;
            Ok(None)
        }
        read => Ok(read?),
    }
}
