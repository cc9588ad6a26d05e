//! `netsky channel`: the bus by hand, and the way programs without a driver of their own use it.

use netsky_bus::{Aside, Bus};
use netsky_disk::layout::Layout;
use netsky_ledger::Telemetry;
use netsky_model::id::{AgentId, Sender};
use netsky_model::render;
use netsky_runtime::{Config, Trouble};

use crate::error::{Error, Kind};
use crate::output;
use crate::run::verbs;

mod ack;
mod batch;
pub(crate) mod drain;
mod forward;
pub(crate) mod list;
mod poison;
mod release;
mod send;
mod show;
mod wait;
mod watch;

pub(crate) use ack::ack_for;
pub(crate) use send::{from_stdin, say_sent, send_as_owner};
pub(super) use send::{refused, stdin_text};

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
    let config = Config::last_good_or_tell(layout, tell);
    Bus::open(layout, telemetry).with_limits(config.bus).with_root(config.constellation.root)
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
    let mut also: Vec<Error> = [
        quarantined(agent, aside),
        stuck(aside),
        busy(agent, aside),
        lost(agent, aside),
        newer(agent, aside),
    ]
    .into_iter()
    .flatten()
    .collect();
    if also.is_empty() {
        return Ok(());
    }
    let first = also.remove(0);
    Err(also.iter().fold(first, |error, also| error.and(&also.to_string())))
}

fn more(count: usize, did: &str) -> String {
    if count < 2 { String::new() } else { format!("; {} more {did} too", count - 1) }
}

fn quarantined(agent: &AgentId, aside: &Aside) -> Option<Error> {
    let first = aside.quarantined.first()?;
    let more = more(aside.quarantined.count(), "were quarantined");
    let mut what = format!("quarantined {} of {agent}: {}{more}", first.name, first.reason);
    if let Some(why) = aside.quarantined.iter().find_map(|one| one.unwritten.as_ref()) {
        what += &format!("; a reason could not be written: failed to {why}");
    }
    Some(Error::new(Kind::Damaged, what).hint(format!("see `netsky channel poison list {agent}`")))
}

fn stuck(aside: &Aside) -> Option<Error> {
    let first = aside.skipped.first()?;
    let more = more(aside.skipped.count(), "failed");
    let it = match first.file.file_name() {
        Some(name) if first.file != first.error.path => render::line(&name.to_string_lossy()),
        _ => "it".to_owned(),
    };
    let kind = Kind::of(&first.error);
    let error = Error::new(kind, format!("failed to {first}{more}; {it} was left where it is"));
    Some(if kind == Kind::Refused { error.hint("the folder and its files must be yours") } else { error })
}

fn busy(agent: &AgentId, aside: &Aside) -> Option<Error> {
    let first = aside.busy.first()?;
    let more = more(aside.busy.count(), "are");
    let what = format!("envelope {first} of {agent} is in the hands of another process{more}");
    let hint = "it waits as it did, with what its sender sent after it; everything else was drained";
    Some(Error::new(Kind::Busy, what).hint(hint))
}

fn lost(agent: &AgentId, aside: &Aside) -> Option<Error> {
    let first = aside.lost.first()?;
    let more = more(aside.lost.count(), "were");
    let what = format!("envelope {first} of {agent} was taken from this process before it was shown{more}");
    Some(
        Error::new(Kind::Busy, what).hint("what its sender sent after it waits; everything else was drained"),
    )
}

fn newer(agent: &AgentId, aside: &Aside) -> Option<Error> {
    let what = format!("{} of {agent} is of a newer format and was left in the inbox", aside.newer.first()?);
    Some(Error::new(Kind::Refused, what).hint("drain it with the newer program"))
}
