//! `netsky channel poison`: dead letters, why they are dead, and one more try.

use netsky_bus::{Bus, Entry};
use netsky_model::id::{AgentId, EnvelopeId};

use crate::error::{Error, Kind};
use crate::run::verbs;

mod list;
mod retry;
mod show;

verbs! {
    /// Look at dead letters and try them again
    Verb {
        List(list::Args),
        Show(show::Args),
        Retry(retry::Args),
    }
}

/// What `list` shows: a message by its id, or a file of `poison/` by its name.
enum Dead {
    Letter(EnvelopeId),
    File(Box<Entry>),
}

/// The dead letter that was typed as `list` shows it; an id may be shortened where unambiguous. A whole id wins over a file
/// of that name, which is no message's then (theirs have a dot, ids have none); such a file wins over a shortened id.
fn find(bus: &Bus<'_>, agent: &AgentId, typed: &str) -> Result<Dead, Error> {
    let id = typed.parse::<EnvelopeId>();
    if let Ok(id) = &id
        && bus.has(agent, id)?
    {
        return Ok(Dead::Letter(id.clone()));
    }
    match (bus.dead_letter(agent, typed)?, id) {
        (Some(file), _) => Ok(Dead::File(Box::new(file))),
        (None, Ok(id)) => Ok(Dead::Letter(id)),
        (None, Err(bad)) => Err(Error::new(Kind::Usage, bad.to_string()).hint("nothing was done")),
    }
}
