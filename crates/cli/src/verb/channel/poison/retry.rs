//! `netsky channel poison retry`: the owner lets a dead letter be tried once more.

use netsky_bus::{Bus, Retried};
use netsky_ledger::Telemetry;
use netsky_model::id::{AgentId, EnvelopeId};
use serde_json::json;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;
use crate::verb::channel::agent;

/// Put a dead letter back into the inbox, for one more attempt
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose dead letter
    #[arg(value_parser = agent)]
    agent: AgentId,
    /// Its id, which may be shortened where unambiguous
    id: EnvelopeId,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        // A message that kills its readers must not be able to have itself tried again.
        cx.owner_only("channel poison retry")?;
        let layout = cx.home()?;
        let telemetry = Telemetry::new(layout);
        let Retried { id, already } = Bus::open(layout, &telemetry).retry(&self.agent, self.id.as_str())?;
        if cx.json {
            return output::json(&json!({"id": id, "state": "written", "already": already}));
        }
        output::say(&format!("{id} waits {}", if already { "already" } else { "again" }))
    }
}
