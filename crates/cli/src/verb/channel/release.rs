//! `netsky channel release`: what somebody has and does not finish waits again.

use netsky_bus::{Bus, Owner};
use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::life::State;
use serde_json::json;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Give a claimed or delivered message back to the inbox
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose message
    #[arg(value_parser = super::agent)]
    agent: AgentId,
    /// Its id, which may be shortened where unambiguous
    id: EnvelopeId,
    /// Kill the process that holds it, if it does not let go
    #[arg(long)]
    kill: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        cx.may_take_for(&self.agent)?;
        let layout = cx.home()?;
        let telemetry = cx.telemetry()?;
        let owner = if self.kill { Owner::Killed } else { Owner::Spared };
        let released = Bus::open(layout, telemetry).take_back(&self.agent, self.id.as_str(), owner)?;
        let (id, attempt) = (&released.id, released.attempt);
        if cx.json {
            let (state, already) = (released.state.word(), released.already);
            return output::json(&json!({"id": id, "state": state, "attempt": attempt, "already": already}));
        }
        match (released.already, released.state) {
            (true, _) => output::say(&format!("{id} waits already, for attempt {attempt}")),
            (false, State::Poisoned) => {
                output::say(&format!("released {id}; attempt {attempt} was its last, it is a dead letter"))
            }
            (false, _) => output::say(&format!("released {id}; it waits for attempt {attempt}")),
        }
    }
}
