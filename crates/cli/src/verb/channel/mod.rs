//! `netsky channel`: the bus by hand, and the way programs without a driver of their own use it.

use netsky_bus::{Aside, Bus};
use netsky_disk::layout::Layout;
use netsky_ledger::Telemetry;
use netsky_model::id::{AgentId, Sender};
use netsky_runtime::{Config, Trouble};

use crate::error::{Error, Kind};
use crate::output;
use crate::run::verbs;

mod ack;
mod batch;
mod drain;
mod forward;
mod list;
mod poison;
mod release;
mod send;
mod show;
mod wait;
mod watch;

verbs! {
    /// Send, read and follow messages between agents
    Verb {
        Send(send::Args),
        Drain(drain::Args),
        Wait(wait::Args),
        Watch(watch::Args),
        Ack(ack::Args),
        Release(release::Args),
        Forward(forward::Args),
        List(list::Args),
        Show(show::Args),
        #[command(subcommand)]
        Poison(poison::Verb),
    }
}

/// The bus with this home's limits, for verbs that place messages.
fn bus<'w>(layout: &Layout, telemetry: &'w Telemetry) -> Bus<'w> {
    let tell = |trouble: Trouble| output::complain("netsky", &trouble.to_string());
    Bus::open(layout, telemetry).with_limits(Config::last_good_or_tell(layout, tell).bus)
}

/// An agent as people type it: its name, or `7` for `agent7`.
pub(super) fn agent(text: &str) -> Result<AgentId, String> {
    AgentId::from_shorthand(text).map_err(|e| e.to_string())
}

/// A sender as people type it: as [`agent`], or `owner`, or a peer's agent.
fn sender(text: &str) -> Result<Sender, String> {
    match agent(text) {
        Ok(agent) => Ok(agent.into()),
        Err(_) => text.parse().map_err(|e: netsky_model::id::BadId| e.to_string()),
    }
}

/// What a verb says of files that it had to put aside or pass by: done otherwise, and something is to be looked at.
fn damage(agent: &AgentId, aside: &Aside) -> Result<(), Error> {
    let more = |count: usize, did: &str| match count {
        0 | 1 => String::new(),
        _ => format!("; {} more {did} too", count - 1),
    };
    let stuck = aside.skipped.first().map(|first| {
        let more = more(aside.skipped.count(), "failed");
        format!("failed to {first}{more}; it was left where it is")
    });
    if let Some(first) = aside.quarantined.first() {
        let more = more(aside.quarantined.count(), "were quarantined");
        let mut what = format!("quarantined {} of {agent}: {}{more}", first.name, first.reason);
        if let Some(why) = aside.quarantined.iter().find_map(|one| one.unwritten.as_ref()) {
            what += &format!("; a reason could not be written: failed to {why}");
        }
        let error = Error::new(Kind::Damaged, what).hint(format!("see `netsky channel poison list {agent}`"));
        return Err(match stuck {
            Some(stuck) => error.and(&stuck),
            None => error,
        });
    }
    if let (Some(stuck), Some(first)) = (stuck, aside.skipped.first()) {
        let kind = Kind::of(&first.error);
        let error = Error::new(kind, stuck);
        return Err(if kind == Kind::Refused {
            error.hint("the folder and its files must be yours")
        } else {
            error
        });
    }
    if let Some(first) = aside.busy.first() {
        let more = more(aside.busy.count(), "are");
        let what = format!("envelope {first} of {agent} is in the hands of another process{more}");
        let hint = "it waits as it did, with what its sender sent after it; everything else was drained";
        return Err(Error::new(Kind::Busy, what).hint(hint));
    }
    if let Some(first) = aside.lost.first() {
        let more = more(aside.lost.count(), "were");
        let what =
            format!("envelope {first} of {agent} was taken from this process before it was shown{more}");
        let hint = "what its sender sent after it waits; everything else was drained";
        return Err(Error::new(Kind::Busy, what).hint(hint));
    }
    match aside.newer.first() {
        Some(name) => {
            let what = format!("{name} of {agent} is of a newer format and was left in the inbox");
            Err(Error::new(Kind::Refused, what).hint("drain it with the newer program"))
        }
        None => Ok(()),
    }
}
