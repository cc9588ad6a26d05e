//! `netsky channel poison list`: every dead letter, of one agent or of all, with its reason.

use std::num::NonZeroUsize;

use netsky_bus::{Bus, Entry};
use netsky_model::id::AgentId;
use netsky_model::life::State;
use netsky_model::witness::Nobody;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;
use crate::verb::channel::{agent, list};

/// List dead letters with their reasons
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose [default: everybody's]
    #[arg(value_parser = agent)]
    agent: Option<AgentId>,
    /// At most this many, the newest
    #[arg(long, value_name = "N", default_value_t = list::MAX_ROWS)]
    limit: NonZeroUsize,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let bus = Bus::open(cx.home()?, &Nobody);
        let agents = match &self.agent {
            Some(agent) => vec![agent.clone()],
            None => bus.agents()?,
        };
        if cx.json {
            let mut answer = output::Envelopes::printed();
            let left_out = self.each(&bus, &agents, |agent, entry| {
                let mut value = list::as_value(entry);
                value["agent"] = agent.as_str().into();
                answer.row(&value);
            })?;
            return answer.end(left_out);
        }
        let mut rows = Vec::new();
        let left_out = self.each(&bus, &agents, |agent, entry| rows.push(as_row(agent, entry)))?;
        output::table(&["agent", "id", "from", "attempt", "reason"], rows, "there are no dead letters")?;
        list::say_left_out(left_out)
    }
}

impl Args {
    /// Shows every dead letter within the limit, one after the other; how many are left out.
    fn each(
        &self,
        bus: &Bus<'_>,
        agents: &[AgentId],
        mut show: impl FnMut(&AgentId, &Entry),
    ) -> Result<usize, Error> {
        let (mut room, mut left_out) = (self.limit.get(), 0);
        for agent in agents {
            let listing = bus.listing(agent, Some(State::Poisoned), room)?;
            left_out += listing.left_out();
            for entry in listing.entries() {
                show(agent, &entry);
                room -= 1;
            }
        }
        Ok(left_out)
    }
}

fn as_row(agent: &AgentId, entry: &Entry) -> Vec<String> {
    let dash = || "-".to_owned();
    vec![
        agent.to_string(),
        entry.name.as_ref().map_or_else(|| entry.file.clone(), |name| name.key.id.to_string()),
        entry.envelope.as_ref().map_or_else(dash, |envelope| envelope.from.to_string()),
        entry.name.as_ref().map_or_else(dash, |name| name.attempt.to_string()),
        entry.problem.clone().unwrap_or_else(dash),
    ]
}
