//! `netsky channel poison show`: one dead letter with its reason; changes nothing.

use netsky_bus::Bus;
use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::life::State;
use netsky_model::witness::Nobody;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::run::Run;
use crate::verb::channel::{agent, show};

/// Show one dead letter with its reason
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
        let entry = Bus::open(cx.home()?, &Nobody).show(&self.agent, self.id.as_str())?;
        if entry.state != State::Poisoned {
            let what = format!("{} of {} is {}, no dead letter", self.id, self.agent, entry.state);
            return Err(Error::new(Kind::NotFound, what).hint("see `netsky channel show`"));
        }
        show::entry(cx, &entry)
    }
}
