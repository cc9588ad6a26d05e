//! `netsky channel forward`: a message goes on to another agent; it is finished here once its copy is durable there.

use netsky_bus::check_sender;
use netsky_model::id::{AgentId, EnvelopeId, Sender};
use serde_json::json;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Send a message on to another agent
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose message
    #[arg(value_parser = super::agent)]
    agent: AgentId,
    /// Its id, which may be shortened where unambiguous
    id: EnvelopeId,
    /// For whom it is now
    #[arg(long, value_parser = super::agent, value_name = "AGENT")]
    to: AgentId,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        cx.may_take_for(&self.agent)?;
        if self.agent == self.to {
            let what = format!("{} has it already", self.agent);
            return Err(Error::new(Kind::Usage, what).hint("name another agent, or use `channel release`"));
        }
        let by = Sender::from(self.agent.clone());
        check_sender(&cx.caller(), &by)?;
        let layout = cx.home()?;
        let telemetry = cx.telemetry()?;
        let bus = super::bus(layout, telemetry);
        let forwarded = bus.forward(&self.agent, self.id.as_str(), &self.to, &by)?;
        let (id, copy) = (&forwarded.id, &forwarded.copy);
        if cx.json {
            let already = forwarded.already;
            return output::json(&json!({
                "id": id, "state": "forwarded", "to": self.to, "copy": copy, "already": already,
            }));
        }
        match forwarded.already {
            false => output::say(&format!("forwarded {id} to {} as {copy}", self.to)),
            true => output::say(&format!("{id} was forwarded to {} before, as {copy}", self.to)),
        }
    }
}
