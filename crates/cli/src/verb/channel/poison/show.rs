//! `netsky channel poison show`: one dead letter with its reason; changes nothing.

use netsky_bus::Bus;
use netsky_model::id::AgentId;
use netsky_model::life::State;
use netsky_model::witness::Nobody;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::run::Run;
use crate::verb::channel::{agent, show};

use super::{Dead, find};

/// Show one dead letter with its reason
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose dead letter
    #[arg(value_parser = agent)]
    agent: AgentId,
    /// Its id, which may be shortened where unambiguous, or the name of its file
    id: String,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let bus = Bus::open(cx.home()?, &Nobody);
        let entry = match find(&bus, &self.agent, &self.id)? {
            Dead::Letter(id) => bus.show(&self.agent, id.as_str())?,
            Dead::File(entry) => *entry,
        };
        if entry.state != State::Poisoned {
            let what = format!("{} of {} is {}, no dead letter", self.id, self.agent, entry.state);
            return Err(Error::new(Kind::NotFound, what).hint("see `netsky channel show`"));
        }
        show::entry(cx, &entry)
    }
}
