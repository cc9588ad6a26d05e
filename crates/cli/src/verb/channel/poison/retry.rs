//! `netsky channel poison retry`: the owner lets a dead letter be tried once more.

use netsky_bus::{Bus, Retried};
use netsky_model::id::AgentId;
use serde_json::json;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;
use crate::verb::channel::agent;

use super::{Dead, find};

/// Put a dead letter back into the inbox, for one more attempt
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose dead letter
    #[arg(value_parser = agent)]
    agent: AgentId,
    /// Its id, which may be shortened where unambiguous; of a file that has none, its name tells where it stays
    id: String,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        // A message that kills its readers must not be able to have itself tried again.
        cx.owner_only("channel poison retry")?;
        let layout = cx.home()?;
        let telemetry = cx.telemetry()?;
        let bus = Bus::open(layout, telemetry);
        let Retried { id, already } = match find(&bus, &self.agent, &self.id)? {
            Dead::Letter(id) => bus.retry(&self.agent, id.as_str())?,
            Dead::File(dead) => {
                if let Some(name) = &dead.name {
                    let what = format!("{} is the name of a file; its id is {}", dead.file, name.key.id);
                    return Err(Error::new(Kind::Usage, what).hint("nothing was done"));
                }
                let what = format!("{} is a file without a message's name, which no inbox takes", dead.file);
                let path = layout.folder(&self.agent, dead.state).join(&dead.file);
                let hint = format!("send anew what it says; it stays at {}", path.display());
                return Err(Error::new(Kind::Refused, what).hint(hint));
            }
        };
        if cx.json {
            return output::json(&json!({"id": id, "state": "written", "already": already}));
        }
        output::say(&format!("{id} waits {}", if already { "already" } else { "again" }))
    }
}
