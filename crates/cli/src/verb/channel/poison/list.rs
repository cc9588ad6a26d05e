//! `netsky channel poison list`: every dead letter, of one agent or of all, with its reason.

use std::num::NonZeroUsize;

use netsky_bus::{Bus, Entry};
use netsky_model::id::AgentId;
use netsky_model::life::State;
use netsky_model::witness::Nobody;
use serde_json::json;

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
        let agents = match self.agent {
            Some(agent) => vec![agent],
            None => bus.agents()?,
        };
        let (mut found, mut left_out): (Vec<(AgentId, Entry)>, usize) = (Vec::new(), 0);
        for agent in agents {
            let room = self.limit.get().saturating_sub(found.len());
            let (entries, more) = bus.list_at_most(&agent, Some(State::Poisoned), room)?;
            left_out += more;
            found.extend(entries.into_iter().map(|entry| (agent.clone(), entry)));
        }
        if cx.json {
            let rows: Vec<_> = found
                .iter()
                .map(|(agent, entry)| {
                    let mut value = list::as_value(entry);
                    value["agent"] = agent.as_str().into();
                    value
                })
                .collect();
            return output::json(&json!({ "envelopes": rows, "left_out": left_out }));
        }
        let rows = found.iter().map(as_row).collect();
        output::table(&["agent", "id", "from", "attempt", "reason"], rows, "there are no dead letters")?;
        list::say_left_out(left_out)
    }
}

fn as_row((agent, entry): &(AgentId, Entry)) -> Vec<String> {
    let dash = || "-".to_owned();
    vec![
        agent.to_string(),
        entry.name.as_ref().map_or_else(|| entry.file.clone(), |name| name.key.id.to_string()),
        entry.envelope.as_ref().map_or_else(dash, |envelope| envelope.from.to_string()),
        entry.name.as_ref().map_or_else(dash, |name| name.attempt.to_string()),
        entry.problem.clone().unwrap_or_else(dash),
    ]
}
