//! `netsky channel ack`: the agent has dealt with a message; it will not come again.

use netsky_bus::{Acked, Bus};
use netsky_model::id::{AgentId, EnvelopeId};

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Say that a message was dealt with
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose message
    #[arg(value_parser = super::agent)]
    agent: AgentId,
    /// Its id, which may be shortened where unambiguous
    id: EnvelopeId,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        cx.may_take_for(&self.agent)?;
        ack_for(cx, &self.agent, &self.id)
    }
}

/// Acks a message of somebody, and says so.
pub(crate) fn ack_for(cx: &Context, agent: &AgentId, id: &EnvelopeId) -> Result<(), Error> {
    let (layout, telemetry) = (cx.home()?, cx.telemetry()?);
    let (id, acked) = Bus::open(layout, telemetry).ack(agent, id.as_str())?;
    let already = acked == Acked::Already;
    if cx.json {
        return output::json(&serde_json::json!({"id": id, "state": "acked", "already": already}));
    }
    match already {
        false => output::say(&format!("acked {id}")),
        true => output::say(&format!("{id} was acked before")),
    }
}
