//! `netsky channel drain`: claim, print, record, one message after the other.
//!
//! A message counts as surfaced when its text was written to standard output and flushed.

use netsky_bus::{Bus, Claim, Put};
use netsky_disk::env::Caller;
use netsky_disk::layout::Layout;
use netsky_model::id::{AgentId, Generation};
use netsky_runtime::driver;
use netsky_watchdog::wanted;
use serde_json::Value;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Most messages of one JSON answer, whatever was asked for: it is printed whole before any of them is recorded.
const MAX_JSON: usize = 100;
/// Bytes of a JSON answer to which no further message is added: it is held whole.
const MAX_JSON_BYTES: usize = 8 << 20;

/// Print and take everything that waits for an agent
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose inbox
    #[arg(value_parser = super::agent)]
    agent: AgentId,
    /// At most this many messages [default: all; with --json 100, and never more, nor much more than 8 MiB of them]
    #[arg(long, value_name = "N")]
    max: Option<usize>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        cx.may_take_for(&self.agent)?;
        if netsky_disk::env::leads_nowhere(&std::io::stdout()) {
            let what = "standard output is closed or leads nowhere, so nobody would see what is drained";
            return Err(Error::new(Kind::Usage, what).hint("nothing was taken"));
        }
        let layout = cx.home()?;
        if cx.caller() == Caller::Outside && is_driven(layout, &self.agent) {
            let what = format!("{} is driven: netsky-drivers gives it its mail, and nobody else", self.agent);
            let hint = format!("nothing was taken; `netsky channel list {}` shows it", self.agent);
            return Err(Error::new(Kind::Refused, what).hint(hint));
        }
        let telemetry = cx.telemetry()?;
        let bus = Bus::open(layout, telemetry).with_missed(netsky_schedule::missed);
        let generation = cx.generation_of(&self.agent);
        if cx.json {
            return self.as_json(generation, &bus);
        }
        let max = self.max.unwrap_or(usize::MAX);
        let drained = bus.drain(&self.agent, max, generation, |claim| output::element(&claim.rendered()))?;
        super::damage(&self.agent, &drained.aside)
    }
}

/// What a hand took of it no death would give back: of a hand nobody knows whether it lives.
fn is_driven(layout: &Layout, agent: &AgentId) -> bool {
    let wish = wanted(layout, agent).unwrap_or_default();
    wish.is_some_and(|wish| driver::is_driven(&wish.runtime))
}

impl Args {
    /// Everything that waits.
    pub(crate) fn all(agent: AgentId) -> Args {
        Args { agent, max: None }
    }

    /// One object: all of it is printed before any message counts as surfaced.
    fn as_json(&self, generation: Generation, bus: &Bus<'_>) -> Result<(), Error> {
        let max = self.max.unwrap_or(MAX_JSON).min(MAX_JSON);
        let mut answer = output::Envelopes::kept();
        let batch = bus.claim_into(&self.agent, max, generation, |claim| {
            answer.row(&as_value(claim));
            answer.len() < MAX_JSON_BYTES
        })?;
        let count = batch.claims.len();
        let put = bus.surface_all(&self.agent, batch.claims, generation, || answer.put(batch.left_out))?;
        let (error, became) = match put {
            Put::Unread(error) => (error, "wait as they did"),
            Put::Broken(error) => (error, "have one attempt less"),
            _ => {
                let damage = || super::damage(&self.agent, &batch.aside);
                return batch.ended.map_or_else(damage, |error| Err(error.into()));
            }
        };
        let what = format!("failed to write to standard output: {error}");
        Err(match count {
            0 => Error::new(Kind::Failed, what),
            _ => Error::new(Kind::Failed, what).hint(format!("the {count} messages {became}")),
        })
    }
}

/// A message as one JSON object.
pub(super) fn as_value(claim: &Claim) -> Value {
    let mut value = serde_json::to_value(claim.envelope()).unwrap_or_default();
    value["attempt"] = claim.attempt().into();
    value["redelivered"] = (claim.attempt() > 1).into();
    value["verified"] = claim.is_vouched().into();
    value["rendered"] = claim.rendered().into();
    value
}
