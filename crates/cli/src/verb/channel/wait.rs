//! `netsky channel wait`: sleeps until something can be drained.

use std::time::Duration;

use netsky_bus::Bus;
use netsky_model::duration;
use netsky_model::id::AgentId;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Wait until something waits for an agent
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose inbox
    #[arg(value_parser = super::agent)]
    agent: AgentId,
    /// Give up after this long (such as 30s) with exit code 5 [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    timeout: Option<Duration>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let layout = cx.home()?;
        let telemetry = cx.telemetry()?;
        let taker = cx.generation_of(&self.agent);
        if !Bus::open(layout, telemetry).wait(&self.agent, taker, self.timeout)? {
            let limit = self.timeout.map(duration::human).unwrap_or_default();
            let what = format!("nothing arrived for {} within {limit}", self.agent);
            return Err(Error::new(Kind::Busy, what).hint("wait again"));
        }
        if cx.json {
            return output::json(&serde_json::json!({"agent": self.agent, "waiting": true}));
        }
        output::say(&format!("something waits for {}", self.agent))
    }
}
