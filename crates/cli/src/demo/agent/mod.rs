//! The demo's agents: small real programs that live on the bus as any user's program would.
//!
//! Reading order: what all of them do, here; what agent0 does ([`root`]), what a clone does ([`worker`]), and the work itself
//! ([`task`]).

pub(crate) mod root;
pub(crate) mod task;
mod worker;

use std::time::Duration;

use netsky_disk::clock;
use netsky_model::id::{AgentId, EnvelopeId};

use crate::demo::place::Place;
use crate::demo::programs::own_verb;
use crate::error::{Error, Kind};

/// How long a turn thinks before it acts: long enough to be seen, and to be killed in.
const THINK: Duration = Duration::from_millis(300);

/// What an agent of the demo was started with.
pub(crate) struct Agent {
    pub(crate) me: AgentId,
    pub(crate) place: Place,
    /// How many clones there are.
    pub(crate) clones: u32,
}

/// Lives as the agent that the session's environment names; ends only with the session.
pub(crate) fn live(agent: &Agent) -> Result<(), Error> {
    match agent.me.number() {
        Some(0) => root::live(agent),
        Some(_) => worker::live(agent),
        None => Err(Error::new(Kind::Usage, format!("the demo has no part for {}", agent.me))),
    }
}

impl Agent {
    fn prove_up(&self) -> Result<(), Error> {
        own_verb(["session", "up"]).map(drop)
    }

    fn wait(&self) -> Result<(), Error> {
        own_verb(["channel", "wait", self.me.as_str()]).map(drop)
    }

    fn ack(&self, id: &EnvelopeId) -> Result<(), Error> {
        own_verb(["channel", "ack", self.me.as_str(), id.as_str()]).map(drop)
    }
}

fn think() {
    clock::pause(THINK);
}
